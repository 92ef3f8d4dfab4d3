//! How many pods a Job is to have: what to make, what to delete, when to look
//! again.
//!
//! Pure. A plan makes or deletes, never both: where an index has two pods one
//! goes first.

use std::collections::BTreeSet;

use coxswain_sdk::sort::sort_by;
use coxswain_sdk::{Object, Time};

use crate::backoff::Failures;
use crate::indexes::Indexes;
use crate::per_index::index_ready_at;
use crate::tally::{Tally, number};
use crate::view::{Job, Pod};

/// At most so many pods are made or deleted by one plan.
pub const BURST: usize = 500;

/// At most so many pods are deleted by one plan where all are to go.
pub const SWEEP: usize = 5_000;

/// What is to be done about a Job's pods.
#[derive(Default)]
pub struct Work<'a> {
    /// A pod to make for each, of this index.
    pub create: Vec<Option<i64>>,
    /// Pods to delete.
    pub delete: Vec<&'a Object<Pod>>,
    /// Whether those count as pods that have ended.
    pub counts: bool,
    /// When a failed pod may be replaced.
    pub again: Option<Time>,
    /// Whether there is more to do, beyond what one plan does.
    pub cut_short: bool,
}

impl<'a> Work<'a> {
    fn delete(mut pods: Vec<&'a Object<Pod>>, most: usize) -> Self {
        let cut_short = pods.len() > most;
        pods.truncate(most);
        Self { delete: pods, cut_short, ..Self::default() }
    }

    /// Makes no pods after all.
    pub fn make_none(&mut self) {
        self.cut_short &= self.create.is_empty();
        self.create.clear();
    }

    /// All active pods go, since the Job has ended.
    pub fn end(tally: &Tally<'a>) -> Self {
        Self { counts: true, ..Self::delete(tally.active.clone(), 2 * SWEEP) }
    }

    /// What is to be done for a Job that has not ended.
    pub fn of(job: &Job, tally: &Tally<'a>, failures: &Failures, now: Time) -> Self {
        let active = number(tally.active.len());
        if job.is_suspended() {
            return Self::delete(superfluous(job, tally, active), SWEEP);
        }
        let wanted = wanted(job, tally, active);
        let superfluous = superfluous(job, tally, (active - wanted).max(0));
        if !superfluous.is_empty() {
            return Self::delete(superfluous, BURST);
        }
        let waited_for = if job.replaces_only_failed() { tally.terminating } else { 0 };
        let missing = usize::try_from(wanted - waited_for - active).unwrap_or(0);
        if missing == 0 {
            return Self::default();
        }
        if job.backoff_limit_per_index().is_none()
            && let again @ Some(_) = failures.ready_at(now)
        {
            return Self { again, ..Self::default() };
        }
        let count = missing.min(BURST);
        let mut work = Self { cut_short: missing > BURST, ..Self::default() };
        if !job.is_indexed() {
            work.create = vec![None; count];
            return work;
        }
        let (mut ready, mut again) = (Vec::new(), None);
        for index in pending_indexes(job, tally, count) {
            match index_ready_at(tally.held_back.get(&index).copied(), now) {
                None => ready.push(Some(index)),
                Some(at) => again = Some(again.map_or(at, |before: Time| before.min(at))),
            }
        }
        if ready.is_empty() {
            work.cut_short = false;
        }
        Self { create: ready, again, ..work }
    }
}

/// How many pods are to be active.
fn wanted(job: &Job, tally: &Tally<'_>, active: i64) -> i64 {
    match job.spec.completions {
        // Once one has succeeded those that run are waited for.
        None if tally.succeeded > 0 => active,
        None => job.parallelism(),
        Some(_) => (job.completions() - tally.succeeded).clamp(0, job.parallelism()),
    }
}

/// Active pods that are to go: whatever has no index of its own, and then as
/// many as it takes, those that got least far first.
fn superfluous<'a>(job: &Job, tally: &Tally<'a>, at_least: i64) -> Vec<&'a Object<Pod>> {
    let at_least = usize::try_from(at_least).unwrap_or(0);
    let one_each = || {
        let indexes: Indexes = tally.active.iter().filter_map(|pod| pod.valid_index(job)).collect();
        indexes.total() == number(tally.active.len())
    };
    if at_least == 0 && (!job.is_indexed() || one_each()) {
        return Vec::new();
    }
    let mut ranked: Vec<_> = tally.active.iter().map(|pod| (pod.removal_rank(), *pod)).collect();
    sort_by(&mut ranked, |a, b| a.0.cmp(&b.0));
    let mut pods: Vec<_> = ranked.into_iter().map(|(_, pod)| pod).collect();
    if !job.is_indexed() {
        pods.truncate(at_least);
        return pods;
    }
    // The best of each index stays, which is the last.
    let mut taken = BTreeSet::new();
    let (mut stay, mut go) = (Vec::new(), Vec::new());
    for pod in pods.into_iter().rev() {
        match pod.valid_index(job) {
            Some(index) if taken.insert(index) => stay.push(pod),
            _ => go.push(pod),
        }
    }
    go.reverse();
    let more = at_least.saturating_sub(go.len());
    go.extend(stay.into_iter().rev().take(more));
    go
}

/// The first indexes that have not ended and have no pod.
fn pending_indexes(job: &Job, tally: &Tally<'_>, count: usize) -> Vec<i64> {
    let mut settled = tally.completed.union(&tally.active_indexes());
    if job.replaces_only_failed() {
        settled = settled.union(&tally.terminating_indexes());
    }
    if let Some(failed) = &tally.failed_indexes {
        settled = settled.union(failed);
    }
    settled.first_missing(count, job.completions())
}

#[cfg(test)]
mod tests;
