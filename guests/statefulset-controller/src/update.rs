//! Rolling updates: which pods go because their revision is outdated.
//!
//! In: the wanted pods by ordinal. Out: those to delete, the highest ordinal
//! first. Invariant: pods below the partition stay.

use coxswain_sdk::{Object, Time};

use crate::members::Members;
use crate::view::{Pod, StatefulSet};

/// Who is outdated, and who is unavailable.
#[derive(Debug)]
pub struct Update<'a> {
    /// The set.
    pub set: &'a StatefulSet,
    /// Name of the wanted revision.
    pub revision: &'a str,
    /// Name of the revision before.
    pub current: &'a str,
    /// The time.
    pub now: Time,
}

impl Update<'_> {
    /// Whether a pod is on its way out, or has not been ready for long enough.
    pub fn is_unavailable(&self, pod: &Pod) -> bool {
        pod.metadata.is_deleting() || !pod.is_available(self.set.spec.min_ready_seconds, self.now)
    }

    fn is_outdated(&self, pod: &Pod) -> bool {
        pod.revision() != self.revision && !pod.metadata.is_deleting()
    }

    fn is_updatable(&self, ordinal: i64) -> bool {
        ordinal - self.set.start() >= self.set.partition().unwrap_or(0)
    }

    /// The one pod that goes next. A pod that is missing or unavailable is
    /// waited for.
    pub fn next<'m>(&self, members: &'m Members) -> Option<&'m Object<Pod>> {
        let last = self.set.start() + self.set.replicas() - 1;
        for ordinal in (self.set.start()..=last).rev().take_while(|ordinal| self.is_updatable(*ordinal)) {
            let pod = members.replicas.get(&ordinal)?;
            if self.is_outdated(pod) {
                return Some(pod);
            }
            if self.is_unavailable(pod) {
                return None;
            }
        }
        None
    }

    /// How many of the wanted pods are missing or unavailable.
    pub fn unavailable(&self, members: &Members) -> i64 {
        let present = i64::try_from(members.replicas.len()).unwrap_or(i64::MAX);
        let broken = members.replicas.values().filter(|pod| self.is_unavailable(pod)).count();
        (self.set.replicas() - present).saturating_add(i64::try_from(broken).unwrap_or(i64::MAX))
    }

    /// The pods that go next where several may be unavailable. An outdated pod
    /// that is unavailable goes in any case: it serves nobody, and the budget
    /// has counted it already (or else, once enough pods of a bad revision are
    /// broken, none would ever be replaced).
    pub fn several<'m>(&self, members: &'m Members) -> Vec<&'m Object<Pod>> {
        let mut budget = self.set.max_unavailable().saturating_sub(self.unavailable(members));
        let mut goes = Vec::new();
        for (ordinal, pod) in members.replicas.iter().rev() {
            if !self.is_updatable(*ordinal) {
                break;
            }
            if !self.is_outdated(pod) {
                continue;
            }
            if self.is_unavailable(pod) {
                goes.push(pod);
            } else if budget > 0 {
                budget -= 1;
                goes.push(pod);
            }
        }
        goes
    }

    /// Whether a pod that is not ready is of a revision that nobody wants any
    /// more, neither before the update nor after it. One after the other, pods
    /// would wait for it, and it for nothing: the template that made it has been
    /// taken back (or replaced) since.
    pub fn is_abandoned(&self, ordinal: i64, pod: &Pod) -> bool {
        !self.set.updates_on_delete()
            && self.is_updatable(ordinal)
            && self.is_outdated(pod)
            && pod.revision() != self.current
            && !pod.revision().is_empty()
            && !pod.runs_ready()
    }
}
