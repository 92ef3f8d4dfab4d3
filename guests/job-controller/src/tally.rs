//! Who is there: a Job's pods, sorted out.
//!
//! Invariant: a pod is new to the counts as long as it carries the finalizer and
//! is not listed as uncounted; once listed it is counted by that list.

use coxswain_sdk::Object;
use coxswain_sdk::sort::TextSet;
use litemap::LiteMap;

use crate::failure_policy::Meaning;
use crate::indexes::Indexes;
use crate::per_index::{failed_indexes, held_back};
use crate::view::{Job, Pod};

/// A Job's pods, sorted out.
pub struct Tally<'a> {
    /// All of them; those of an Indexed Job by index.
    pub pods: &'a [Object<Pod>],
    /// Those that neither ended nor were asked to go.
    pub active: Vec<&'a Object<Pod>>,
    /// How many were asked to go and have not ended.
    pub terminating: i64,
    /// How many have succeeded, or how many indexes are completed.
    pub succeeded: i64,
    /// How many have failed, without those that a policy ignores.
    pub failed: i64,
    /// Completed indexes by the status.
    pub completed_before: Indexes,
    /// Completed indexes.
    pub completed: Indexes,
    /// Failed indexes, where those are kept.
    pub failed_indexes: Option<Indexes>,
    /// Failed pods that keep their finalizer until they are replaced, by index.
    pub held_back: LiteMap<i64, &'a Object<Pod>>,
}

impl<'a> Tally<'a> {
    /// Sorts pods out.
    pub fn of(job: &Job, pods: &'a [Object<Pod>]) -> Self {
        let status = &job.status;
        let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
        let (uncounted_succeeded, uncounted_failed) = (set(&uncounted.succeeded), set(&uncounted.failed));
        let is_new = |pod: &Pod, listed: &TextSet<'_>| {
            pod.is_tracked()
                && !listed.contains(&pod.metadata.uid)
                && (!job.is_indexed() || pod.valid_index(job).is_some())
        };
        let new_succeeded =
            pods.iter().filter(|pod| pod.has_succeeded() && is_new(pod, &uncounted_succeeded)).count();
        let new_failed = pods
            .iter()
            .filter(|pod| {
                pod.has_failed(job) && is_new(pod, &uncounted_failed) && Meaning::of(job, pod).counts()
            })
            .count();
        let total = |counter: i32, listed: &TextSet<'_>, new| {
            i64::from(counter).saturating_add(number(listed.len())).saturating_add(number(new))
        };
        let mut tally = Self {
            pods,
            active: pods.iter().filter(|pod| pod.is_active()).collect(),
            terminating: number(pods.iter().filter(|pod| pod.is_terminating()).count()),
            succeeded: total(status.succeeded, &uncounted_succeeded, new_succeeded),
            failed: total(status.failed, &uncounted_failed, new_failed),
            completed_before: Indexes::default(),
            completed: Indexes::default(),
            failed_indexes: None,
            held_back: LiteMap::new(),
        };
        if job.is_indexed() {
            tally.completed_before = Indexes::parse(&status.completed_indexes, job.completions());
            let new = pods.iter().filter(|pod| pod.has_succeeded() && pod.is_tracked());
            let new: Indexes = new.filter_map(|pod| pod.valid_index(job)).collect();
            tally.completed = tally.completed_before.union(&new);
            tally.succeeded = tally.completed.total();
        }
        if let Some(limit) = job.backoff_limit_per_index() {
            let failed = failed_indexes(job, pods, limit);
            let settled = tally.completed.union(&failed).union(&tally.active_indexes());
            tally.held_back = held_back(job, pods, &settled);
            tally.failed_indexes = Some(failed);
        }
        tally
    }

    /// Indexes that active pods have.
    pub fn active_indexes(&self) -> Indexes {
        self.active.iter().filter_map(|pod| pod.index()).collect()
    }

    /// Indexes that terminating pods have.
    pub fn terminating_indexes(&self) -> Indexes {
        self.pods.iter().filter(|pod| pod.is_terminating()).filter_map(|pod| pod.index()).collect()
    }

    /// How many indexes have failed.
    pub fn failed_indexes_total(&self) -> i64 {
        self.failed_indexes.as_ref().map_or(0, Indexes::total)
    }
}

/// Uids, to look up.
pub fn set(uids: &[String]) -> TextSet<'_> {
    uids.iter().map(String::as_str).collect()
}

/// A count as the arithmetic here has it.
pub fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
