//! Writes to a Job's pods and status.
//!
//! The order is what makes counting safe: pods that have ended are listed in the
//! status, then lose their finalizer, then are counted. A step that fails ends
//! the plan; the next sync sees how far it came.

use coxswain_sdk::resource::JOBS;
use coxswain_sdk::{About, Action, Object, Result, Step, pod};

use crate::make::creations;
use crate::manage::Work;
use crate::measures::{CREATE, HANDLED};
use crate::orphans::untrack;
use crate::status::Outlook;
use crate::tally::Tally;
use crate::track::Release;
use crate::view::{Job, JobStatus};

/// The writes that make and delete pods. A pod that is deleted before it has
/// ended is not to be counted, so it loses its finalizer first; unless the Job
/// has ended, which counts it.
pub fn of_pods(job: &Job, tally: &Tally<'_>, about: &About, work: &Work<'_>) -> Result<[Step; 3]> {
    let created = |create: Action| {
        create.tag(CREATE).on_success(about.normal("SuccessfulCreate", "Created pod: {name}"))
    };
    let create = creations(job, tally, &work.create)?.into_iter().map(created);
    let uncounted = work.delete.iter().filter(|pod| !work.counts && pod.is_tracked());
    let delete = work.delete.iter().map(|pod| pod::delete(&pod.metadata, about));
    // Where one creation fails, the others likely would too.
    Ok([Step::new(create).slow_start(), Step::new(uncounted.map(|pod| untrack(pod))), Step::new(delete)])
}

/// The writes that count pods and tell how the Job stands. Where no pod loses
/// its finalizer one write of the status will do.
pub fn of_status(job: &Object<Job>, outlook: Outlook<'_>) -> Result<[Step; 3]> {
    let meta = &job.metadata;
    let write = |seen: &JobStatus, wanted: &JobStatus| -> Result<Option<Action>> {
        let write = Action::status(JOBS, &meta.namespace, &meta.name, seen, wanted)?;
        Ok(write.map(|write| write.as_seen(job)))
    };
    let (mut first, mut last) = if outlook.release.is_empty() {
        (None, write(&job.status, &outlook.after)?)
    } else {
        (write(&job.status, &outlook.before)?, write(&outlook.before, &outlook.after)?)
    };
    // An event goes with the write that makes it true.
    if let Some(event) = outlook.event {
        let with = if outlook.ended || first.is_none() { &mut last } else { &mut first };
        *with = with.take().map(|write| write.on_success(event));
    }
    let release = outlook.release.iter().map(|release| untrack(release.pod).tag(&tag(release)));
    Ok([first.into(), Step::new(release), last.into()])
}

/// Tag of the write that takes the finalizer off. Those of pods that a rule of
/// the policy judged are told apart.
pub fn tag(release: &Release<'_>) -> String {
    release.action.map_or_else(|| "count".to_owned(), |action| format!("{HANDLED}{action}"))
}
