//! One sync of a Job: who its pods are, how it stands, what is to be done.
//!
//! `status` works out what is written of it, `writes` puts all in order.

use coxswain_sdk::claim::{Claims, candidates, claim_tracked};
use coxswain_sdk::selector::Selector;
use coxswain_sdk::sort::sort_by_key;
use coxswain_sdk::{About, Ctx, Error, Object, Plan, Result, Step};

use crate::backoff::Failures;
use crate::manage::{BURST, Work};
use crate::measures;
use crate::memory::{BATCH, Memory};
use crate::setbacks::Review;
use crate::status::Outlook;
use crate::tally::Tally;
use crate::verdict::{Verdict, deadline};
use crate::view::{Job, Pod, TRACKING};
use crate::writes;

/// Syncs a Job. The memory is none where the one there is stays as it is.
pub fn sync(
    ctx: &Ctx<'_>,
    job: &Object<Job>,
    memory: Memory,
    review: &Review<'_>,
) -> Result<(Plan, Option<Memory>)> {
    let (meta, now) = (&job.metadata, ctx.now());
    let mut plan = Plan::new();
    let claims = claims(ctx, job)?;
    if !claims.writes.is_empty() {
        // Who belongs to the Job has to be settled before anybody is counted.
        plan.then(Step::new(claims.writes.into_iter().take(BURST)));
        return Ok((plan, None));
    }
    let mut pods = claims.owned;
    if job.is_indexed() {
        sort_by_key(&mut pods, |pod| pod.index().unwrap_or(-1));
    }
    let namespace_terminating = memory.namespace_terminating || review.namespace_terminating;
    let about = About::of::<Job, _>(meta);
    for failure in &review.refused {
        plan.event(about.warning("FailedCreate", format!("Error creating: {}", failure.message)));
    }

    let start = if job.is_suspended() {
        job.status.start_time
    } else {
        job.status.start_time.or(Some(now.whole_seconds()))
    };
    let tally = Tally::of(job, &pods);
    let failures = Failures::of(job, pods.iter().map(|pod| &**pod), memory.failures);
    let verdict = Verdict::of(job, &tally, start, now);
    let mut work = match verdict {
        Some(_) => Work::end(&tally),
        None if meta.is_deleting() => Work::default(),
        None => Work::of(job, &tally, &failures, now),
    };
    let setbacks = memory.setbacks;
    if namespace_terminating || setbacks.waits {
        work.make_none();
    }
    if !work.create.is_empty() && job.spec.template.metadata.labels.is_empty() && !job.is_indexed() {
        plan.event(about.warning("FailedCreate", "Error creating: unable to create pods, no labels"));
        work.make_none();
    }

    let trusts = !review.is_about_pods() && !setbacks.pods;
    let outlook = Outlook::of(job, &tally, start, verdict, trusts.then_some(&work), &about, now);
    let cut_short = (outlook.cut_short || work.cut_short) && trusts && ctx.results().is_empty();
    let again = [
        deadline(job, start).filter(|at| *at > now),
        work.again.map(|at| at.max(now + BATCH)),
        setbacks.again(now),
    ];
    let due = if cut_short { Some(now) } else { again.into_iter().flatten().min() };
    if let Some(due) = due {
        plan.come_back(due);
    }
    if outlook.has_too_many(job) {
        let text = "Too many succeeded pods running after completion count reached";
        plan.event(about.warning("TooManySucceededPods", text));
    }

    measures::sync(&mut plan, job, &work);
    measures::creations(&mut plan, job, &tally, &work, review.refused.len());
    measures::status(&mut plan, job, &tally, &outlook);
    measures::handled(&mut plan, &outlook.release);

    // Writes to pods come first, and the status says what they lead to: if one
    // fails it is not written. After that the status says what there is, and
    // they come last, so that they keep nobody from being counted.
    let pods = writes::of_pods(job, &tally, &about, &work)?;
    let status = writes::of_status(job, outlook)?;
    let (first, then) = if trusts { (pods, status) } else { (status, pods) };
    for step in first.into_iter().chain(then) {
        plan.then(step);
    }
    let memory = Memory { generation: meta.generation, due, failures, setbacks, namespace_terminating };
    Ok((plan, Some(memory)))
}

/// Who belongs to the Job.
fn claims(ctx: &Ctx<'_>, job: &Object<Job>) -> Result<Claims<Pod>> {
    let meta = &job.metadata;
    let complaint = |what: String| Error::Terminal(format!("Job {}/{}: {what}", meta.namespace, meta.name));
    let selector = Selector::of(job.spec.selector.as_ref())
        .map_err(|reason| complaint(format!("invalid selector: {reason}")))?;
    if job.is_indexed() && job.spec.completions.is_none() {
        return Err(complaint("is Indexed and has no completions".to_owned()));
    }
    let around = candidates::<Pod>(ctx, &meta.namespace, &meta.uid, &selector)?;
    claim_tracked(ctx, &**job, &selector, around, TRACKING)
}
