//! What is to be done about a CronJob.

use coxswain_sdk::contract::{Failure, Measure, Occasion};
use coxswain_sdk::resource::{CRON_JOBS, JOBS};
use coxswain_sdk::{About, Action, Ask, Ctx, Error, Object, Plan, Query, Result, Step, Time};

use crate::history;
use crate::job;
use crate::memory::{self, Memory};
use crate::record::{Record, record};
use crate::schedule::{Missed, Overdue, Schedule, next_after_now, overdue};
use crate::timing::{fingerprint, names_zone, rfc1123, schedule_of, zone_of};
use crate::view::{CronJob, Job, Reference, Status};

const CREATE: &str = "create";

/// How late runs are, in seconds.
pub const SKEW: &str = "cronjob_controller_job_creation_skew_duration_seconds";

/// Decides about the CronJob of the key.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let Some(cron_job) = ctx.primary::<CronJob>()? else { return Ok(plan) };
    let meta = &cron_job.metadata;
    let jobs: Vec<Object<Job>> =
        ctx.list(Query::all().namespace(&meta.namespace).controlled_by(&meta.uid))?;

    let excess = history::excess(&cron_job, &jobs);
    let trimmed = excess.iter().map(|job| history::delete(&cron_job, &job.metadata.name, &job.metadata.uid));
    plan.then(Step::new(trimmed).or_go_on());
    let memory = Memory::of(ctx);
    let made = memory.unrecorded(ctx, &cron_job, CREATE);
    let Record { mut status, events } = record(ctx, &cron_job, &jobs, &excess, made, &memory.seen)?;
    for event in events {
        plan.event(event);
    }
    tell_failures(ctx, &cron_job, &mut plan);
    let start =
        if meta.is_deleting() { Start::default() } else { due(ctx, &cron_job, &status, &memory, &mut plan)? };
    let is_active = |job: &Job| status.active.iter().any(|active| active.uid() == job.metadata.uid);
    let mut seen: Vec<&str> =
        jobs.iter().filter(|job| is_active(job)).map(|job| job.metadata.uid.as_str()).collect();
    seen.sort_unstable();
    plan.keep_instead(ctx.state(), memory::text(start.run.or(made), &seen, &fingerprint(&cron_job.spec)));

    let replaced =
        Step::new(start.replaced.iter().map(|old| history::delete(&cron_job, old.name(), old.uid())));
    plan.then(replaced);
    status.active.retain(|active| !start.replaced.contains(active));
    let patch = Action::status(CRON_JOBS, &meta.namespace, &meta.name, &cron_job.status, &status)?;
    plan.then(patch.map(|patch| patch.as_seen(&cron_job)));
    if let Some(run) = start.run {
        let late = ctx.now().unix() - run.unix();
        plan.measure_if(Occasion::Done(CREATE.to_owned()), SKEW, &[], Measure::Number(late as f64));
    }
    plan.then(start.create);
    Ok(plan)
}

/// A run that is to be started.
#[derive(Default)]
struct Start {
    /// The run.
    run: Option<Time>,
    /// Jobs that make room for it.
    replaced: Vec<Reference>,
    /// Its creation.
    create: Option<Action>,
}

/// Looks whether a run is due, and when to look again.
fn due(
    ctx: &Ctx<'_>,
    cron_job: &CronJob,
    status: &Status,
    memory: &Memory,
    plan: &mut Plan,
) -> Result<Start> {
    let about = About::new(CRON_JOBS, &cron_job.metadata);
    let spec = &cron_job.spec;
    let changed = memory.times.as_ref().is_some_and(|before| *before != fingerprint(spec));
    let zone = match zone_of(spec) {
        Ok(zone) => zone,
        Err(why) => {
            let name = spec.time_zone.as_deref().unwrap_or_default();
            plan.event(about.warning("UnknownTimeZone", format!("invalid timeZone: {name:?}: {why}")));
            return Ok(Start::default());
        }
    };
    if spec.suspend == Some(true) {
        return Ok(Start::default());
    }
    if names_zone(spec) {
        let message = format!(
            "CRON_TZ or TZ used in schedule {:?} is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
            spec.schedule
        );
        plan.event(about.warning("UnsupportedSchedule", message));
    }
    let schedule = match schedule_of(spec) {
        Ok(schedule) => schedule,
        Err(why) => {
            let message = format!("unparseable schedule: {:?} : {why}", spec.schedule);
            plan.event(about.warning("UnparseableSchedule", message));
            return Ok(Start::default());
        }
    };
    let last = status.last_schedule_time.unwrap_or(cron_job.last_run());
    let overdue = if changed {
        Overdue { run: None, missed: Missed::None }
    } else {
        match run_due(cron_job, &schedule, last, ctx.now()) {
            Ok(overdue) => overdue,
            Err(why) => {
                let message = format!("invalid schedule: {} : {why}", spec.schedule);
                plan.event(about.warning("InvalidSchedule", message));
                return Ok(Start::default());
            }
        }
    };
    if let Some(at) = next_after_now(&schedule, last, ctx.now()) {
        plan.come_back(at);
    }
    let Some(run) = overdue.run else { return Ok(Start::default()) };
    if overdue.missed == Missed::Many {
        let message =
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        plan.event(about.warning("TooManyMissedTimes", message));
    }
    let Some(replaced) = start(ctx, cron_job, status, run, plan)? else { return Ok(Start::default()) };
    let create = job::create(cron_job, run, zone)?.tag(CREATE);
    let create = create.on_success(about.normal("SuccessfulCreate", "Created job {name}"));
    Ok(Start { run: Some(run), replaced, create: Some(create) })
}

/// The run that is due. Those before the deadline are not looked for.
fn run_due(cron_job: &CronJob, schedule: &Schedule, last: Time, now: Time) -> Result<Overdue, String> {
    let deadline = cron_job.spec.starting_deadline_seconds;
    let horizon = deadline.map(|seconds| Time::from_unix(now.unix().saturating_sub(seconds)));
    overdue(schedule, horizon.map_or(last, |horizon| horizon.max(last)), now)
}

/// Whether a run is to be started, and which Jobs it replaces.
fn start(
    ctx: &Ctx<'_>,
    cron_job: &CronJob,
    status: &Status,
    run: Time,
    plan: &mut Plan,
) -> Result<Option<Vec<Reference>>> {
    let about = About::new(CRON_JOBS, &cron_job.metadata);
    let deadline = cron_job.spec.starting_deadline_seconds;
    if deadline.is_some_and(|seconds| Time::from_unix(run.unix().saturating_add(seconds)) < ctx.now()) {
        let message = format!("Missed scheduled time to start a job: {}", rfc1123(run));
        plan.event(about.warning("MissSchedule", message));
        return Ok(None);
    }
    let namespace = &cron_job.metadata.namespace;
    let name = job::name(&cron_job.metadata.name, run);
    let is_active = |active: &Reference| active.name() == name && active.namespace() == namespace;
    if status.active.iter().any(is_active) || status.last_schedule_time == Some(run) {
        return Ok(None);
    }
    if cron_job.spec.concurrency_policy == "Forbid" && !status.active.is_empty() {
        let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
        plan.event(about.normal("JobAlreadyActive", message));
        return Ok(None);
    }
    if is_taken(ctx, namespace, &name, &cron_job.metadata.uid)? {
        return Ok(None);
    }
    let replaces = cron_job.spec.concurrency_policy == "Replace";
    Ok(Some(if replaces { status.active.clone() } else { Vec::new() }))
}

/// Whether a Job of this name is there already, be it somebody else's: then
/// they have seen to the run.
fn is_taken(ctx: &Ctx<'_>, namespace: &str, name: &str, uid: &str) -> Result<bool> {
    if ctx.get::<Job>(namespace, name)?.is_some() {
        return Ok(true);
    }
    if !ctx.failures(CREATE).any(|failure| failure.reason == "AlreadyExists") {
        return Ok(false);
    }
    match ctx.find_live::<Job>(Ask::get_metadata(JOBS, namespace, name))? {
        // The cache is about to show it, and it is recorded then.
        Some(job) if job.metadata.is_controlled_by(uid) => {
            Err(Error::retry(format!("job {name} exists and is not seen yet")))
        }
        job => Ok(job.is_some()),
    }
}

/// Says what kept a Job from being made, unless that is no news.
fn tell_failures(ctx: &Ctx<'_>, cron_job: &CronJob, plan: &mut Plan) {
    let about = About::new(CRON_JOBS, &cron_job.metadata);
    let expected =
        |failure: &Failure| failure.reason == "AlreadyExists" || failure.is_of_terminating_namespace();
    for failure in ctx.failures(CREATE).filter(|failure| !expected(failure)) {
        plan.event(about.warning("FailedCreate", format!("Error creating job: {}", failure.message)));
    }
}
