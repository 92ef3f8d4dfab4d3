//! Objects that are known to be gone.
//!
//! A uid is never used again, so what needs the object of a name and a uid is
//! settled without a request once that has been seen gone. The name alone proves
//! nothing, and neither does the uid: a reference may pair it with a wrong name.
//! Bounded: the least recent are forgotten.

use std::num::NonZeroUsize;

use lru::LruCache;
use parking_lot::Mutex;

use crate::contract::Failure;

/// How many are remembered.
const MOST: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// An object by name and uid.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    pub(super) resource: u32,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// A bounded set of objects that are gone.
pub(super) struct Dead(Mutex<LruCache<Identity, ()>>);

impl Default for Dead {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MOST)))
    }
}

impl Dead {
    /// Remembers an object.
    pub(super) fn insert(&self, identity: Identity) {
        if !identity.uid.is_empty() {
            self.0.lock().put(identity, ());
        }
    }

    /// Whether an object is known to be gone.
    pub(super) fn contains(&self, identity: &Identity) -> bool {
        self.0.lock().get(identity).is_some()
    }
}

/// Whether a failure says that there is no object of this name, and not only
/// that its resource is not served at the moment: then it may come back.
pub(super) fn says_gone(failure: &Failure, name: &str) -> bool {
    failure.status == 404 && failure.reason == "NotFound" && failure.message.contains(&format!("\"{name}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(n: usize) -> Identity {
        Identity { resource: 1, namespace: "ns".into(), name: "a".into(), uid: n.to_string() }
    }

    #[test]
    fn the_least_recent_are_forgotten() {
        let dead = Dead::default();
        for n in 0..=MOST.get() {
            dead.insert(identity(n));
            dead.insert(identity(n));
        }
        assert!(!dead.contains(&identity(0)));
        assert!(dead.contains(&identity(1)));
        assert!(!dead.contains(&Identity { name: "b".into(), ..identity(1) }));
        assert!(dead.contains(&identity(MOST.get())));
        assert_eq!(dead.0.lock().len(), MOST.get());
    }

    #[test]
    fn a_resource_that_is_not_served_proves_nothing() {
        let failure = |reason: &str, message: &str| Failure {
            status: 404,
            reason: reason.into(),
            message: message.into(),
            causes: vec![],
        };
        assert!(says_gone(&failure("NotFound", "things.example.com \"a\" not found"), "a"));
        assert!(!says_gone(&failure("NotFound", "the server could not find the requested resource"), "a"));
        assert!(!says_gone(&failure("", "404 page not found"), "a"));
    }
}
