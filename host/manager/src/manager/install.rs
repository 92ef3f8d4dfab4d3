//! From a file to a running controller: load, check, warm, switch.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::mpsc;

use super::{Manager, Running, options, user_agent};
use crate::{
    contract::LookupRule,
    controller::{Controller, Loaded},
    engine::{LoadError, Module},
    executor::{Executor, ExecutorConfig, SharedCache},
    key::Wake,
    queue::Queue,
    source::{DirectorySource, SourceEvent},
    telemetry::GuestLog,
};

/// How often files named by options are looked at for new content.
const OPTION_FILES_PERIOD: Duration = Duration::from_secs(10);

/// What comes back from work that was started for a file.
enum Done {
    Compiled { path: PathBuf, hash: String, took: Duration, result: Result<Module, LoadError> },
    Warm { path: PathBuf, hash: String, loaded: Box<Loaded> },
}

impl Manager {
    /// Follows the directory until the manager stops.
    pub(super) async fn follow_directory(self: Arc<Self>) {
        let mut source = DirectorySource::start(self.config.controllers_dir.clone(), self.cancel.clone());
        let (done_tx, mut done_rx) = mpsc::unbounded_channel();
        let mut option_files = tokio::time::interval(OPTION_FILES_PERIOD);
        loop {
            tokio::select! {
                event = source.next() => match event {
                    Some(event) => self.on_source(event, &done_tx),
                    None => break,
                },
                Some(done) = done_rx.recv() => {
                    self.on_done(done, &done_tx);
                    self.note_first_load();
                }
                _ = option_files.tick() => self.reload_option_files(&done_tx),
                () = self.cancel.cancelled() => break,
            }
        }
    }

    fn on_source(self: &Arc<Self>, event: SourceEvent, done: &mpsc::UnboundedSender<Done>) {
        match event {
            SourceEvent::Found { path, bytes, hash } => {
                {
                    let mut files = self.files.lock();
                    files.found(&path, &hash);
                    files.loading += 1;
                }
                let engine = self.engine.clone();
                let done = done.clone();
                tokio::spawn(async move {
                    let start = Instant::now();
                    let result = engine.load(bytes).await;
                    let _ = done.send(Done::Compiled { path, hash, took: start.elapsed(), result });
                });
            }
            SourceEvent::Scanned => {
                self.files.lock().scanned = true;
                self.note_first_load();
            }
            SourceEvent::Gone { path } => {
                let stopped = self.files.lock().gone(&path);
                let Some(name) = stopped else { return };
                self.stop_controller(&name, &path);
                let heir = self.files.lock().heir(&name);
                if let Some((path, hash)) = heir {
                    self.place(&path, &hash, Duration::ZERO, done);
                }
            }
            SourceEvent::Trouble { path, reason } => {
                tracing::error!(file = %path.display(), reason, "cannot be read");
                if path == self.config.controllers_dir {
                    self.files.lock().trouble(&path, reason);
                } else {
                    self.files.lock().refuse(&path, reason);
                }
            }
        }
    }

    fn on_done(self: &Arc<Self>, message: Done, done: &mpsc::UnboundedSender<Done>) {
        match message {
            Done::Compiled { path, hash, took, result } => {
                let mut files = self.files.lock();
                files.loading -= 1;
                let Some(file) = files.current(&path, &hash) else { return };
                match result {
                    Ok(module) => {
                        file.module = Some(module);
                        drop(files);
                        self.place(&path, &hash, took, done);
                    }
                    Err(error) => {
                        let running = file.runs.clone();
                        drop(files);
                        self.refuse(&path, running.as_deref(), error.to_string());
                    }
                }
            }
            Done::Warm { path, hash, loaded } => {
                let mut files = self.files.lock();
                if files.current(&path, &hash).is_none() {
                    return;
                }
                drop(files);
                self.switch(&path, *loaded);
            }
        }
    }

    fn note_first_load(&self) {
        let files = self.files.lock();
        if files.scanned && files.loading == 0 {
            self.first_load.send_replace(true);
        }
    }

    /// Finds a loaded module its place: start it, put it in the place of an
    /// older version, or leave it out and say why.
    fn place(self: &Arc<Self>, path: &Path, hash: &str, took: Duration, done: &mpsc::UnboundedSender<Done>) {
        let (module, running) = {
            let mut files = self.files.lock();
            let Some(file) = files.current(path, hash) else { return };
            let Some(module) = file.module.clone() else { return };
            (module, file.runs.clone())
        };
        let manifest = module.manifest().clone();
        let name = manifest.name.clone();
        if !self.config.selection.selects_module(&manifest) {
            tracing::info!(controller = name, file = %path.display(), "not selected by --controllers");
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
            self.stop_controller(before, path);
            self.set_runs(path, None);
        }
        let current = self.controller(&name);
        if current.as_ref().is_some_and(|c| c.current().module.hash() == module.hash()) && running.is_some() {
            tracing::info!(controller = name, file = %path.display(), "the content has not changed");
            return;
        }
        let queue = current.as_ref().map_or_else(|| Arc::new(Queue::new()), |c| c.queue().clone());
        let loaded = match self.assemble(module, path, &queue, current.as_deref()) {
            Ok(loaded) => loaded,
            Err(reason) => return self.refuse(path, current.is_some().then_some(name.as_str()), reason),
        };
        match current {
            None => self.start_controller(path, loaded, queue, took),
            Some(_) => {
                let done = done.clone();
                let (path, hash) = (path.to_owned(), hash.to_owned());
                let store = self.store.clone();
                let cancel = self.cancel.clone();
                tokio::spawn(async move {
                    let mut progress = store.progress();
                    while !loaded.view.is_ready() {
                        tokio::select! {
                            changed = progress.changed() => if changed.is_err() { return },
                            () = tokio::time::sleep(Duration::from_millis(200)) => {}
                            () = cancel.cancelled() => return,
                        }
                    }
                    let _ = done.send(Done::Warm { path, hash, loaded: Box::new(loaded) });
                });
            }
        }
    }

    /// Attaches a module to the store and gives it an executor.
    fn assemble(
        &self,
        module: Module,
        path: &Path,
        queue: &Arc<Queue>,
        current: Option<&Controller>,
    ) -> Result<Loaded, String> {
        let manifest = module.manifest().clone();
        let module = module.with_limits(self.config.limits.limits(&manifest.name, &manifest.aliases));
        let values = options::resolve(&manifest, &self.config.options).map_err(|e| e.to_string())?;
        let wake: Arc<dyn Wake> = queue.clone();
        let predecessor = current.map(Controller::current);
        let view = match &predecessor {
            None => self.store.attach(&manifest, wake),
            Some(old) => self.store.attach_successor(&old.view, &manifest, wake),
        }
        .map_err(|e| e.to_string())?;
        let mut config = ExecutorConfig::new(manifest.clone());
        config.qps = self.config.qps;
        config.burst = self.config.burst;
        config.signing = self.signing.clone();
        for rule in &manifest.lookups {
            if let LookupRule::Sign(key) = rule {
                self.signing.check(key);
            }
        }
        let executor = Executor::new(
            config,
            self.api.with_user_agent(&user_agent(&manifest.name)),
            self.registry.clone(),
            Arc::new(SharedCache::new(self.store.clone(), self.registry.clone())),
            self.events.clone(),
            self.config.entropy.clone(),
            self.config.clock.clone(),
        );
        let generation = predecessor.map_or(0, |old| old.generation + 1);
        let since = self.config.clock.now();
        Ok(Loaded::new(module, path.to_owned(), since, generation, view, executor, values))
    }

    fn start_controller(&self, path: &Path, loaded: Loaded, queue: Arc<Queue>, took: Duration) {
        let manifest = loaded.module.manifest().clone();
        let name = manifest.name.clone();
        let concurrency = match options::concurrency(&manifest, &self.config.options) {
            Ok(concurrency) => concurrency,
            Err(error) => return self.refuse(path, None, error.to_string()),
        };
        tracing::info!(
            controller = name, version = manifest.version, file = %path.display(), hash = short(loaded.module.hash()),
            took = ?took, "controller loaded"
        );
        let log = Arc::new(GuestLog::new(&name));
        let controller = Controller::new(loaded, queue, self.shared.clone(), concurrency, log);
        let task = tokio::spawn(controller.clone().run());
        self.controllers.lock().insert(name.clone(), Running { controller, task });
        self.set_runs(path, Some(name));
    }

    fn switch(&self, path: &Path, loaded: Loaded) {
        let manifest = loaded.module.manifest().clone();
        let Some(controller) = self.controller(&manifest.name) else { return };
        let old = controller.current();
        let (old_version, old_hash) =
            (old.module.manifest().version.clone(), short(old.module.hash()).to_owned());
        drop(old);
        let hash = short(loaded.module.hash()).to_owned();
        let start = Instant::now();
        controller.swap(loaded);
        tracing::info!(
            controller = manifest.name, file = %path.display(), old_version, old_hash, version = manifest.version, hash,
            took = ?start.elapsed(), "controller swapped"
        );
        self.set_runs(path, Some(manifest.name.clone()));
    }

    fn stop_controller(&self, name: &str, path: &Path) {
        let running = self.controllers.lock().remove(name);
        if let Some(running) = running {
            running.controller.stop();
            tracing::info!(controller = name, file = %path.display(), "controller unloaded: its file is gone");
        }
    }

    fn refuse(&self, path: &Path, running: Option<&str>, reason: String) {
        match running {
            Some(controller) => tracing::error!(
                file = %path.display(), controller, reason, "module refused; the version that was loaded before goes on"
            ),
            None => tracing::error!(file = %path.display(), reason, "module refused"),
        }
        self.files.lock().refuse(path, reason);
    }

    fn set_runs(&self, path: &Path, name: Option<String>) {
        if let Some(file) = self.files.lock().get_mut(path) {
            if name.is_some() {
                file.refused = None;
            }
            file.runs = name;
        }
    }

    /// Gives controllers with files among their options the new content.
    fn reload_option_files(self: &Arc<Self>, done: &mpsc::UnboundedSender<Done>) {
        let running: Vec<_> = self.controllers.lock().values().map(|one| one.controller.clone()).collect();
        for controller in running {
            let current = controller.current();
            if !options::has_files(current.module.manifest()) {
                continue;
            }
            match options::resolve(current.module.manifest(), &self.config.options) {
                Ok(values) if values == current.options => {}
                Ok(_) => {
                    tracing::info!(controller = controller.name(), "a file named by an option has changed");
                    let assembled = self.assemble(
                        current.module.clone(),
                        &current.path,
                        controller.queue(),
                        Some(&controller),
                    );
                    if let Ok(loaded) = assembled {
                        let (path, hash) = (current.path.clone(), current.module.hash().to_owned());
                        let _ = done.send(Done::Warm { path, hash, loaded: Box::new(loaded) });
                    }
                }
                Err(error) => {
                    tracing::warn!(controller = controller.name(), %error, "keeping the content read before");
                }
            }
        }
    }
}

fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}
