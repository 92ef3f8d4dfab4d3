//! Candidates that are only compared: `--shadow NAME=FILE`.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{Manager, Refusal};
use crate::{
    controller::{
        Controller, Loaded,
        shadow::{Deaf, Shadow},
    },
    engine::Module,
    key::Cause,
    source::{DirectorySource, SourceEvent},
};

/// Pause between two looks at whether a candidate can be asked.
const LOOK: Duration = Duration::from_millis(200);

/// How far a candidate has come.
#[derive(Default)]
struct Progress {
    module: Option<Module>,
    /// Attached, and not yet ready.
    warming: Option<Arc<Loaded>>,
    running: Option<(Arc<Controller>, Arc<Shadow>)>,
}

impl Progress {
    fn stop(&mut self) {
        self.warming = None;
        if let Some((controller, shadow)) = self.running.take() {
            controller.unwatch(&shadow);
        }
    }
}

impl Manager {
    /// Follows the files of all shadows until the manager stops.
    pub(super) fn follow_shadows(self: &Arc<Self>) {
        for (name, file) in self.config.rollout.shadows.clone() {
            let task = tokio::spawn(self.clone().follow_shadow(name, file));
            self.background.lock().push(task);
        }
    }

    async fn follow_shadow(self: Arc<Self>, name: String, file: PathBuf) {
        let mut source = DirectorySource::start(file.clone(), self.cancel.clone());
        let mut look = tokio::time::interval(LOOK);
        let mut progress = Progress::default();
        loop {
            tokio::select! {
                event = source.next() => match event {
                    Some(event) => self.on_shadow_file(&name, &file, event, &mut progress).await,
                    None => break,
                },
                _ = look.tick() => self.advance_shadow(&name, &file, &mut progress),
            }
        }
        progress.stop();
    }

    async fn on_shadow_file(&self, name: &str, file: &Path, event: SourceEvent, progress: &mut Progress) {
        match event {
            SourceEvent::Found { path, bytes, .. } => {
                let loaded = self.engine.load(bytes).await.map_err(|error| error.to_string());
                let loaded = loaded.and_then(|module| {
                    let manifest = module.manifest();
                    if manifest.name == name || manifest.aliases.iter().any(|alias| alias == name) {
                        return Ok(module);
                    }
                    Err(format!("it is a {}", manifest.name))
                });
                progress.stop();
                match loaded {
                    Ok(module) => {
                        self.shadow_troubles.lock().remove(&(name.to_owned(), path));
                        progress.module = Some(module);
                    }
                    Err(reason) => {
                        progress.module = None;
                        self.no_shadow(name, path, reason);
                    }
                }
            }
            SourceEvent::Gone { path } => {
                tracing::info!(controller = name, file = %path.display(), "no shadow any more: its file is gone");
                progress.stop();
                progress.module = None;
                self.shadow_troubles.lock().insert((name.to_owned(), path), "its file is gone".into());
            }
            SourceEvent::Trouble { path, reason } => {
                self.no_shadow(name, path, reason);
            }
            SourceEvent::Scanned if progress.module.is_none() && !self.has_shadow_trouble(name) => {
                self.no_shadow(name, file.to_owned(), "there is no such file yet".into());
            }
            SourceEvent::Scanned | SourceEvent::Recovered { .. } | SourceEvent::Moved { .. } => {}
        }
    }

    fn advance_shadow(&self, name: &str, file: &Path, progress: &mut Progress) {
        let controller = self.called(name);
        if let Some((of, _)) = &progress.running {
            if controller.as_ref().is_some_and(|now| Arc::ptr_eq(now, of)) {
                return;
            }
            progress.stop();
        }
        let (Some(controller), Some(module)) = (controller, progress.module.clone()) else { return };
        let Some(candidate) = progress.warming.take() else {
            match self.assemble(module, file, Arc::new(Deaf), None) {
                Ok(loaded) => progress.warming = Some(Arc::new(loaded)),
                Err(reason) => {
                    progress.module = None;
                    self.no_shadow(name, file.to_owned(), reason);
                }
            }
            return;
        };
        if !candidate.view.is_ready() {
            progress.warming = Some(candidate);
            return;
        }
        let shadow = self.shadow(candidate, None);
        tracing::info!(controller = name, file = %file.display(), version = shadow.status().version, "shadow begins");
        controller.watch(&shadow);
        // So that there is something to compare also where nothing happens.
        controller.current().view.rekey(Cause::Bulk);
        progress.running = Some((controller, shadow));
    }

    /// Notes that a file cannot be the shadow of a controller.
    fn no_shadow(&self, name: &str, path: PathBuf, reason: String) {
        tracing::error!(controller = name, file = %path.display(), reason, "no shadow");
        self.shadow_troubles.lock().insert((name.to_owned(), path), reason);
    }

    fn has_shadow_trouble(&self, name: &str) -> bool {
        self.shadow_troubles.lock().keys().any(|(of, _)| of == name)
    }

    /// Files of shadows that cannot be used.
    pub(super) fn shadow_refusals(&self) -> Vec<Refusal> {
        let refusal = |((name, path), reason): (&(String, PathBuf), &String)| Refusal {
            file: path.display().to_string(),
            reason: format!("{}: {reason}", as_shadow(name)),
        };
        self.shadow_troubles.lock().iter().map(refusal).collect()
    }
}

/// How the refusal of a file begins that was given as the shadow of a controller, by its name or alias.
pub fn as_shadow(name: &str) -> String {
    format!("as a shadow of {name}")
}
