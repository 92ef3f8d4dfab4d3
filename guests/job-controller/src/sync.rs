//! One sync of a Job: its pods counted, its verdict, what is made and deleted,
//! and its status, as one plan.
//!
//! The order of the plan is what makes counting safe: pods that have ended are
//! listed in the status, then lose their finalizer, then are counted. A step
//! that fails ends the plan; the next sync sees how far it came.

use std::collections::HashSet;

use coxswain_sdk::claim::{candidates, claim_tracked};
use coxswain_sdk::condition::{self, Condition};
use coxswain_sdk::contract::{ActionOutcome, Failure};
use coxswain_sdk::resource::{JOBS, PODS};
use coxswain_sdk::selector::Selector;
use coxswain_sdk::{About, Action, Ctx, Error, Object, Plan, Result, Step, Time};
use serde_json::Value;

use crate::backoff::Failures;
use crate::make::creations;
use crate::manage::{BURST, Work};
use crate::memory::{BATCH, Memory};
use crate::orphans::untrack;
use crate::tally::{Tally, number};
use crate::track::{clamped, count_untracked, track};
use crate::verdict::{Verdict, deadline};
use crate::view::{Job, JobStatus, Pod, SUSPENDED, TRACKING};

/// Syncs a Job. The memory is none where the one there is stays as it is.
pub fn sync(ctx: &Ctx<'_>, job: &Object<Job>, memory: Memory) -> Result<(Plan, Option<Memory>)> {
    let (meta, now) = (&job.metadata, ctx.now());
    let complaint = |what: String| Error::Terminal(format!("Job {}/{}: {what}", meta.namespace, meta.name));
    let selector = Selector::of(job.spec.selector.as_ref())
        .map_err(|reason| complaint(format!("invalid selector: {reason}")))?;
    if job.is_indexed() && job.spec.completions.is_none() {
        return Err(complaint("is Indexed and has no completions".to_owned()));
    }
    let around = candidates::<Pod>(ctx, &meta.namespace, &meta.uid, &selector)?;
    let claims = claim_tracked(ctx, &**job, &selector, around, TRACKING)?;
    let mut plan = Plan::new();
    if !claims.writes.is_empty() {
        // Who belongs to the Job has to be settled before anybody is counted.
        plan.then(Step::new(claims.writes.into_iter().take(BURST)));
        return Ok((plan, None));
    }
    let mut pods = claims.owned;
    if job.is_indexed() {
        pods.sort_by_key(|pod| pod.index().unwrap_or(-1));
    }

    let trouble = Trouble::of(ctx, memory.namespace_terminating);
    let about = About::of::<Job, _>(meta);
    for failure in &trouble.refused {
        plan.event(about.warning("FailedCreate", format!("Error creating: {}", failure.message)));
    }

    let mut status = job.status.clone();
    if !job.is_suspended() {
        status.start_time.get_or_insert(now.whole_seconds());
    }
    let tally = Tally::of(job, &pods);
    let failures = Failures::of(job, pods.iter().map(|pod| &**pod), memory.failures);
    let mut verdict = Verdict::of(job, &tally, status.start_time, now);
    let manages = verdict.is_none() && !meta.is_deleting();
    let mut work = match verdict {
        Some(_) => Work::end(&tally),
        None if manages => Work::of(job, &tally, &failures, now),
        None => Work::default(),
    };
    let refusals = memory.refusals.after(!trouble.refused.is_empty());
    if trouble.namespace_terminating || refusals.waits {
        work.make_none();
    }
    if !work.create.is_empty() && job.spec.template.metadata.labels.is_empty() && !job.is_indexed() {
        plan.event(about.warning("FailedCreate", "Error creating: unable to create pods, no labels"));
        work.make_none();
    }
    let again = [
        deadline(job, status.start_time).filter(|at| *at > now),
        work.again.map(|at| at.max(now + BATCH)),
        refusals.again(now),
    ];

    // Writes to pods come first, and the status says what they lead to: if one
    // fails it is not written. After that the status says what there is, and
    // they come last, so that they keep nobody from being counted.
    let trusts = !trouble.pods && refusals.are_none();
    let (created, deleted) =
        if trusts { (work.create.len(), work.delete.as_slice()) } else { (0, [].as_slice()) };
    let active = number(tally.active.len()) + number(created) - number(deleted.len());
    let gone: HashSet<&str> = deleted.iter().map(|pod| pod.metadata.uid.as_str()).collect();
    let ready = tally.active.iter().filter(|pod| pod.is_ready() && !gone.contains(pod.metadata.uid.as_str()));
    status.active = clamped(active);
    status.ready = Some(clamped(number(ready.count())));
    status.terminating = Some(clamped(tally.terminating + number(deleted.len())));

    let mut event = None;
    if verdict.is_some() {
        // Not before all of its pods were asked to go is it known who they are.
        verdict = verdict.filter(|_| active == 0);
    } else if is_complete(job, &tally, active) {
        verdict = Some(Verdict::completed());
    } else if manages {
        event = suspend_or_resume(job, &mut status, &about, now);
    }

    let tracked = track(job, &tally, verdict.as_ref(), &mut status);
    if let Some(verdict) = &verdict {
        let stands = condition::find(&status.conditions, verdict.interim()).is_some_and(Condition::is_true);
        if !stands {
            status.conditions.push(new_condition(verdict.interim(), "True", verdict, now));
        }
    }
    let mut finally = status.clone();
    let released: HashSet<&str> = tracked.release.iter().map(|pod| pod.metadata.uid.as_str()).collect();
    count_untracked(&mut finally, |uid| !released.contains(uid));
    let ended = verdict.filter(|_| !tracked.cut_short && may_end(&finally));
    if let Some(verdict) = &ended {
        end(&mut finally, verdict, now);
        if verdict.success && job.spec.completions.is_some_and(|wanted| finally.succeeded > wanted) {
            let text = "Too many succeeded pods running after completion count reached";
            plan.event(about.warning("TooManySucceededPods", text));
        }
        event = Some(match verdict.success {
            true => about.normal("Completed", "Job completed"),
            false => about.warning(&verdict.reason, verdict.message.as_str()),
        });
    }

    let cut_short = (tracked.cut_short || work.cut_short) && trusts && ctx.results().is_empty();
    let pod_work = pod_work(job, &tally, &about, work)?;
    let mut writes = Vec::new();
    let write = |seen: &JobStatus, wanted: &JobStatus| -> Result<Option<Action>> {
        let write = Action::status(JOBS, &meta.namespace, &meta.name, seen, wanted)?;
        Ok(write.map(|write| write.as_seen(job)))
    };
    let (mut first, mut last) = (None, None);
    if tracked.release.is_empty() {
        last = write(&job.status, &finally)?;
    } else {
        first = write(&job.status, &status)?;
        last = write(&status, &finally)?.or(last);
    }
    // An event goes with the write that makes it true.
    if let Some(event) = event {
        let with = if ended.is_some() || first.is_none() { &mut last } else { &mut first };
        *with = with.take().map(|write| write.on_success(event));
    }
    writes.push(Step::from(first));
    writes.push(Step::new(tracked.release.iter().map(|pod| untrack(pod).tag("count"))));
    writes.push(Step::from(last));
    let (before, after) = if trusts { (pod_work, Vec::new()) } else { (Vec::new(), pod_work) };
    for step in before.into_iter().chain(writes).chain(after) {
        plan.then(step);
    }

    let due = if cut_short { Some(now) } else { again.into_iter().flatten().min() };
    if let Some(due) = due {
        plan.come_back(due);
    }
    let memory = Memory {
        generation: meta.generation,
        due,
        failures,
        refusals,
        namespace_terminating: trouble.namespace_terminating,
    };
    Ok((plan, Some(memory)))
}

/// What went wrong with the last plan's pods.
struct Trouble<'a> {
    /// Whether anything did.
    pods: bool,
    /// Refused creations, but for those that a terminating namespace refused.
    refused: Vec<&'a Failure>,
    namespace_terminating: bool,
}

impl<'a> Trouble<'a> {
    fn of(ctx: &Ctx<'a>, namespace_terminating: bool) -> Self {
        let terminating =
            |failure: &&Failure| failure.causes.iter().any(|cause| cause.reason == "NamespaceTerminating");
        let (in_vain, refused): (Vec<_>, Vec<_>) = ctx.failures("create").partition(terminating);
        Self {
            pods: ctx.results().iter().any(|result| {
                matches!(result.tag.as_str(), "create" | "delete" | "untrack")
                    && result.result != ActionOutcome::Skipped
            }),
            refused,
            namespace_terminating: namespace_terminating || !in_vain.is_empty(),
        }
    }
}

/// The writes to pods. A pod that is deleted before it has ended is not to be
/// counted, so it loses its finalizer first; unless the Job has ended, which
/// counts it.
fn pod_work(job: &Job, tally: &Tally<'_>, about: &About, work: Work<'_>) -> Result<Vec<Step>> {
    let created = |create: Action| {
        create.tag("create").on_success(about.normal("SuccessfulCreate", "Created pod: {name}"))
    };
    let create = creations(job, tally, &work.create)?.into_iter().map(created);
    let uncounted = work.delete.iter().filter(|pod| !work.counts && pod.is_tracked()).map(|pod| untrack(pod));
    let delete = work.delete.iter().map(|pod| {
        let meta = &pod.metadata;
        Action::delete(PODS, &meta.namespace, &meta.name)
            .uid(&meta.uid)
            .tag("delete")
            .on_success(about.normal("SuccessfulDelete", "Deleted pod: {name}"))
            .on_failure(about.warning("FailedDelete", "Error deleting: {message}"))
    });
    // Where one creation fails, the others likely would too.
    Ok(vec![Step::new(create).slow_start(), Step::new(uncounted), Step::new(delete)])
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
fn suspend_or_resume(
    job: &Job,
    status: &mut JobStatus,
    about: &About,
    now: Time,
) -> Option<coxswain_sdk::Event> {
    let (to, reason, message, event) = match job.is_suspended() {
        true => ("True", "JobSuspended", "Job suspended", "Suspended"),
        false => ("False", "JobResumed", "Job resumed", "Resumed"),
    };
    let verdict = Verdict { success: false, reason: reason.to_owned(), message: message.to_owned() };
    let condition = new_condition(SUSPENDED, to, &verdict, now);
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

fn may_end(status: &JobStatus) -> bool {
    let uncounted = status.uncounted_terminated_pods.as_ref();
    status.terminating == Some(0)
        && uncounted.is_none_or(|lists| lists.succeeded.is_empty() && lists.failed.is_empty())
}

/// Sets the final condition.
fn end(status: &mut JobStatus, verdict: &Verdict, now: Time) {
    condition::remove(&mut status.conditions, verdict.terminal());
    status.conditions.push(new_condition(verdict.terminal(), "True", verdict, now));
    if verdict.success {
        status.completion_time = Some(now.whole_seconds());
    }
}

fn new_condition(kind: &str, status: &str, why: &Verdict, now: Time) -> Condition {
    let mut condition = Condition::new(kind, status, &why.reason, why.message.as_str(), now);
    condition.rest.insert("lastProbeTime".to_owned(), Value::from(now.to_string()));
    condition
}
