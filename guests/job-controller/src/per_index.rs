//! Failures counted index by index (`spec.backoffLimitPerIndex`).
//!
//! How often an index has failed is written on its pods alone. So a failed pod
//! keeps its finalizer, and with it stays, until the pod that replaces it
//! carries the count on.

use coxswain_sdk::sort::sorted_by;
use coxswain_sdk::{Object, Time};
use litemap::LiteMap;

use crate::backoff::ready_at;
use crate::failure_policy::Meaning;
use crate::indexes::Indexes;
use crate::view::{Job, Pod};

/// Indexes that have failed, by the status and by pods not counted yet.
pub fn failed_indexes(job: &Job, pods: &[Object<Pod>], limit: i64) -> Indexes {
    let before = job.status.failed_indexes.as_deref().unwrap_or_default();
    let fails_index = |pod: &Pod| {
        pod.is_tracked()
            && pod.has_failed(job)
            && match Meaning::of(job, pod) {
                Meaning::FailIndex => true,
                Meaning::Ignore => false,
                Meaning::Count | Meaning::FailJob(_) => pod.index_failures() >= limit,
            }
    };
    let failed = pods.iter().filter(|pod| fails_index(pod)).filter_map(|pod| pod.valid_index(job)).collect();
    Indexes::parse(before, job.completions()).union(&failed)
}

/// The last failed pod of each index that is to be tried again. Settled indexes
/// are those that have ended for good or have an active pod.
pub fn held_back<'a>(job: &Job, pods: &'a [Object<Pod>], settled: &Indexes) -> LiteMap<i64, &'a Object<Pod>> {
    let failed = pods.iter().filter(|pod| pod.is_tracked() && pod.has_failed(job));
    let failed = failed.filter_map(|pod| {
        pod.valid_index(job).filter(|index| !settled.has(*index)).map(|index| (index, pod))
    });
    let mut held: LiteMap<i64, &Object<Pod>> = LiteMap::new();
    // In the order of their indexes, in which a list is a map.
    for (index, pod) in sorted_by(failed, |a, b| a.0.cmp(&b.0)) {
        let is_later = |other: &&Object<Pod>| {
            failures_before(other) <= failures_before(pod) && pod.finished_at() >= other.finished_at()
        };
        if held.get(&index).is_none_or(is_later) {
            held.insert(index, pod);
        }
    }
    held
}

/// All failures of a pod's index before it, ignored ones too.
fn failures_before(pod: &Pod) -> i64 {
    pod.index_failures() + pod.ignored_index_failures()
}

/// When the pod of an index may be replaced; None: now.
pub fn index_ready_at(replaced: Option<&Object<Pod>>, now: Time) -> Option<Time> {
    replaced.and_then(|pod| ready_at(failures_before(pod) + 1, pod.finished_at(), now))
}

/// Counts that the next pod of an index carries: failures, and ignored ones.
pub fn counts_after(job: &Job, replaced: Option<&Object<Pod>>) -> (i64, i64) {
    let Some(pod) = replaced else { return (0, 0) };
    let (failures, ignored) = (pod.index_failures(), pod.ignored_index_failures());
    if Meaning::of(job, pod).counts() { (failures + 1, ignored) } else { (failures, ignored + 1) }
}
