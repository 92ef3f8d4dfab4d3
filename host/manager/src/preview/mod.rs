//! What controllers would do to a cluster, found out without touching it.
//!
//! In: the reconciles of a manager whose gate withholds all writes. Out: a
//! [`Report`]. Invariants: nothing is written, since plans end at the executor's
//! check and the client itself refuses to send; it ends, since each key is
//! settled by its first plan, or by failing a few times.

mod report;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;

pub use report::{Failure, NotRun, Planned, PlannedEvent, Report};

use crate::{
    contract::{Outcome, Plan, Request},
    controller::{Follower, Loaded, Observer},
    engine::Fault,
    executor::{Executed, Pass, WriteGate},
    key::Key,
    store::Snapshot,
};

/// After so many tries a key that fails is taken to go on failing. The first
/// few follow each other within milliseconds.
const TRIES: u32 = 3;

/// What one reconcile of a key came to.
#[derive(Clone, Debug)]
pub(crate) enum Decision {
    /// Nothing is to be done.
    Nothing,
    /// This is.
    Plan(Arc<Plan>),
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

/// Collects what controllers decide. The observer and the gate of a manager that
/// only plans.
#[derive(Default)]
pub struct Preview {
    decisions: Mutex<BTreeMap<String, BTreeMap<Key, Entry>>>,
    /// Whether the caches hold all that they will.
    cached: AtomicBool,
}

impl WriteGate for Preview {
    fn admit(&self) -> Option<Pass> {
        None
    }

    fn may_write(&self) -> bool {
        false
    }

    fn withholds(&self) -> bool {
        true
    }
}

/// [`Preview`] as an observer.
pub struct Watcher(pub Arc<Preview>);

impl Observer for Watcher {
    fn begin(&self, loaded: &Arc<Loaded>, key: &Key) -> Option<Box<dyn Follower>> {
        Some(Box::new(Following {
            preview: self.0.clone(),
            controller: loaded.module.manifest().name.clone(),
            key: key.clone(),
            decision: None,
        }))
    }
}

struct Following {
    preview: Arc<Preview>,
    controller: String,
    key: Key,
    decision: Option<Decision>,
}

impl Follower for Following {
    fn asked(&mut self, _: &Request, _: &Snapshot) {}

    fn answered(&mut self, _: &Request, result: &Result<Outcome, Fault>) {
        self.decision = Some(match result {
            Ok(Outcome::Plan(plan)) if plan.steps.is_empty() && plan.events.is_empty() => Decision::Nothing,
            Ok(Outcome::Plan(plan)) => Decision::Plan(Arc::new(plan.clone())),
            Ok(Outcome::Terminal(reason)) => Decision::GaveUp(reason.clone()),
            Ok(Outcome::Retry(reason)) => Decision::Failed(reason.clone()),
            // Replaced by what the next round comes to.
            Ok(Outcome::Lookups(_)) => Decision::Failed("its lookups led to no plan".into()),
            Err(fault @ Fault::Snapshot(_)) => Decision::Failed(fault.to_string()),
            Err(fault) => Decision::Faulted(fault.to_string()),
        });
    }

    fn carried_out(&mut self, executed: &Executed) {
        if let Some(reason) = &executed.invalid {
            self.decision = Some(Decision::Failed(format!("the plan cannot be carried out: {reason}")));
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        if let Some(decision) = self.decision.take() {
            self.preview.note(&self.controller, &self.key, decision);
        }
    }
}

impl Preview {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key { source: 0, resource: 1, namespace: "default".into(), name: name.into() }
    }

    #[test]
    fn a_key_that_goes_on_failing_is_settled_all_the_same() {
        let preview = Preview::default();
        let keys = [key("a"), key("b")];
        assert_eq!(preview.undecided("x", &keys), 2);
        preview.note("x", &keys[0], Decision::Nothing);
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
}
