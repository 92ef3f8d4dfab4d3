//! Whether a Job has succeeded or failed, and why.
//!
//! Pure. A verdict is written as an interim condition before pods lose their
//! finalizers, and stands from then on; the final condition follows once all
//! pods are counted and gone.

use std::time::Duration;

use coxswain_sdk::Time;
use coxswain_sdk::condition::{self, Condition};
use coxswain_sdk::job::{COMPLETE, FAILED};

use crate::failure_policy::Meaning;
use crate::success_policy;
use crate::tally::Tally;
use crate::view::{FAILURE_TARGET, Job, SUCCESS_CRITERIA_MET};

/// How a Job ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it has succeeded.
    pub success: bool,
    /// Why, in a word.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
}

impl Verdict {
    fn new(success: bool, reason: &str, message: impl Into<String>) -> Self {
        Self { success, reason: reason.to_owned(), message: message.into() }
    }

    fn failure(reason: &str, message: &str) -> Option<Self> {
        Some(Self::new(false, reason, message))
    }

    /// Success because enough pods have succeeded.
    pub fn completed() -> Self {
        Self::new(true, "CompletionsReached", "Reached expected number of succeeded pods")
    }

    /// The verdict by all but the number of completions, which also depends on
    /// what becomes of the active pods.
    pub fn of(job: &Job, tally: &Tally<'_>, start: Option<Time>, now: Time) -> Option<Self> {
        recorded(job)
            .or_else(|| by_failure_policy(job, tally))
            .or_else(|| by_limits(job, tally, start, now))
            .or_else(|| by_failed_indexes(job, tally))
            .or_else(|| {
                let message = success_policy::met(job, &tally.completed)?;
                Some(Self::new(true, "SuccessPolicy", message))
            })
    }

    /// Type of the interim condition.
    pub fn interim(&self) -> &'static str {
        if self.success { SUCCESS_CRITERIA_MET } else { FAILURE_TARGET }
    }

    /// Type of the final condition.
    pub fn terminal(&self) -> &'static str {
        if self.success { COMPLETE } else { FAILED }
    }
}

/// The verdict that the status holds.
fn recorded(job: &Job) -> Option<Verdict> {
    [(true, SUCCESS_CRITERIA_MET), (false, FAILURE_TARGET)].into_iter().find_map(|(success, kind)| {
        let condition = condition::find(&job.status.conditions, kind).filter(|c| Condition::is_true(c))?;
        Some(Verdict::new(success, &condition.reason, condition.message.as_str()))
    })
}

fn by_failure_policy(job: &Job, tally: &Tally<'_>) -> Option<Verdict> {
    job.spec.pod_failure_policy.as_ref()?;
    tally.pods.iter().filter(|pod| pod.has_failed(job)).find_map(|pod| match Meaning::of(job, pod) {
        Meaning::FailJob(message) => Some(Verdict::new(false, "PodFailurePolicy", message)),
        Meaning::Count | Meaning::Ignore | Meaning::FailIndex => None,
    })
}

fn by_limits(job: &Job, tally: &Tally<'_>, start: Option<Time>, now: Time) -> Option<Verdict> {
    if tally.failed > job.backoff_limit() || restarted_too_often(job, tally) {
        return Verdict::failure("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    }
    if deadline(job, start).is_some_and(|deadline| deadline <= now) {
        return Verdict::failure("DeadlineExceeded", "Job was active longer than specified deadline");
    }
    None
}

/// Restarts count where containers are restarted in place; the pod's own end is
/// then no failure.
fn restarted_too_often(job: &Job, tally: &Tally<'_>) -> bool {
    if !job.restarts_on_failure() {
        return false;
    }
    let live = tally.pods.iter().filter(|pod| matches!(pod.status.phase.as_str(), "Running" | "Pending"));
    let restarts = live.map(|pod| pod.restarts()).fold(0, i64::saturating_add);
    restarts >= job.backoff_limit().max(1)
}

/// When the Job has been active for too long. A suspended Job is not active.
pub fn deadline(job: &Job, start: Option<Time>) -> Option<Time> {
    let seconds = job.spec.active_deadline_seconds.filter(|_| !job.is_suspended())?;
    Some(start? + Duration::from_secs(seconds.max(0).unsigned_abs()))
}

fn by_failed_indexes(job: &Job, tally: &Tally<'_>) -> Option<Verdict> {
    let failed = tally.failed_indexes_total();
    if job.spec.max_failed_indexes.is_some_and(|max| failed > i64::from(max)) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Verdict::failure("MaxFailedIndexesExceeded", message);
    }
    if failed > 0 && failed + tally.completed.total() >= job.completions() {
        return Verdict::failure("FailedIndexes", "Job has failed indexes");
    }
    None
}

#[cfg(test)]
mod tests;
