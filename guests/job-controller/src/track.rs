//! Counting each pod once.
//!
//! A pod that ends keeps its finalizer until its uid stands in the status as
//! uncounted; a uid leaves that list for the counters once the pod has lost its
//! finalizer. So whatever is interrupted, the next sync sees how far it came.
//! Pods of Indexed Jobs that succeed need no list: the index tells.
//!
//! Pure: a status in, the status to write before finalizers are removed out.

use coxswain_sdk::Object;
use coxswain_sdk::sort::TextSet;

use crate::failure_policy::Meaning;
use crate::tally::{Tally, number, set};
use crate::verdict::Verdict;
use crate::view::{Job, JobStatus, Pod};

/// About so many pods are listed as uncounted, and lose their finalizer, at once.
pub const MOST_UNCOUNTED: usize = 500;

/// A pod that loses its finalizer.
pub struct Release<'a> {
    /// The pod.
    pub pod: &'a Object<Pod>,
    /// The action of the policy's rule that its failure was judged by.
    pub action: Option<&'static str>,
}

/// What follows once the status is written.
pub struct Tracked<'a> {
    /// Pods that then lose their finalizer.
    pub release: Vec<Release<'a>>,
    /// Whether there are more, left for the next plan.
    pub cut_short: bool,
}

/// Lists what has ended as uncounted, and counts what was listed and has lost
/// its finalizer.
pub fn track<'a>(
    job: &Job,
    tally: &Tally<'a>,
    verdict: Option<&Verdict>,
    status: &mut JobStatus,
) -> Tracked<'a> {
    let tracked = tally.pods.iter().filter(|pod| pod.is_tracked());
    let tracked: TextSet<'_> = tracked.map(|pod| pod.metadata.uid.as_str()).collect();
    count_untracked(status, |uid| tracked.contains(uid));

    let before = job.status.uncounted_terminated_pods.clone().unwrap_or_default();
    let (listed_succeeded, listed_failed) = (set(&before.succeeded), set(&before.failed));
    let mut lists = status.uncounted_terminated_pods.take().unwrap_or_default();
    let mut new_indexes = 0;
    let mut result = Tracked { release: Vec::new(), cut_short: false };
    let ended_badly = verdict.is_some_and(|verdict| !verdict.success);
    for pod in tally.pods.iter().filter(|pod| pod.is_tracked()) {
        let failed = pod.has_failed(job);
        if !may_release(job, tally, verdict, pod, failed) {
            continue;
        }
        if result.release.len() >= MOST_UNCOUNTED
            || new_indexes + lists.succeeded.len() + lists.failed.len() >= MOST_UNCOUNTED
        {
            result.cut_short = true;
            break;
        }
        let uid = &pod.metadata.uid;
        let index = pod.valid_index(job);
        let valid = !job.is_indexed() || index.is_some();
        let mut action = None;
        if pod.has_succeeded() && !listed_failed.contains(uid.as_str()) {
            if job.is_indexed() {
                new_indexes += usize::from(index.is_some_and(|index| !tally.completed_before.has(index)));
            } else if !listed_succeeded.contains(uid.as_str()) {
                lists.succeeded.push(uid.clone());
            }
        } else if (failed || ended_badly) && valid {
            // Once the Job has failed, pods that have not ended count as failed too.
            let by_rule = Meaning::by_rule(job, pod);
            action = by_rule.as_ref().map(Meaning::action);
            if !listed_failed.contains(uid.as_str()) && by_rule.is_none_or(|meaning| meaning.counts()) {
                lists.failed.push(uid.clone());
            }
        }
        result.release.push(Release { pod, action });
    }
    status.uncounted_terminated_pods = Some(lists);
    if job.is_indexed() {
        status.succeeded = clamped(tally.completed.total());
        status.completed_indexes = tally.completed.to_string();
        status.failed_indexes = tally.failed_indexes.as_ref().map(ToString::to_string);
    }
    result
}

/// Whether a pod may lose its finalizer, once listed where it counts.
fn may_release(
    job: &Job,
    tally: &Tally<'_>,
    verdict: Option<&Verdict>,
    pod: &Object<Pod>,
    failed: bool,
) -> bool {
    if job.metadata.is_deleting() || verdict.is_some() || pod.has_succeeded() {
        return true;
    }
    let held_back = || {
        let held = pod.index().and_then(|index| tally.held_back.get(&index));
        held.is_some_and(|held| held.metadata.uid == pod.metadata.uid)
    };
    failed && !held_back()
}

/// Counts the uids listed whose pods are not tracked any more.
pub fn count_untracked(status: &mut JobStatus, is_tracked: impl Fn(&str) -> bool) {
    let Some(lists) = &mut status.uncounted_terminated_pods else { return };
    for (list, counter) in
        [(&mut lists.succeeded, &mut status.succeeded), (&mut lists.failed, &mut status.failed)]
    {
        let before = list.len();
        list.retain(|uid| is_tracked(uid));
        *counter = clamped(i64::from(*counter).saturating_add(number(before - list.len())));
    }
}

/// A count as the API has it.
pub fn clamped(count: i64) -> i32 {
    i32::try_from(count.max(0)).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
