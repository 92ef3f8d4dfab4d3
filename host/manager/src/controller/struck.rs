//! Keys whose last reconcile was held against the module.
//!
//! In: how reconciles end. Out: the keys that the next version is excused for.
//! Kept: what a version does that has been replaced meanwhile is no excuse for
//! the one in its place, nor for those after it.

use std::collections::HashSet;

use parking_lot::Mutex;

use crate::key::Key;

/// The keys.
#[derive(Debug, Default)]
pub(super) struct Struck(Mutex<HashSet<Key>>);

impl Struck {
    /// A reconcile was held against the module; `current`: against the version
    /// that has the key now.
    pub(super) fn strike(&self, key: &Key, current: bool) {
        if current {
            self.0.lock().insert(key.clone());
        }
    }

    /// The key did well, or is forgotten.
    pub(super) fn clear(&self, key: &Key) {
        self.0.lock().remove(key);
    }

    /// What the next version is excused for. `before`: what the one that it takes
    /// over from was, if that was found unfit: then nothing else counts.
    pub(super) fn excuses(&self, before: Option<HashSet<Key>>) -> HashSet<Key> {
        let mut keys = self.0.lock();
        if let Some(before) = before {
            *keys = before;
        }
        keys.clone()
    }

    /// The keys have other names from now on, or none.
    pub(super) fn rename(&self, name: impl Fn(Key) -> Option<Key>) {
        let mut keys = self.0.lock();
        *keys = keys.drain().filter_map(name).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key { source: 0, resource: 1, namespace: "default".into(), name: name.into() }
    }

    #[test]
    fn what_a_replaced_version_does_excuses_no_key() {
        let struck = Struck::default();
        struck.strike(&key("old"), true);
        assert_eq!(struck.excuses(None), [key("old")].into());
        // A reconcile of the version before ends after the swap.
        struck.strike(&key("late"), false);
        assert_eq!(struck.excuses(None), [key("old")].into());
        struck.clear(&key("old"));
        assert_eq!(struck.excuses(None), [].into());
    }

    #[test]
    fn an_unfit_version_excuses_what_went_wrong_before_it_alone() {
        let struck = Struck::default();
        struck.strike(&key("a"), true);
        let before = struck.excuses(None);
        struck.strike(&key("b"), true);
        assert_eq!(struck.excuses(Some(before)), [key("a")].into());
        struck.rename(|one| (*one.name != *"a").then_some(one));
        assert_eq!(struck.excuses(None), [].into());
    }
}
