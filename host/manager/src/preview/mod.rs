//! What controllers would do to a cluster, found out without touching it.
//!
//! In: the reconciles of a manager that works on a copy of the cluster (see
//! [`Sandbox`]). Out: a [`Report`]. Invariants: nothing is written to the
//! cluster; it ends, since writes are counted, and a key that goes on failing
//! is settled.

mod follow;
mod report;
mod sandbox;
mod story;

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use parking_lot::Mutex;

pub use follow::Watcher;
pub use report::{Failure, NotRun, Planned, PlannedEvent, Report};
pub use sandbox::Sandbox;
pub(crate) use story::{Name, Ran, Scene, Story};

use crate::{
    executor::{Pass, WriteGate},
    key::Key,
};

/// After so many tries a key that fails is taken to go on failing. The first
/// few follow each other within milliseconds.
const TRIES: u32 = 3;

/// What the last reconcile of a key came to.
#[derive(Clone, Debug)]
pub(crate) enum Decision {
    /// A plan, and it was carried out.
    Settled,
    /// The module gave up until something changes.
    GaveUp(String),
    /// It failed and would be tried again.
    Failed(String),
    /// The guest faulted, which it will do again.
    Faulted(String),
}

#[derive(Debug)]
struct Entry {
    decision: Decision,
    /// Failures in a row, once all was cached that will be.
    failures: u32,
}

/// Collects what controllers decide. The gate of a manager that only plans.
pub struct Preview {
    decisions: Mutex<BTreeMap<String, BTreeMap<Key, Entry>>>,
    ran: Mutex<Vec<Ran>>,
    /// Whether the caches hold all that they will.
    cached: AtomicBool,
    most_writes: u64,
    writes: AtomicU64,
    /// Whether there would have been more.
    stopped: AtomicBool,
}

impl WriteGate for Preview {
    fn admit(&self) -> Option<Pass> {
        if self.writes.fetch_add(1, Ordering::Relaxed) < self.most_writes {
            return Some(Pass::default());
        }
        self.stopped.store(true, Ordering::Release);
        None
    }

    fn may_write(&self) -> bool {
        !self.is_stopped()
    }
}

impl Preview {
    /// Tries so many writes at most.
    pub fn new(most_writes: u64) -> Self {
        Self {
            decisions: Mutex::default(),
            ran: Mutex::default(),
            cached: AtomicBool::new(false),
            most_writes,
            writes: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    /// How many writes are tried at most.
    pub(crate) fn most_writes(&self) -> u64 {
        self.most_writes
    }

    /// Whether there would have been more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    fn note(&self, controller: &str, key: &Key, decision: Decision) {
        let counts = matches!(decision, Decision::Failed(_)) && self.cached.load(Ordering::Acquire);
        let mut decisions = self.decisions.lock();
        let keys = decisions.entry(controller.to_owned()).or_default();
        let before = keys.get(key).map_or(0, |entry| entry.failures);
        let failures = if counts { before + 1 } else { 0 };
        keys.insert(key.clone(), Entry { decision, failures });
    }

    /// Says that the caches hold all that they will: a failure from now on is
    /// not for want of objects.
    pub(crate) fn all_cached(&self) {
        self.cached.store(true, Ordering::Release);
    }

    /// How many of these keys are not settled.
    pub(crate) fn undecided(&self, controller: &str, keys: &[Key]) -> usize {
        let decisions = self.decisions.lock();
        let Some(decided) = decisions.get(controller) else { return keys.len() };
        let settled = |key: &&Key| {
            decided.get(key).is_some_and(|entry| match entry.decision {
                Decision::Failed(_) => entry.failures >= TRIES,
                _ => true,
            })
        };
        keys.len() - keys.iter().filter(settled).count()
    }

    /// All decisions so far, by controller and key.
    pub(crate) fn decisions(&self) -> Vec<(String, Key, Decision)> {
        let decisions = self.decisions.lock();
        let of_one = |(name, keys): (&String, &BTreeMap<Key, Entry>)| {
            let name = name.clone();
            keys.iter()
                .map(move |(key, entry)| (name.clone(), key.clone(), entry.decision.clone()))
                .collect::<Vec<_>>()
        };
        decisions.iter().flat_map(of_one).collect()
    }

    /// What was played so far: who follows from whom.
    pub(crate) fn story(&self) -> Story {
        Story::new(&self.ran.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key { source: 0, resource: 1, namespace: "default".into(), name: name.into() }
    }

    #[test]
    fn a_key_that_goes_on_failing_is_settled_all_the_same() {
        let preview = Preview::new(1);
        let keys = [key("a"), key("b")];
        assert_eq!(preview.undecided("x", &keys), 2);
        preview.note("x", &keys[0], Decision::Settled);
        assert_eq!(preview.undecided("x", &keys), 1);
        // While something is still listed a failure may be for want of it.
        for _ in 0..10 {
            preview.note("x", &keys[1], Decision::Failed("no".into()));
        }
        assert_eq!(preview.undecided("x", &keys), 1);
        preview.all_cached();
        for left in [1, 1, 0] {
            preview.note("x", &keys[1], Decision::Failed("no".into()));
            assert_eq!(preview.undecided("x", &keys), left);
        }
        preview.note("x", &keys[1], Decision::Faulted("trap".into()));
        assert_eq!(preview.undecided("x", &keys), 0);
    }

    #[test]
    fn no_more_is_tried_than_was_asked_for() {
        let preview = Preview::new(2);
        assert!(preview.admit().is_some() && preview.admit().is_some());
        assert!(preview.may_write(), "two are two");
        assert!(preview.admit().is_none());
        assert!(preview.is_stopped() && !preview.may_write());
    }
}
