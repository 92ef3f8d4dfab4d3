//! How long a Job waits with a further pod after some have failed.
//!
//! Pure: pods and what is remembered of others in, failures in a row and a time
//! out. The wait counts from the end of the last pod that failed, so a restart
//! of the manager neither forgets nor prolongs it.

use std::time::Duration;

use coxswain_sdk::Time;
use serde::{Deserialize, Serialize};

use crate::view::{Job, Pod};

/// The wait after one failure.
pub const FIRST: Duration = Duration::from_secs(10);
/// The longest wait.
pub const LONGEST: Duration = Duration::from_secs(600);

/// Failures since the last success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Failures {
    /// How many.
    pub count: i64,
    /// When the last pod failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Time>,
}

impl Failures {
    /// Whether there are none.
    pub fn are_none(&self) -> bool {
        *self == Self::default()
    }

    /// Failures since the last success, by the pods that are there and what is
    /// remembered of those that are gone.
    pub fn of<'a>(job: &Job, pods: impl IntoIterator<Item = &'a Pod>, remembered: Self) -> Self {
        let mut succeeded: Option<Time> = None;
        let mut failed = Vec::new();
        for pod in pods {
            if job.is_indexed() && pod.valid_index(job).is_none() {
                continue;
            }
            if pod.has_succeeded() {
                succeeded = succeeded.max(Some(pod.finished_at()));
            } else if has_failed_by_itself(job, pod) {
                failed.push(pod.finished_at());
            }
        }
        let after_success = |at: &Time| succeeded.is_none_or(|succeeded| *at > succeeded);
        failed.retain(after_success);
        let old =
            if remembered.last.as_ref().is_some_and(after_success) { remembered } else { Self::default() };
        let new = failed.iter().filter(|at| old.last.is_none_or(|last| **at > last)).count();
        Self {
            // Of pods that ended in the same second it cannot be told which are remembered.
            count: old.count.saturating_add(as_count(new)).max(as_count(failed.len())),
            last: failed.iter().copied().max().max(old.last),
        }
    }

    /// When a further pod may be made; None: now.
    pub fn ready_at(&self, now: Time) -> Option<Time> {
        self.last.and_then(|last| ready_at(self.count, last, now))
    }
}

fn as_count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A pod that we asked to go ourselves lost its finalizer before; one that was
/// counted keeps its phase.
fn has_failed_by_itself(job: &Job, pod: &Pod) -> bool {
    pod.has_failed(job) && (pod.is_tracked() || !pod.metadata.is_deleting())
}

/// The wait after so many failures in a row.
fn wait_after(failures: i64) -> Duration {
    let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or(0).min(30);
    FIRST.saturating_mul(1 << doublings).min(LONGEST)
}

/// When a further pod may be made, so many failures after a success; None: now.
pub fn ready_at(failures: i64, last: Time, now: Time) -> Option<Time> {
    if failures <= 0 {
        return None;
    }
    // A clock ahead of ours must not lengthen the wait.
    let at = last.min(now) + wait_after(failures);
    (at > now).then_some(at)
}
