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
                    Some(event) => self.on_shadow_file(&name, event, &mut progress).await,
                    None => break,
                },
                _ = look.tick() => self.advance_shadow(&name, &file, &mut progress),
            }
        }
        progress.stop();
    }

    async fn on_shadow_file(&self, name: &str, event: SourceEvent, progress: &mut Progress) {
        match event {
            SourceEvent::Found { path, bytes, .. } => {
                let loaded = self.engine.load(bytes).await.map_err(|error| error.to_string());
                let loaded = loaded.and_then(|module| match &module.manifest().name {
                    own if own == name => Ok(module),
                    own => Err(format!("it is a {own}, and was given as a shadow of {name}")),
                });
                progress.stop();
                match loaded {
                    Ok(module) => {
                        self.shadow_troubles.lock().remove(&path);
                        progress.module = Some(module);
                    }
                    Err(reason) => {
                        tracing::error!(controller = name, file = %path.display(), reason, "no shadow");
                        progress.module = None;
                        self.shadow_troubles.lock().insert(path, reason);
                    }
                }
            }
            SourceEvent::Gone { path } => {
                tracing::info!(controller = name, file = %path.display(), "no shadow any more: its file is gone");
                progress.stop();
                progress.module = None;
            }
            SourceEvent::Trouble { path, reason } => {
                tracing::error!(controller = name, file = %path.display(), reason, "cannot be read");
                self.shadow_troubles.lock().insert(path, reason);
            }
            SourceEvent::Scanned | SourceEvent::Recovered { .. } | SourceEvent::Moved { .. } => {}
        }
    }

    fn advance_shadow(&self, name: &str, file: &Path, progress: &mut Progress) {
        let controller = self.controller(name);
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
                    tracing::error!(controller = name, file = %file.display(), reason, "no shadow");
                    progress.module = None;
                    self.shadow_troubles.lock().insert(file.to_owned(), reason);
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

    /// Files of shadows that cannot be used.
    pub(super) fn shadow_refusals(&self) -> Vec<Refusal> {
        let refusal = |(path, reason): (&PathBuf, &String)| Refusal {
            file: path.display().to_string(),
            reason: reason.clone(),
        };
        self.shadow_troubles.lock().iter().map(refusal).collect()
    }
}
