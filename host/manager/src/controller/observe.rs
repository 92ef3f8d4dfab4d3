//! Whoever looks on while a controller reconciles: a recording, a shadow, a plan.
//!
//! In: what a guest is asked and shown, and what it answers, round by round.
//! Out: nothing; an observer changes neither. Invariant: an observer works on
//! the reconcile's own time, so it takes notes and does the rest elsewhere.

use std::sync::Arc;

use super::{Controller, Loaded};
use crate::{
    contract::{Outcome, Request},
    engine::{Fault, SnapshotHost},
    executor::Executed,
    key::Key,
    store::Snapshot,
};

/// Looks on while a controller reconciles.
pub trait Observer: Send + Sync {
    /// A reconcile begins; none if this one is of no interest.
    fn begin(&self, loaded: &Arc<Loaded>, key: &Key) -> Option<Box<dyn Follower>>;
}

/// Follows one reconcile. Dropped when the reconcile has ended or was given up,
/// as lookups under way are when a version is swapped.
pub trait Follower: Send {
    /// A round begins: what the guest is asked (with the answers to the lookups
    /// of earlier rounds), and what it will be shown.
    fn asked(&mut self, request: &Request, snapshot: &Snapshot);

    /// Puts something around what the guest is shown, to note what is read. Its
    /// [`SnapshotHost::into_any`] must give the [`Snapshot`] inside back.
    fn around(&mut self, snapshot: Box<dyn SnapshotHost>) -> Box<dyn SnapshotHost> {
        snapshot
    }

    /// The guest has answered, or failed to.
    fn answered(&mut self, request: &Request, result: &Result<Outcome, Fault>);

    /// What became of the plan, if there was one.
    fn carried_out(&mut self, _executed: &Executed) {}
}

/// All who follow one reconcile; most often nobody.
#[derive(Default)]
pub(super) struct Followers(Vec<Box<dyn Follower>>);

impl Followers {
    /// A round begins. What the guest is to be shown comes back.
    pub(super) fn asked(&mut self, request: &Request, snapshot: Snapshot) -> Box<dyn SnapshotHost> {
        for follower in &mut self.0 {
            follower.asked(request, &snapshot);
        }
        let around = |shown, follower: &mut Box<dyn Follower>| follower.around(shown);
        self.0.iter_mut().fold(Box::new(snapshot) as Box<dyn SnapshotHost>, around)
    }

    /// The guest has answered.
    pub(super) fn answered(&mut self, request: &Request, result: &Result<Outcome, Fault>) {
        for follower in &mut self.0 {
            follower.answered(request, result);
        }
    }

    /// The plan was carried out, or refused.
    pub(super) fn carried_out(&mut self, executed: &Executed) {
        for follower in &mut self.0 {
            follower.carried_out(executed);
        }
    }
}

impl Controller {
    /// Lets somebody look on from the next reconcile on.
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        let mut all = self.observers.write();
        *all = all.iter().cloned().chain([observer]).collect();
    }

    /// Ends [`Controller::observe`]. Reconciles under way are followed to their end.
    pub fn stop_observing(&self, observer: &Arc<dyn Observer>) {
        let mut all = self.observers.write();
        *all = all.iter().filter(|other| !Arc::ptr_eq(other, observer)).cloned().collect();
    }

    pub(super) fn followers(&self, loaded: &Arc<Loaded>, key: &Key) -> Followers {
        // Nobody is called under the lock.
        let observers = self.observers.read().clone();
        Followers(observers.iter().filter_map(|observer| observer.begin(loaded, key)).collect())
    }
}
