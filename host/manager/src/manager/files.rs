//! Which file holds which module, and which of them is at work.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::Refusal;
use crate::engine::Module;

/// What is known of a file.
#[derive(Default)]
pub(super) struct File {
    /// Hash of its newest content; a result for another one is out of date.
    pub hash: String,
    /// The module in it, once it was loaded.
    pub module: Option<Module>,
    /// Why it is not at work.
    pub refused: Option<String>,
    /// Whether the controller of this name comes from this file.
    pub runs: Option<String>,
}

/// All files of the directory.
#[derive(Default)]
pub(super) struct Files {
    files: BTreeMap<PathBuf, File>,
    /// Trouble with the directory as a whole.
    directory: Option<Refusal>,
    /// Whether the directory has been read for the first time.
    pub scanned: bool,
    /// Modules being loaded.
    pub loading: usize,
}

impl Files {
    /// Notes new content. The version that runs is not touched.
    pub fn found(&mut self, path: &Path, hash: &str) {
        let file = self.files.entry(path.to_owned()).or_default();
        file.hash = hash.to_owned();
        file.module = None;
        file.refused = None;
        self.directory = None;
    }

    /// The file, if its newest content is still this.
    pub fn current(&mut self, path: &Path, hash: &str) -> Option<&mut File> {
        self.files.get_mut(path).filter(|file| file.hash == hash)
    }

    /// The file.
    pub fn get_mut(&mut self, path: &Path) -> Option<&mut File> {
        self.files.get_mut(path)
    }

    /// Notes why a file is of no use.
    pub fn refuse(&mut self, path: &Path, reason: String) {
        self.files.entry(path.to_owned()).or_default().refused = Some(reason);
    }

    /// Notes trouble with the directory itself.
    pub fn trouble(&mut self, path: &Path, reason: String) {
        self.directory = Some(Refusal { file: path.display().to_string(), reason });
    }

    /// Forgets a file; the controller that ran from it, if one did.
    pub fn gone(&mut self, path: &Path) -> Option<String> {
        self.files.remove(path).and_then(|file| file.runs)
    }

    /// Another file that a controller of this name runs from.
    pub fn owner(&self, name: &str, not: &Path) -> Option<PathBuf> {
        let mut others = self.files.iter().filter(|(path, _)| *path != not);
        others.find(|(_, file)| file.runs.as_deref() == Some(name)).map(|(path, _)| path.clone())
    }

    /// A file that holds a module of this name and waits for its turn.
    pub fn heir(&self, name: &str) -> Option<(PathBuf, String)> {
        let waiting = self.files.iter().filter(|(_, file)| file.runs.is_none());
        let mut named =
            waiting.filter(|(_, file)| file.module.as_ref().is_some_and(|m| m.manifest().name == name));
        named.next().map(|(path, file)| (path.clone(), file.hash.clone()))
    }

    /// What is not at work, and why.
    pub fn refusals(&self) -> Vec<Refusal> {
        let files = self.files.iter().filter_map(|(path, file)| {
            let reason = file.refused.clone()?;
            Some(Refusal { file: path.display().to_string(), reason })
        });
        self.directory.iter().cloned().chain(files).collect()
    }

    /// Names and aliases of all modules that were loaded.
    pub fn known_names(&self) -> Vec<String> {
        let modules = self.files.values().filter_map(|file| file.module.as_ref());
        modules
            .flat_map(|m| {
                std::iter::once(m.manifest().name.clone()).chain(m.manifest().aliases.iter().cloned())
            })
            .collect()
    }

    /// All modules that were loaded.
    pub fn modules(&self) -> impl Iterator<Item = &Module> {
        self.files.values().filter_map(|file| file.module.as_ref())
    }
}
