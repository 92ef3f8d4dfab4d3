//! The status that follows from the Jobs there are.

use coxswain_sdk::job::COMPLETE;
use coxswain_sdk::resource::{CRON_JOBS, JOBS};
use coxswain_sdk::{About, Ask, Ctx, Error, Event, Object, Result, Time};

use crate::job::{reference, run_of};
use crate::view::{CronJob, Job, Reference, Status};

/// The status as it should be, and what there is to say about it.
#[derive(Debug)]
pub struct Record {
    /// The status.
    pub status: Status,
    /// Events.
    pub events: Vec<Event>,
}

/// Compares the status with the Jobs. A run that was made counts even if its Job
/// is gone again. The end of a Job that is deleted right away is not worth an
/// event.
pub fn record(
    ctx: &Ctx<'_>,
    cron_job: &CronJob,
    jobs: &[Object<Job>],
    deleted: &[&Job],
    made: Option<Time>,
    seen: &[String],
) -> Result<Record> {
    let about = About::new(CRON_JOBS, &cron_job.metadata);
    let mut record = Record { status: cron_job.status.clone(), events: Vec::new() };
    record.status.last_schedule_time = record.status.last_schedule_time.max(made);
    for job in jobs {
        let is_deleted = deleted.iter().any(|deleted| deleted.metadata.uid == job.metadata.uid);
        record.take_in(cron_job, job, (!is_deleted).then_some(&about));
    }
    let active = std::mem::take(&mut record.status.active);
    let gone = gone(ctx, &active, jobs, seen)?;
    let (gone, kept) = active.into_iter().partition::<Vec<_>, _>(|active| gone.contains(active));
    for active in gone {
        let message = format!("Active job went missing: {}", active.name());
        record.events.push(about.normal("MissingJob", message));
    }
    record.status.active = kept;
    Ok(record)
}

impl Record {
    fn take_in(&mut self, cron_job: &CronJob, job: &Job, about: Option<&About>) {
        let name = &job.metadata.name;
        let is_active = self.status.active.iter().any(|active| active.uid() == job.metadata.uid);
        // Made by us, and not yet recorded.
        let last = cron_job.status.last_schedule_time;
        let run = run_of(cron_job, job).filter(|run| !is_active && last.is_none_or(|last| *run > last));
        if let Some(run) = run {
            self.status.last_schedule_time = self.status.last_schedule_time.max(Some(run));
        }
        match job.end() {
            None if is_active => {}
            None if run.is_some() => self.status.active.push(reference(job)),
            None => {
                let message = format!("Saw a job that the controller did not create or forgot: {name}");
                self.events.extend(about.map(|about| about.warning("UnexpectedJob", message)));
            }
            Some(end) => {
                if is_active || run.is_some() {
                    self.status.active.retain(|active| active.uid() != job.metadata.uid);
                    let message = format!("Saw completed job: {name}, condition: {end}");
                    self.events.extend(about.map(|about| about.normal("SawCompletedJob", message)));
                }
                if end == COMPLETE {
                    let latest = self.status.last_successful_time.max(job.status.completion_time);
                    self.status.last_successful_time = latest;
                }
            }
        }
    }
}

/// Those listed as active that are not there any more. A cache that showed one and shows it no more says so; about
/// those that it never showed only the API server can.
fn gone(
    ctx: &Ctx<'_>,
    active: &[Reference],
    jobs: &[Object<Job>],
    seen: &[String],
) -> Result<Vec<Reference>> {
    let (mut gone, mut unseen) = (Vec::new(), Vec::new());
    for active in active {
        let is_ours = jobs.iter().any(|job| job.metadata.uid == active.uid());
        if !is_ours && ctx.get::<Job>(active.namespace(), active.name())?.is_none() {
            let was_seen = seen.iter().any(|uid| uid == active.uid());
            if was_seen { &mut gone } else { &mut unseen }.push(active.clone());
        }
    }
    let asks = unseen.iter().map(|active| Ask::get_metadata(JOBS, active.namespace(), active.name()));
    let answers = ctx.look_up_all(asks)?;
    for (active, answer) in unseen.into_iter().zip(answers) {
        match answer {
            Ok(_) => {}
            Err(failure) if failure.status == 404 => gone.push(active),
            Err(failure) => {
                let (namespace, name) = (active.namespace(), active.name());
                let why = &failure.message;
                return Err(Error::retry(format!(
                    "cannot tell whether job {namespace}/{name} exists: {why}"
                )));
            }
        }
    }
    Ok(gone)
}
