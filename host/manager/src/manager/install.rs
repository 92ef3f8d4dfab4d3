//! From a file to a module that may take its place: found, loaded, checked.
//!
//! In: what happens to files, and what the operator asks. Out: candidates, which
//! [`super::rollout`] warms and switches to. Kept: one task takes all of it in
//! order, so that nothing here races with anything else here.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::{mpsc, oneshot};

use super::{
    Manager,
    files::Heir,
    options,
    rollbacks::RolledBack,
    rollout::{Candidate, Origin},
    stage::{Compiling, Stage},
    user_agent,
};
use crate::{
    contract::LookupRule,
    controller::{Controller, Loaded, Probation},
    credentials,
    engine::{LoadError, LoadStep, Module, short},
    executor::{Executor, ExecutorConfig, SharedCache},
    key::Wake,
    queue::Queue,
    source::{DirectorySource, SourceEvent},
};

/// How often files named by options are looked at for new content.
const OPTION_FILES_PERIOD: Duration = Duration::from_secs(10);

/// What there is to do for the task that follows the directory.
pub(super) enum Work {
    /// Loading a file takes a while.
    Step { path: PathBuf, hash: String, step: LoadStep },
    /// A file was loaded, or was not.
    Loaded { path: PathBuf, hash: String, took: Duration, result: Result<Module, LoadError> },
    /// All that a candidate reads is in the cache.
    Warmed(Box<Candidate>),
    /// A candidate has come through what lies between warmed and live, or not.
    Rehearsed(Box<Candidate>, Result<(), String>),
    /// A version that is live goes wrong too often.
    Unfit { controller: String, hash: String, reason: String },
    /// The operator wants the version before.
    Rollback { controller: String, reply: oneshot::Sender<Result<String, String>> },
    /// The operator wants all files looked at now.
    Reload,
}

impl Manager {
    /// Follows the directory until the manager stops.
    pub(super) async fn follow_directory(self: Arc<Self>, mut work: mpsc::UnboundedReceiver<Work>) {
        let mut source = DirectorySource::start(self.config.controllers_dir.clone(), self.cancel.clone());
        let mut option_files = tokio::time::interval(OPTION_FILES_PERIOD);
        let mut admitted = self.admission.subscribe();
        loop {
            tokio::select! {
                event = source.next() => match event {
                    Some(event) => self.on_source(event),
                    None => break,
                },
                Some(work) = work.recv() => self.on_work(work, &source),
                Ok(_) = admitted.wait_for(|admitted| *admitted), if !self.admission.is_placed() => {
                    let waiting = self.files.lock().waiting();
                    for (path, hash) in waiting {
                        self.place(&path, &hash);
                    }
                    self.admission.set_placed();
                }
                _ = option_files.tick() => self.reload_option_files(),
                () = self.cancel.cancelled() => break,
            }
        }
    }

    /// Leaves something to the task that follows the directory.
    pub(super) fn post(&self, work: Work) {
        // It fails only once the manager has stopped.
        let _ = self.work.send(work);
    }

    fn on_source(self: &Arc<Self>, event: SourceEvent) {
        match event {
            SourceEvent::Found { path, bytes, hash } => self.load(path, bytes, hash),
            SourceEvent::Scanned => {
                self.files.lock().scanned = true;
                self.note_first_load();
                self.warn_if_empty();
            }
            SourceEvent::Gone { path } => self.on_gone(&path),
            SourceEvent::Moved { from, to, bytes, hash } => {
                if !self.move_file(&from, &to) {
                    // It sets out anew.
                    self.on_gone(&from);
                    self.load(to, bytes, hash);
                }
            }
            SourceEvent::Trouble { path, reason } => {
                tracing::error!(file = %path.display(), reason, "cannot be read");
                if path == self.config.controllers_dir {
                    self.files.lock().directory(Some(reason));
                } else {
                    self.advance(&path, Stage::Refused, Some(reason));
                }
            }
            SourceEvent::Recovered { path } => {
                tracing::info!(directory = %path.display(), "can be read again");
                self.files.lock().directory(None);
            }
        }
    }

    /// A file is gone. Its controller goes on from another that holds it, or ends.
    fn on_gone(self: &Arc<Self>, path: &Path) {
        let (stopped, heir) = {
            let mut files = self.files.lock();
            let stopped = files.gone(path);
            let heir = stopped.as_ref().and_then(|name| files.heir(name));
            (stopped, heir)
        };
        match (stopped, heir) {
            (Some(name), Some(Heir { path: to, hash, is_free })) => {
                if is_free {
                    tracing::info!(controller = name, from = %path.display(), to = %to.display(), "the file is gone: the controller goes on from another");
                    self.files.lock().runs(&to, &name);
                    self.relocate(&name, &to);
                } else {
                    self.stop_controller(&name, path, "its file is gone");
                }
                self.place(&to, &hash);
            }
            (Some(name), None) => self.stop_controller(&name, path, "its file is gone"),
            (None, _) => {}
        }
        self.warn_if_empty();
    }

    /// Notes that a file was renamed: what runs from it does so under the new name. Not where nothing does, or
    /// its content is still on its way.
    fn move_file(&self, from: &Path, to: &Path) -> bool {
        let Some((runs, replaced)) = self.files.lock().move_to(from, to) else { return false };
        if let Some(name) = replaced {
            self.stop_controller(&name, to, "its file holds another module");
        }
        self.rollbacks.move_to(from, to);
        self.relocate(&runs, to);
        tracing::info!(controller = runs, from = %from.display(), to = %to.display(), "file renamed");
        true
    }

    fn relocate(&self, name: &str, path: &Path) {
        if let Some(controller) = self.controller(name) {
            controller.current().set_path(path.to_owned());
        }
    }

    fn on_work(self: &Arc<Self>, work: Work, source: &DirectorySource) {
        match work {
            Work::Step { path, hash, step } => self.on_step(&path, &hash, step),
            Work::Loaded { path, hash, took, result } => {
                self.on_loaded(&path, &hash, took, result);
                self.note_first_load();
            }
            Work::Warmed(candidate) => self.on_warmed(*candidate),
            Work::Rehearsed(candidate, Ok(())) => self.go_live(*candidate),
            Work::Rehearsed(candidate, Err(reason)) => {
                let name = candidate.loaded.module.manifest().name.clone();
                if candidate.is_current(self) {
                    self.refuse_for_good(&candidate, &name, reason);
                }
            }
            Work::Unfit { controller, hash, reason } => self.on_unfit(&controller, &hash, reason),
            Work::Rollback { controller, reply } => self.on_rollback(&controller, reply),
            Work::Reload => {
                tracing::info!("looking at all files now");
                source.look_now();
                self.reload_option_files();
            }
        }
    }

    /// Refuses a version that did not stand the test, over a restart as well.
    fn refuse_for_good(&self, candidate: &Candidate, controller: &str, reason: String) {
        if let Some(controller) = self.controller(controller) {
            self.rollbacks.keep(&RolledBack {
                file: candidate.path.clone(),
                refused: candidate.loaded.module.hash().to_owned(),
                runs: controller.current().module.hash().to_owned(),
                reason: reason.clone(),
                at: self.config.clock.now(),
            });
        }
        self.refuse(&candidate.path, Some(controller), reason);
    }

    fn load(self: &Arc<Self>, path: PathBuf, bytes: Vec<u8>, hash: String) {
        let before = self.files.lock().is_new(&path).then(|| self.rollbacks.get(&path, &hash)).flatten();
        if let Some(record) = before {
            return self.load_instead(path, record);
        }
        let found = self.files.lock().found(&path, &hash, self.config.clock.now());
        let Some(wanted) = found else {
            tracing::warn!(file = %path.display(), hash = short(&hash), "the same content was rolled back before and stays refused");
            return;
        };
        self.rollbacks.forget(&path);
        if self.runs_already(&path, &hash) {
            return;
        }
        self.files.lock().loading += 1;
        self.advance(&path, Stage::Noticed, None);
        let engine = self.engine.clone();
        let work = self.work.clone();
        tokio::spawn(async move {
            let start = Instant::now();
            let observe = |step| {
                let _ = work.send(Work::Step { path: path.clone(), hash: hash.clone(), step });
            };
            // Of several builds in a row only the newest is worth compiling.
            let result = wanted.run_until_cancelled(engine.load_observed(bytes, observe)).await;
            let result = result.unwrap_or(Err(LoadError::Superseded));
            let took = start.elapsed();
            let _ = work.send(Work::Loaded { path, hash, took, result });
        });
    }

    /// Whether new content of a file is what its controller runs: a file that was put back. Nothing is to be done.
    fn runs_already(&self, path: &Path, hash: &str) -> bool {
        let name = self.files.lock().get(path).and_then(|file| file.runs.clone());
        let Some(controller) = name.and_then(|name| self.controller(&name)) else { return false };
        let module = controller.current().module.clone();
        if module.hash() != hash {
            return false;
        }
        if let Some(file) = self.files.lock().current(path, hash) {
            file.module = Some(module);
        }
        self.note(path, Stage::Live, None);
        tracing::info!(
            controller = controller.name(), file = %path.display(), hash = short(hash),
            "the file holds the version that runs"
        );
        true
    }

    /// Loads the version that ran when the manager stopped, since what the file
    /// holds had been gone back from.
    fn load_instead(self: &Arc<Self>, path: PathBuf, record: RolledBack) {
        tracing::warn!(
            file = %path.display(), hash = short(&record.refused), reason = record.reason, since = %record.at,
            "this content was rolled back earlier and stays refused; {} is loaded in its place",
            short(&record.runs)
        );
        {
            let mut files = self.files.lock();
            files.found_refused(&path, &record);
            files.loading += 1;
        }
        let (engine, work) = (self.engine.clone(), self.work.clone());
        tokio::spawn(async move {
            let start = Instant::now();
            let result = engine.load_kept(&record.runs).await;
            let _ = work.send(Work::Loaded { path, hash: record.refused, took: start.elapsed(), result });
        });
    }

    fn on_step(&self, path: &Path, hash: &str, step: LoadStep) {
        let Compiling { begun, of } = {
            let mut files = self.files.lock();
            match step {
                LoadStep::Waits => files.compiling.of += 1,
                LoadStep::Compiling => files.compiling.begun += 1,
            }
            files.compiling
        };
        if step == LoadStep::Compiling {
            tracing::info!(file = %path.display(), "compiling {begun} of {of}");
            if self.files.lock().current(path, hash).is_some() {
                self.advance(path, Stage::Compiling, None);
            }
        }
    }

    fn on_loaded(
        self: &Arc<Self>,
        path: &Path,
        hash: &str,
        took: Duration,
        result: Result<Module, LoadError>,
    ) {
        let mut files = self.files.lock();
        files.loading -= 1;
        if files.loading == 0 {
            files.compiling = Compiling::default();
        }
        let Some(file) = files.current(path, hash) else { return };
        match result {
            // The same content came again since, and is being loaded again.
            Err(LoadError::Superseded) => {}
            Ok(module) => {
                (file.module, file.took) = (Some(module), took);
                drop(files);
                if self.admission.is_placed() {
                    self.place(path, hash);
                }
            }
            Err(error @ LoadError::NotKept(_)) => {
                let reason = file.reason.clone().unwrap_or_default();
                drop(files);
                self.refuse(
                    path,
                    None,
                    format!("{reason}; and {error}, so nothing runs: put a version that works in the file"),
                );
            }
            Err(error) => {
                let running = file.runs.clone();
                drop(files);
                self.refuse(path, running.as_deref(), error.to_string());
            }
        }
    }

    fn note_first_load(&self) {
        let files = self.files.lock();
        if files.scanned && files.loading == 0 {
            self.first_load.send_replace(true);
        }
    }

    fn warn_if_empty(&self) {
        if self.files.lock().is_empty() {
            tracing::warn!(
                directory = %self.config.controllers_dir.display(),
                "there are no modules (*.wasm) here, so nothing runs; build them with `make guests`, or say where they are with --controllers-dir"
            );
        }
    }

    /// Finds a loaded module its place: start it, put it in the place of an
    /// older version, or leave it out and say why.
    fn place(self: &Arc<Self>, path: &Path, hash: &str) {
        let (module, took, running) = {
            let mut files = self.files.lock();
            let Some(file) = files.current(path, hash) else { return };
            let Some(module) = file.module.clone() else { return };
            (module, file.took, file.runs.clone())
        };
        let manifest = module.manifest().clone();
        let name = manifest.name.clone();
        if !self.config.selection.selects_module(&manifest) {
            tracing::info!(controller = name, file = %path.display(), "not selected by --controllers");
            self.advance(path, Stage::Unselected, None);
            return;
        }
        if let Some(component) = self.election.left_to(&name, &manifest.aliases) {
            tracing::info!(controller = name, component, file = %path.display(), "left to another component by leader migration");
            self.advance(path, Stage::Unselected, None);
            return;
        }
        let owner = self.files.lock().owner(&name, path);
        if let Some(owner) = owner {
            let reason = format!(
                "it is a {name} too, which runs from {}; remove one of the two files, or give the controller another name",
                owner.display()
            );
            self.refuse(path, running.as_deref(), reason);
            return;
        }
        if let Some(before) = running.as_deref().filter(|before| *before != name) {
            self.stop_controller(before, path, &format!("its file holds {name}"));
            self.files.lock().runs_nothing(path);
        }
        let current = self.controller(&name);
        if current.as_ref().is_some_and(|c| c.current().module.hash() == module.hash()) && running.is_some() {
            self.note(path, Stage::Live, None);
            return;
        }
        let queue = current.as_ref().map_or_else(|| Arc::new(Queue::new()), |c| c.queue().clone());
        let loaded = match self.assemble(module, path, queue.clone(), current.as_deref()) {
            Ok(loaded) => loaded,
            Err(reason) => return self.refuse(path, current.is_some().then_some(name.as_str()), reason),
        };
        let refused = self.files.lock().refused(path);
        self.advance(path, Stage::Checked, None);
        match current {
            None => {
                self.start_controller(path, loaded, queue, took);
                if let Some((_, reason, _)) = refused {
                    self.advance(path, Stage::RolledBack, Some(reason));
                }
            }
            Some(_) => {
                let path = path.to_owned();
                self.warm(Candidate {
                    path,
                    loaded: Arc::new(loaded),
                    origin: Origin::File { hash: hash.to_owned() },
                });
            }
        }
    }

    /// Attaches a module to the store and gives it an executor.
    pub(super) fn assemble(
        &self,
        module: Module,
        path: &Path,
        wake: Arc<dyn Wake>,
        current: Option<&Controller>,
    ) -> Result<Loaded, String> {
        let manifest = module.manifest().clone();
        let module = module.with_limits(self.config.limits.limits(&manifest.name, &manifest.aliases));
        let values = options::resolve(&manifest, &self.config.options).map_err(|e| e.to_string())?;
        let predecessor = current.map(Controller::current);
        let view = match &predecessor {
            None => self.store.attach_granted(&manifest, wake, self.policies.grants(&manifest)),
            Some(old) => self.store.attach_successor(&old.view, &manifest, wake),
        }
        .map_err(|e| e.to_string())?;
        let mut config = ExecutorConfig::new(manifest.clone());
        config.qps = self.config.qps;
        config.burst = self.config.burst;
        if let Some(name) = &self.config.operating.field_manager {
            config.field_manager.clone_from(name);
        }
        config.signing = self.signing.clone();
        config.grants = view.grants().clone();
        config.metrics = Some(self.shared.metrics.controller(&manifest.name));
        for rule in &manifest.lookups {
            if let LookupRule::Sign(key) = rule {
                self.signing.check(key);
            }
        }
        let user_agent = user_agent(&manifest.name, &self.user_agent_end);
        let api = match (&self.accounts, credentials::account(&manifest)) {
            (Some(accounts), Some(name)) => accounts.client(name, &user_agent),
            _ => self.api.with_user_agent(&user_agent),
        };
        let executor = Executor::new(
            config,
            api,
            self.registry.clone(),
            Arc::new(SharedCache::new(self.store.clone(), self.registry.clone())),
            self.events.clone(),
            self.config.entropy.clone(),
            self.config.clock.clone(),
        );
        let since = self.config.clock.now();
        // The same module under other options goes on as it did.
        let same = predecessor.as_ref().filter(|old| old.module.hash() == module.hash());
        let probation = match same {
            Some(old) => old.probation.clone(),
            None => Arc::new(self.probation(&manifest.name, module.hash())),
        };
        let generation = predecessor.map_or(0, |old| old.generation() + 1);
        let mut loaded = Loaded::new(module, path.to_owned(), since, generation, view, executor, values);
        loaded.probation = probation;
        Ok(loaded)
    }

    fn probation(&self, controller: &str, hash: &str) -> Probation {
        let (work, controller, hash) = (self.work.clone(), controller.to_owned(), hash.to_owned());
        Probation::new(Box::new(move |reason| {
            let _ = work.send(Work::Unfit { controller: controller.clone(), hash: hash.clone(), reason });
        }))
    }

    /// Gives controllers with files among their options the new content.
    fn reload_option_files(self: &Arc<Self>) {
        for controller in self.running_controllers() {
            let current = controller.current();
            if !options::has_files(current.module.manifest()) {
                continue;
            }
            match options::resolve(current.module.manifest(), &self.config.options) {
                Ok(values) if values == current.options => {}
                Ok(_) => {
                    tracing::info!(controller = controller.name(), "a file named by an option has changed");
                    let (module, path) = (current.module.clone(), current.path());
                    let assembled =
                        self.assemble(module, &path, controller.queue().clone(), Some(&controller));
                    if let Ok(loaded) = assembled {
                        self.post(Work::Warmed(Box::new(Candidate {
                            path,
                            loaded: Arc::new(loaded),
                            origin: Origin::Options,
                        })));
                    }
                }
                Err(error) => {
                    tracing::warn!(controller = controller.name(), %error, "keeping the content read before");
                }
            }
        }
    }
}
