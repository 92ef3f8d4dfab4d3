//! From a candidate to the version that runs, and back.
//!
//! In: modules that passed all checks. Out: running controllers. Kept: until the
//! switch the version before goes on, whatever becomes of the candidate; what was
//! switched away from can be gone back to, and what was gone back from is not
//! tried again until its file changes.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::{Manager, Running, Unloaded, install::Work, options, rollbacks::RolledBack, stage::Stage};
use crate::{
    controller::{Controller, Loaded},
    engine::{Module, short},
    queue::Queue,
    telemetry::GuestLog,
};

/// Versions that can be gone back to, one after the other.
const HISTORY: usize = 3;

/// A version that is to take the place of the one that runs.
pub(super) struct Candidate {
    /// The file of its controller.
    pub path: PathBuf,
    /// All of it.
    pub loaded: Arc<Loaded>,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where a candidate comes from.
pub(super) enum Origin {
    /// New content of its file, of this hash.
    File {
        /// The hash.
        hash: String,
    },
    /// The version that runs, with other options.
    Options,
    /// An earlier version.
    Rollback {
        /// What was wrong with the one that runs.
        reason: String,
        /// Whom to tell.
        reply: Option<oneshot::Sender<Result<String, String>>>,
    },
}

impl Candidate {
    /// Whether nothing newer has come in its way.
    pub(super) fn is_current(&self, manager: &Manager) -> bool {
        match &self.origin {
            Origin::File { hash } => manager.files.lock().current(&self.path, hash).is_some(),
            Origin::Options | Origin::Rollback { .. } => {
                let controller = manager.controller(&self.loaded.module.manifest().name);
                controller.is_some_and(|c| c.current().generation() + 1 == self.loaded.generation())
            }
        }
    }
}

impl Manager {
    /// Notes how far the newest content of a file has come. What concerns a
    /// controller that runs is told in the log.
    pub(super) fn advance(&self, path: &Path, stage: Stage, reason: Option<String>) {
        let running = self.note(path, stage, reason);
        let (file, stage) = (path.display(), stage.name());
        match running {
            Some(controller) => tracing::info!(controller, %file, stage, "new version {stage}"),
            None => tracing::debug!(%file, stage, "module {stage}"),
        }
    }

    /// Notes how far the newest content of a file has come, without a word; the controller that runs from it.
    pub(super) fn note(&self, path: &Path, stage: Stage, reason: Option<String>) -> Option<String> {
        self.stages.add(stage);
        self.files.lock().advance(path, stage, reason, self.config.clock.now())
    }

    /// Starts the first version of a controller.
    pub(super) fn start_controller(&self, path: &Path, loaded: Loaded, queue: Arc<Queue>, took: Duration) {
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
        if let Some(lacks) = options::lacks(&manifest, &self.config.options) {
            tracing::warn!(controller = name, "{lacks}");
        }
        let log = Arc::new(GuestLog::new(&name));
        let leadership = self.election.join(&name, &manifest.aliases);
        let controller = Controller::new(loaded, queue, self.shared.clone(), concurrency, log, leadership);
        self.config.observers.iter().for_each(|observer| controller.observe(observer.clone()));
        if let Some(recording) = &self.recording {
            controller.observe(recording.observer());
        }
        let pause = self.config.operating.pause(&self.config.entropy);
        let task = tokio::spawn({
            let controller = controller.clone();
            async move {
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = controller.stopping() => {}
                }
                controller.run().await;
            }
        });
        self.controllers.lock().insert(name.clone(), Running { controller, task, history: Vec::new() });
        self.advance(path, Stage::Live, None);
        self.files.lock().runs(path, &name);
    }

    /// Waits until all that a candidate reads is in the cache.
    pub(super) fn warm(self: &Arc<Self>, candidate: Candidate) {
        if matches!(candidate.origin, Origin::File { .. }) && !candidate.loaded.view.is_ready() {
            self.advance(&candidate.path, Stage::Warming, None);
        }
        let manager = self.clone();
        tokio::spawn(async move {
            let mut progress = manager.store.progress();
            while !candidate.loaded.view.is_ready() {
                if !candidate.is_current(&manager) {
                    return;
                }
                tokio::select! {
                    changed = progress.changed() => if changed.is_err() { return },
                    // Not every step to being ready ticks the store.
                    () = tokio::time::sleep(Duration::from_millis(200)) => {}
                    () = manager.cancel.cancelled() => return,
                }
            }
            manager.post(Work::Warmed(Box::new(candidate)));
        });
    }

    pub(super) fn on_warmed(self: &Arc<Self>, candidate: Candidate) {
        if !candidate.is_current(self) {
            return;
        }
        if !matches!(candidate.origin, Origin::File { .. }) {
            return self.go_live(candidate);
        }
        self.advance(&candidate.path, Stage::Warmed, None);
        if let Some(candidate) = self.rehearse(candidate) {
            self.go_live(candidate);
        }
    }

    /// Puts a candidate in the place of the version that runs.
    pub(super) fn go_live(self: &Arc<Self>, candidate: Candidate) {
        if !candidate.is_current(self) {
            return self.forsake(&candidate);
        }
        let Candidate { path, loaded, origin } = candidate;
        let manifest = loaded.module.manifest().clone();
        let name = manifest.name.clone();
        let Some(controller) = self.controller(&name) else { return };
        if controller.must_drain(&manifest) {
            return self.drain(controller, Candidate { path, loaded, origin });
        }
        let old = controller.current();
        // What does not come from the file follows it where it was renamed.
        let path = if matches!(origin, Origin::File { .. }) { path } else { old.path() };
        loaded.set_path(path.clone());
        loaded.set_generation(old.generation() + 1);
        let (old_module, clean) = (old.module.clone(), old.probation.is_clean());
        let (old_version, old_hash) = (&old_module.manifest().version, short(old_module.hash()));
        let hash = short(loaded.module.hash()).to_owned();
        drop(old);
        let start = Instant::now();
        match origin {
            Origin::File { .. } => controller.swap(loaded),
            Origin::Options | Origin::Rollback { .. } => controller.replace(loaded),
        }
        controller.queue().refill();
        let took = start.elapsed();
        match origin {
            Origin::File { .. } => {
                tracing::info!(
                    controller = name, file = %path.display(), old_version, old_hash, version = manifest.version, hash,
                    took = ?took, "controller swapped"
                );
                // What was about to be gone back from is not to be gone back to.
                if clean {
                    self.remember(&name, old_module);
                }
                self.advance(&path, Stage::Live, None);
                self.files.lock().runs(&path, &name);
            }
            Origin::Options => {
                tracing::info!(controller = name, version = manifest.version, hash, "options taken over");
            }
            Origin::Rollback { reason, reply } => {
                let runs = controller.current().module.hash().to_owned();
                let refused = self.refused_instead(&path, &name, runs, &old_module);
                controller.counters().rollbacks.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    controller = name, file = %path.display(), old_version, old_hash, version = manifest.version, hash,
                    reason, took = ?took, "controller rolled back; {refused}"
                );
                if let Some(reply) = reply {
                    let _ = reply.send(Ok(format!(
                        "{name} runs version {} ({hash}) again; {refused}",
                        manifest.version
                    )));
                }
            }
        }
    }

    /// What becomes of the content of a controller's file after a rollback, for
    /// people: it is refused, and that is remembered, unless it is what runs now.
    fn refused_instead(&self, path: &Path, name: &str, runs: String, old: &Module) -> String {
        let file = path.display();
        if self.files.lock().restore(path, &runs) {
            self.rollbacks.forget(path);
            self.advance(path, Stage::Live, None);
            self.files.lock().runs(path, name);
            return format!("it is what {file} holds");
        }
        let Some((refused, reason, at)) = self.files.lock().refused(path) else {
            return format!("newer content of {file} is on its way");
        };
        // Steps further back leave the file's content behind, and not what ran last.
        let what = if refused == old.hash() { old.manifest().version.as_str() } else { "the content" };
        let said = format!("{what} ({}) is refused until {file} changes", short(&refused));
        self.rollbacks.keep(&RolledBack { file: path.to_owned(), refused, runs, reason, at });
        said
    }

    /// Lets keys under way finish and takes no others; then the candidate goes
    /// live.
    fn drain(self: &Arc<Self>, controller: Arc<Controller>, candidate: Candidate) {
        tracing::info!(
            controller = controller.name(),
            "key sources change: waiting until no key is under way"
        );
        controller.queue().drain();
        let manager = self.clone();
        tokio::spawn(async move {
            while !controller.queue().is_drained() && candidate.is_current(&manager) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            if candidate.is_current(&manager) {
                manager.post(Work::Rehearsed(Box::new(candidate), Ok(())));
            } else {
                controller.queue().refill();
            }
        });
    }

    fn remember(&self, name: &str, module: Module) {
        if let Some(running) = self.controllers.lock().get_mut(name) {
            running.history.push(module);
            let surplus = running.history.len().saturating_sub(HISTORY);
            running.history.drain(..surplus);
        }
    }

    /// A version goes wrong too often within its first reconciles.
    pub(super) fn on_unfit(self: &Arc<Self>, name: &str, hash: &str, reason: String) {
        let Some(controller) = self.controller(name) else { return };
        let current = controller.current();
        if current.module.hash() != hash {
            return;
        }
        match self.go_back(&controller, reason.clone(), None) {
            Ok(()) => {}
            Err((why_not, _)) => {
                tracing::error!(
                    controller = name, file = %current.path().display(), hash = short(hash), reason,
                    "{why_not}: it is slowed as long as nothing else comes of it; put a version that works in its file"
                );
                let path = current.path();
                if let Some(file) = self.files.lock().current(&path, hash) {
                    file.reason = Some(format!("{reason}; {why_not}"));
                }
            }
        }
    }

    pub(super) fn on_rollback(self: &Arc<Self>, name: &str, reply: oneshot::Sender<Result<String, String>>) {
        let controller = match self.named(name) {
            Ok(controller) => controller,
            Err(reason) => {
                let _ = reply.send(Err(reason));
                return;
            }
        };
        if let Some(said) = self.call_off(&controller) {
            let _ = reply.send(Ok(said));
            return;
        }
        let reason = "the operator asked for it (coxswain rollback)".to_owned();
        if let Err((why_not, Some(reply))) = self.go_back(&controller, reason, Some(reply)) {
            let _ = reply.send(Err(format!("{}: {why_not}", controller.name())));
        }
    }

    /// Sets out for the version before. An error says why there is no way, and
    /// gives the reply back.
    fn go_back(
        self: &Arc<Self>,
        controller: &Arc<Controller>,
        reason: String,
        reply: Option<oneshot::Sender<Result<String, String>>>,
    ) -> Result<(), (String, Option<oneshot::Sender<Result<String, String>>>)> {
        let name = controller.name();
        let current = controller.current();
        let path = current.path();
        let before = self.controllers.lock().get_mut(name).and_then(|running| running.history.pop());
        let Some(before) = before else {
            let why_not = format!(
                "there is no version to go back to: {} ({}) is the oldest one that is kept",
                current.module.manifest().version,
                short(current.module.hash())
            );
            return Err((why_not, reply));
        };
        let assembled = self.assemble(before.clone(), &path, controller.queue().clone(), Some(controller));
        let loaded = match assembled {
            Ok(loaded) => loaded,
            Err(error) => {
                self.remember(name, before);
                return Err((format!("the version before cannot be set up again: {error}"), reply));
            }
        };
        // Newer content that is on its way already is not what goes wrong.
        if self.files.lock().current(&path, current.module.hash()).is_some() {
            self.advance(&path, Stage::RolledBack, Some(format!("rolled back: {reason}")));
        }
        self.warm(Candidate { path, loaded: Arc::new(loaded), origin: Origin::Rollback { reason, reply } });
        Ok(())
    }

    /// Goes back to the version of a controller that ran before, by hand, or calls a new one off that is not live yet. Says
    /// what runs now, or why nothing was done.
    pub async fn rollback(&self, controller: &str) -> Result<String, String> {
        let (reply, answer) = oneshot::channel();
        self.post(Work::Rollback { controller: controller.to_owned(), reply });
        answer.await.unwrap_or_else(|_| {
            Err("it was overtaken by another version of the file, or the manager is stopping".into())
        })
    }

    /// Looks at all files now, without waiting for notice of a change.
    pub fn reload(&self) {
        self.post(Work::Reload);
    }

    /// Stops a controller for which there is no module any more; `reason` is for people.
    pub(super) fn stop_controller(&self, name: &str, path: &Path, reason: &str) {
        let running = self.controllers.lock().remove(name);
        if let Some(running) = running {
            running.controller.stop();
            tracing::info!(controller = name, file = %path.display(), "controller unloaded: {reason}");
            self.files.lock().unloaded(Unloaded {
                controller: name.to_owned(),
                file: path.display().to_string(),
                reason: reason.to_owned(),
                at: self.config.clock.now(),
            });
            let aliases = running.controller.current().module.manifest().aliases.clone();
            let (election, name) = (self.election.clone(), name.to_owned());
            tokio::spawn(async move {
                // Its last plan is still carried out under the lease.
                let _ = running.task.await;
                election.leave(&name, &aliases);
            });
        }
    }

    pub(super) fn refuse(&self, path: &Path, running: Option<&str>, reason: String) {
        match running {
            Some(controller) => tracing::error!(
                file = %path.display(), controller, reason, "module refused; the version that was loaded before goes on"
            ),
            None => tracing::error!(file = %path.display(), reason, "module refused"),
        }
        self.note(path, Stage::Refused, Some(reason));
    }
}
