//! Which kinds are served: the built-in ones, and those that CustomResourceDefinitions add and remove.
//!
//! In: kinds. Out: lookups by path and by group, version and kind. Invariant: readers see a whole set, never half a change.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::RwLock;

use super::strategy::{Kind, StorageId};

/// A set of kinds.
#[derive(Default)]
pub struct Kinds {
    /// In the order in which they were added.
    all: Vec<Arc<Kind>>,
    by_path: HashMap<String, Arc<Kind>>,
    versions: BTreeMap<String, Vec<String>>,
    generation: u64,
}

fn path(group: &str, version: &str, plural: &str) -> String {
    format!("{group}/{version}/{plural}")
}

impl Kinds {
    fn build(all: Vec<Arc<Kind>>, generation: u64) -> Self {
        let mut kinds = Self { generation, ..Self::default() };
        for kind in &all {
            kinds.by_path.insert(path(&kind.group, &kind.version, &kind.plural), kind.clone());
            let versions = kinds.versions.entry(kind.group.clone()).or_default();
            if !versions.contains(&kind.version) {
                versions.push(kind.version.clone());
            }
        }
        kinds.all = all;
        kinds
    }

    /// The kind served at a path.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.by_path.get(&path(group, version, plural))
    }

    /// A kind by what its objects call themselves.
    pub fn by_gvk(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Kind>> {
        self.all.iter().find(|k| k.group == group && k.version == version && k.kind == kind)
    }

    /// The kind whose form is the stored one.
    pub fn stored(&self, id: &StorageId) -> Option<&Arc<Kind>> {
        let mut of_table = self.all.iter().filter(|k| k.storage == *id);
        let first = of_table.clone().next();
        of_table.find(|k| k.strategy.is_storage_version() && k.group == id.group).or(first)
    }

    /// All kinds, in the order in which they were added.
    pub fn all(&self) -> &[Arc<Kind>] {
        &self.all
    }

    /// Groups and their versions, in the order in which they were added.
    pub fn versions(&self, group: &str) -> Option<&[String]> {
        self.versions.get(group).map(Vec::as_slice)
    }

    /// Counts changes.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

/// The current set.
pub struct Registry {
    kinds: RwLock<Arc<Kinds>>,
}

impl Registry {
    /// With the given kinds.
    pub fn new(kinds: Vec<Arc<Kind>>) -> Self {
        Self { kinds: RwLock::new(Arc::new(Kinds::build(kinds, 1))) }
    }

    /// The set of this moment.
    pub fn kinds(&self) -> Arc<Kinds> {
        self.kinds.read().clone()
    }

    /// Serves `kinds` as all versions of a resource, in place of what it had.
    pub fn install(&self, group: &str, plural: &str, kinds: Vec<Arc<Kind>>) {
        let mut current = self.kinds.write();
        let mut all: Vec<_> =
            current.all.iter().filter(|k| k.group != group || k.plural != plural).cloned().collect();
        all.extend(kinds);
        *current = Arc::new(Kinds::build(all, current.generation + 1));
    }

    /// Serves a resource no longer.
    pub fn remove(&self, group: &str, plural: &str) {
        self.install(group, plural, Vec::new());
    }
}
