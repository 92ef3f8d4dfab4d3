//! Finished Jobs beyond the history limits.

use coxswain_sdk::contract::Propagation;
use coxswain_sdk::job::{COMPLETE, FAILED};
use coxswain_sdk::resource::{CRON_JOBS, JOBS};
use coxswain_sdk::sort::sort_by;
use coxswain_sdk::{About, Action, Object};

use crate::view::{CronJob, Job};

/// The finished Jobs that are too many, those that began first first.
pub fn excess<'a>(cron_job: &CronJob, jobs: &'a [Object<Job>]) -> Vec<&'a Job> {
    let limits = [
        (COMPLETE, cron_job.spec.successful_jobs_history_limit),
        (FAILED, cron_job.spec.failed_jobs_history_limit),
    ];
    limits
        .into_iter()
        .filter_map(|(end, limit)| Some((end, usize::try_from(limit?).unwrap_or(0))))
        .flat_map(|(end, limit)| oldest(jobs, end, limit))
        .collect()
}

fn oldest<'a>(jobs: &'a [Object<Job>], end: &str, limit: usize) -> Vec<&'a Job> {
    let mut ended: Vec<&Job> = jobs.iter().map(|job| &**job).filter(|job| job.end() == Some(end)).collect();
    sort_by(&mut ended, |a, b| {
        let age = |job: &Job| (job.status.start_time.is_none(), job.status.start_time);
        age(a).cmp(&age(b)).then_with(|| a.metadata.name.cmp(&b.metadata.name))
    });
    ended.truncate(ended.len().saturating_sub(limit));
    // What is going already is asked once.
    ended.retain(|job| !job.metadata.is_deleting());
    ended
}

/// Deletes a Job and, in the background, its pods.
pub fn delete(cron_job: &CronJob, name: &str, uid: &str) -> Action {
    let about = About::new(CRON_JOBS, &cron_job.metadata);
    Action::delete(JOBS, &cron_job.metadata.namespace, name)
        .propagation(Propagation::Background)
        .uid(uid)
        .tag("delete")
        .on_success(about.normal("SuccessfulDelete", "Deleted job {name}"))
        .on_failure(about.warning("FailedDelete", "Deleted job: {message}"))
}
