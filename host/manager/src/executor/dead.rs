//! Objects that are known to be gone.
//!
//! A uid is never used again, so what needs the object of a name and a uid is
//! settled without a request once that has been seen gone. The name alone proves
//! nothing, and neither does the uid: a reference may pair it with a wrong name.
//! Bounded: the oldest are forgotten.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;

use crate::contract::Failure;

/// How many are remembered.
const MOST: usize = 4096;

/// An object by name and uid.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    pub(super) resource: u32,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// A bounded set of objects that are gone.
#[derive(Default)]
pub(super) struct Dead(Mutex<(HashSet<Arc<Identity>>, VecDeque<Arc<Identity>>)>);

impl Dead {
    /// Remembers an object.
    pub(super) fn insert(&self, identity: Identity) {
        let (set, order) = &mut *self.0.lock();
        let identity = Arc::new(identity);
        if !identity.uid.is_empty() && set.insert(identity.clone()) {
            order.push_back(identity);
            if order.len() > MOST
                && let Some(oldest) = order.pop_front()
            {
                set.remove(&oldest);
            }
        }
    }

    /// Whether an object is known to be gone.
    pub(super) fn contains(&self, identity: &Identity) -> bool {
        self.0.lock().0.contains(identity)
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
    fn the_oldest_are_forgotten() {
        let dead = Dead::default();
        for n in 0..=MOST {
            dead.insert(identity(n));
            dead.insert(identity(n));
        }
        assert!(!dead.contains(&identity(0)));
        assert!(dead.contains(&identity(1)));
        assert!(!dead.contains(&Identity { name: "b".into(), ..identity(1) }));
        assert!(dead.contains(&identity(MOST)));
        assert_eq!(dead.0.lock().0.len(), MOST);
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
