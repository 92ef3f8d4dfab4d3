//! Which file holds which module, how far it has come, and which is at work.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::{
    Refusal, Unloaded,
    rollbacks::RolledBack,
    stage::{Compiling, ModuleStatus, Stage},
};
use crate::engine::Module;

/// What is known of a file.
#[derive(Default)]
pub(super) struct File {
    /// Hash of its newest content; a result for another one is out of date.
    pub hash: String,
    /// The module in it, once it was loaded.
    pub module: Option<Module>,
    /// Ends the loading of that content, should other content come before.
    loading: CancellationToken,
    /// How long that took: next to nothing if it had been compiled before.
    pub took: Duration,
    /// How far it has come, since when, and what is wrong with it.
    pub stage: Stage,
    pub since: jiff::Timestamp,
    pub reason: Option<String>,
    /// The controller that runs from this file, if one does.
    pub runs: Option<String>,
    /// Content that was rolled back, which is not tried again.
    banned: Option<String>,
}

/// A file that holds the module of a controller whose own file is gone.
pub(super) struct Heir {
    pub path: PathBuf,
    /// Hash of its content.
    pub hash: String,
    /// Whether no other controller runs from it.
    pub is_free: bool,
}

/// All files of the directory.
#[derive(Default)]
pub(super) struct Files {
    files: BTreeMap<PathBuf, File>,
    /// Controllers that ran, and have no file any more.
    unloaded: BTreeMap<String, Unloaded>,
    /// Trouble with the directory as a whole.
    directory: Option<String>,
    /// Whether the directory has been read for the first time.
    pub scanned: bool,
    /// Modules being loaded.
    pub loading: usize,
    /// Those of them that have to be compiled.
    pub compiling: Compiling,
}

impl Files {
    /// Notes new content, which is to be loaded until the token says otherwise;
    /// none if it is of no interest since it was rolled back before. The version
    /// that runs is not touched.
    pub fn found(&mut self, path: &Path, hash: &str, now: jiff::Timestamp) -> Option<CancellationToken> {
        let file = self.files.entry(path.to_owned()).or_default();
        if file.banned.as_deref() == Some(hash) {
            return None;
        }
        std::mem::take(&mut file.loading).cancel();
        file.hash = hash.to_owned();
        file.module = None;
        file.banned = None;
        (file.stage, file.since, file.reason) = (Stage::Noticed, now, None);
        Some(file.loading.clone())
    }

    /// Notes content that was rolled back before this process began. Another
    /// version is loaded in its place.
    pub fn found_refused(&mut self, path: &Path, record: &RolledBack) {
        let file = self.files.entry(path.to_owned()).or_default();
        file.hash.clone_from(&record.refused);
        file.banned = Some(record.refused.clone());
        (file.stage, file.since) = (Stage::RolledBack, record.at);
        file.reason = Some(record.reason.clone());
    }

    /// Whether a file has not been seen yet.
    pub fn is_new(&self, path: &Path) -> bool {
        !self.files.contains_key(path)
    }

    /// Whether the newest content of a file is refused since it was rolled back,
    /// and why: its hash, the reason, and since when.
    pub fn refused(&self, path: &Path) -> Option<(String, String, jiff::Timestamp)> {
        let file = self.files.get(path).filter(|file| file.banned.as_ref() == Some(&file.hash))?;
        Some((file.hash.clone(), file.reason.clone().unwrap_or_default(), file.since))
    }

    /// Lifts the ban on the newest content of a file if that is `runs`, which
    /// runs again; whether it is.
    pub fn restore(&mut self, path: &Path, runs: &str) -> bool {
        let Some(file) = self.current(path, runs) else { return false };
        file.banned = None;
        true
    }

    /// The file, if its newest content is still this.
    pub fn current(&mut self, path: &Path, hash: &str) -> Option<&mut File> {
        self.files.get_mut(path).filter(|file| file.hash == hash)
    }

    /// The file.
    pub fn get(&self, path: &Path) -> Option<&File> {
        self.files.get(path)
    }

    /// Notes that a controller runs from a file.
    pub fn runs(&mut self, path: &Path, name: &str) {
        self.unloaded.remove(name);
        if let Some(file) = self.files.get_mut(path) {
            file.runs = Some(name.to_owned());
        }
    }

    /// Notes that no controller runs from a file.
    pub fn runs_nothing(&mut self, path: &Path) {
        if let Some(file) = self.files.get_mut(path) {
            file.runs = None;
        }
    }

    /// Notes that a controller was stopped for want of a file.
    pub fn unloaded(&mut self, one: Unloaded) {
        self.unloaded.insert(one.controller.clone(), one);
    }

    /// Controllers that were stopped for want of a file.
    pub fn all_unloaded(&self) -> Vec<Unloaded> {
        self.unloaded.values().cloned().collect()
    }

    /// Notes that a file has another name: the controllers that ran from it and from
    /// the one that had that name before. None, and nothing is changed, if nothing runs
    /// from it, or its content is still on its way.
    pub fn move_to(&mut self, from: &Path, to: &Path) -> Option<(String, Option<String>)> {
        let file = self.files.get(from)?;
        let runs = file.runs.clone().filter(|_| file.stage.is_settled())?;
        let file = self.files.remove(from)?;
        let replaced = self.gone(to);
        self.files.insert(to.to_owned(), file);
        Some((runs, replaced))
    }

    /// Notes that a file has come to a stage; the controller that runs from it.
    pub fn advance(
        &mut self,
        path: &Path,
        stage: Stage,
        reason: Option<String>,
        now: jiff::Timestamp,
    ) -> Option<String> {
        let file = self.files.entry(path.to_owned()).or_default();
        (file.stage, file.since, file.reason) = (stage, now, reason);
        if stage == Stage::RolledBack {
            file.banned = Some(file.hash.clone());
        }
        file.runs.clone()
    }

    /// Notes trouble with the directory itself, or that it is over.
    pub fn directory(&mut self, trouble: Option<String>) {
        self.directory = trouble;
    }

    /// Whether the directory was read and has no modules.
    pub fn is_empty(&self) -> bool {
        self.scanned && self.files.is_empty() && self.directory.is_none()
    }

    /// Forgets a file; the controller that ran from it, if one did.
    pub fn gone(&mut self, path: &Path) -> Option<String> {
        let file = self.files.remove(path)?;
        file.loading.cancel();
        file.runs
    }

    /// Another file that a controller of this name runs from.
    pub fn owner(&self, name: &str, not: &Path) -> Option<PathBuf> {
        let mut others = self.files.iter().filter(|(path, _)| *path != not);
        others.find(|(_, file)| file.runs.as_deref() == Some(name)).map(|(path, _)| path.clone())
    }

    /// A file that holds a module of this name and waits for its turn.
    pub fn heir(&self, name: &str) -> Option<Heir> {
        let named = |(_, file): &(&PathBuf, &File)| {
            file.module.as_ref().is_some_and(|module| module.manifest().name == name)
        };
        let (path, file) = self.files.iter().find(named)?;
        Some(Heir { path: path.clone(), hash: file.hash.clone(), is_free: file.runs.is_none() })
    }

    /// What is not at work, and why. `directory` is the one that is followed.
    pub fn refusals(&self, directory: &Path) -> Vec<Refusal> {
        let of_directory = |reason| Refusal { file: directory.display().to_string(), reason };
        let empty = self.is_empty().then(|| "there are no modules (*.wasm) in it".to_owned());
        let unused = |file: &&File| matches!(file.stage, Stage::Refused | Stage::RolledBack);
        let files = self.files.iter().filter(|(_, file)| unused(file)).map(|(path, file)| Refusal {
            file: path.display().to_string(),
            reason: file.reason.clone().unwrap_or_default(),
        });
        self.directory.clone().or(empty).map(of_directory).into_iter().chain(files).collect()
    }

    /// All files, for the status.
    pub fn statuses(&self) -> Vec<ModuleStatus> {
        let status = |(path, file): (&PathBuf, &File)| {
            let manifest = file.module.as_ref().map(|module| module.manifest());
            ModuleStatus {
                file: path.display().to_string(),
                hash: file.hash.clone(),
                controller: manifest.map(|m| m.name.clone()),
                version: manifest.map(|m| m.version.clone()),
                stage: file.stage,
                since: file.since,
                reason: file.reason.clone(),
            }
        };
        self.files.iter().map(status).collect()
    }

    /// Names and aliases of all modules that were loaded.
    pub fn known_names(&self) -> Vec<String> {
        let manifests = self.modules().map(|module| module.manifest());
        manifests.flat_map(|m| std::iter::once(m.name.clone()).chain(m.aliases.iter().cloned())).collect()
    }

    /// Files with a module that was loaded.
    pub fn loaded(&self) -> Vec<PathBuf> {
        self.files.iter().filter(|(_, file)| file.module.is_some()).map(|(path, _)| path.clone()).collect()
    }

    /// Loaded modules that do not run, with the hash of their content.
    pub fn waiting(&self) -> Vec<(PathBuf, String)> {
        let waiting = self.files.iter().filter(|(_, file)| file.module.is_some() && file.runs.is_none());
        waiting.map(|(path, file)| (path.clone(), file.hash.clone())).collect()
    }

    /// All modules that were loaded.
    pub fn modules(&self) -> impl Iterator<Item = &Module> {
        self.files.values().filter_map(|file| file.module.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_that_runs_again_is_not_refused_any_more() {
        let (mut files, path, now) = (Files::default(), Path::new("a.wasm"), jiff::Timestamp::UNIX_EPOCH);
        assert!(files.found(path, "a", now).is_some());
        files.advance(path, Stage::RolledBack, Some("bad".into()), now);
        assert!(files.refused(path).is_some() && files.found(path, "a", now).is_none());
        assert!(!files.restore(path, "b"), "another version runs");
        assert!(files.refused(path).is_some());
        assert!(files.restore(path, "a"));
        files.advance(path, Stage::Live, None, now);
        assert!(files.refused(path).is_none() && files.refusals(Path::new(".")).is_empty());
        assert!(files.found(path, "a", now).is_some(), "it may be read again");
    }

    #[test]
    fn content_is_loaded_until_other_content_comes_or_the_file_goes() {
        let (mut files, path, now) = (Files::default(), Path::new("a.wasm"), jiff::Timestamp::UNIX_EPOCH);
        let first = files.found(path, "a", now).unwrap();
        let second = files.found(path, "b", now).unwrap();
        assert!(first.is_cancelled() && !second.is_cancelled());
        files.gone(path);
        assert!(second.is_cancelled());
    }
}
