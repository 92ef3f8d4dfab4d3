//! What is written of a Job: its status before pods lose their finalizers, and
//! after.
//!
//! Pure.

use coxswain_sdk::condition::{self, Condition};
use coxswain_sdk::job::COMPLETE;
use coxswain_sdk::sort::TextSet;
use coxswain_sdk::{About, Event, Object, Time};
use serde_json::Value;

use crate::manage::Work;
use crate::tally::{Tally, number};
use crate::track::{Release, Tracked, clamped, count_untracked, track};
use crate::verdict::Verdict;
use crate::view::{Job, JobStatus, Pod, SUSPENDED};

/// How a Job stands, and is going to.
pub struct Outlook<'a> {
    /// The status before pods lose their finalizers.
    pub before: JobStatus,
    /// Pods that then lose them.
    pub release: Vec<Release<'a>>,
    /// The status once they have.
    pub after: JobStatus,
    /// Whether the Job has then ended.
    pub ended: bool,
    /// How it has ended.
    pub end: Option<Verdict>,
    /// What is to be told.
    pub event: Option<Event>,
    /// Whether there are more to lose their finalizer.
    pub cut_short: bool,
}

impl<'a> Outlook<'a> {
    /// The outlook. The verdict is that of all but the number of completions,
    /// the work is none where it is not to be taken for done.
    pub fn of(
        job: &Job,
        tally: &Tally<'a>,
        start: Option<Time>,
        verdict: Option<Verdict>,
        work: Option<&Work<'_>>,
        about: &About,
        now: Time,
    ) -> Self {
        let mut before = JobStatus { start_time: start, ..job.status.clone() };
        let active = count_pods(&mut before, tally, work);
        let mut event = None;
        let verdict = match verdict {
            // Not before all of its pods were asked to go is it known who they are.
            Some(verdict) => Some(verdict).filter(|_| active == 0),
            None if is_complete(job, tally, active) => Some(Verdict::completed()),
            None => {
                if !job.metadata.is_deleting() {
                    event = suspend_or_resume(job, &mut before, about, now);
                }
                None
            }
        };
        let Tracked { release, cut_short } = track(job, tally, verdict.as_ref(), &mut before);
        if let Some(verdict) = &verdict {
            record(&mut before, verdict.interim(), verdict, now);
        }
        let mut after = before.clone();
        let released: TextSet<'_> = release.iter().map(|release| release.pod.metadata.uid.as_str()).collect();
        count_untracked(&mut after, |uid| !released.contains(uid));
        let end = verdict.filter(|_| !cut_short && may_end(&after));
        if let Some(verdict) = &end {
            record(&mut after, verdict.terminal(), verdict, now);
            event = Some(if verdict.success {
                after.completion_time = Some(now.whole_seconds());
                about.normal("Completed", "Job completed")
            } else {
                about.warning(&verdict.reason, verdict.message.as_str())
            });
        }
        Self { before, release, after, ended: end.is_some(), end, event, cut_short }
    }

    /// Whether the Job ends with more successes than asked for.
    pub fn has_too_many(&self, job: &Job) -> bool {
        let complete = condition::is_true(&self.after.conditions, COMPLETE);
        self.ended && complete && job.spec.completions.is_some_and(|wanted| self.after.succeeded > wanted)
    }
}

/// Sets the counts of pods that have not ended, as they are after this work.
/// Returns how many are active.
fn count_pods(status: &mut JobStatus, tally: &Tally<'_>, work: Option<&Work<'_>>) -> i64 {
    let created = number(work.map_or(0, |work| work.create.len()));
    let deleted = work.map_or([].as_slice(), |work| work.delete.as_slice());
    let active = number(tally.active.len()) + created - number(deleted.len());
    let gone: TextSet<'_> = deleted.iter().map(|pod| pod.metadata.uid.as_str()).collect();
    let is_ready = |pod: &&&Object<Pod>| pod.is_ready() && !gone.contains(&pod.metadata.uid);
    status.active = clamped(active);
    status.ready = Some(clamped(number(tally.active.iter().filter(is_ready).count())));
    status.terminating = Some(clamped(tally.terminating + number(deleted.len())));
    active
}

/// Whether enough pods have succeeded and none is active.
fn is_complete(job: &Job, tally: &Tally<'_>, active: i64) -> bool {
    let enough = match job.spec.completions {
        None => tally.succeeded > 0,
        Some(_) => tally.succeeded >= job.completions(),
    };
    enough && active == 0
}

/// Keeps the Suspended condition. A Job's time counts from when it was last
/// resumed.
fn suspend_or_resume(job: &Job, status: &mut JobStatus, about: &About, now: Time) -> Option<Event> {
    let (to, reason, message, event) = if job.is_suspended() {
        ("True", "JobSuspended", "Job suspended", "Suspended")
    } else {
        ("False", "JobResumed", "Job resumed", "Resumed")
    };
    let condition = new_condition(SUSPENDED, to, reason, message, now);
    match status.conditions.iter_mut().find(|condition| condition.kind == SUSPENDED) {
        Some(there) if there.status == to && there.reason == reason && there.message == message => {
            return None;
        }
        Some(there) => *there = condition,
        // A Job that never was suspended does not say so.
        None if !job.is_suspended() => return None,
        None => status.conditions.push(condition),
    }
    status.start_time = (!job.is_suspended()).then(|| now.whole_seconds());
    Some(about.normal(event, message))
}

/// Whether all pods are counted and gone.
fn may_end(status: &JobStatus) -> bool {
    let uncounted = status.uncounted_terminated_pods.as_ref();
    status.terminating == Some(0)
        && uncounted.is_none_or(|lists| lists.succeeded.is_empty() && lists.failed.is_empty())
}

/// Sets the condition of a verdict, unless it stands.
fn record(status: &mut JobStatus, kind: &str, verdict: &Verdict, now: Time) {
    if condition::is_true(&status.conditions, kind) {
        return;
    }
    condition::remove(&mut status.conditions, kind);
    status.conditions.push(new_condition(kind, "True", &verdict.reason, &verdict.message, now));
}

fn new_condition(kind: &str, status: &str, reason: &str, message: &str, now: Time) -> Condition {
    let mut condition = Condition::new(kind, status, reason, message, now);
    condition.rest.insert("lastProbeTime".to_owned(), Value::from(now.to_string()));
    condition
}
