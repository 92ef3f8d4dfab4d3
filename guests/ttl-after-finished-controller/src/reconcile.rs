//! When a Job is to go.

use std::time::Duration;

use coxswain_sdk::contract::{Level, Measure, Occasion, Propagation};
use coxswain_sdk::resource::JOBS;
use coxswain_sdk::{Action, Ctx, Error, Plan, Result, Time, job};

use crate::view::Job;

/// Tag of the deletion.
const DELETE: &str = "delete";

/// How late Jobs are deleted, under kube-controller-manager's name.
pub const DELETION: &str = "ttl_after_finished_controller_job_deletion_duration_seconds";

/// Deletes the Job of the key, or comes back when that is due.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let Some(job) = ctx.primary::<Job>()? else { return Ok(plan) };
    let (namespace, name) = (&job.metadata.namespace, &job.metadata.name);
    match fate(&job) {
        Fate::Stays => {}
        Fate::Undated => {
            return Err(Error::terminal(format!(
                "unable to find the time when the Job {namespace}/{name} finished"
            )));
        }
        Fate::Expires { finished, at } if at > ctx.now() => {
            if finished > ctx.now() {
                let text = "the Job finished in the future; clocks differ, and its deletion is put off";
                ctx.log(Level::Warn, text);
            }
            plan.come_back(at);
        }
        Fate::Expires { at, .. } => {
            let late = ctx.now().since(at).as_secs_f64();
            plan.measure_if(Occasion::Done(DELETE.to_owned()), DELETION, &[], Measure::Number(late));
            let delete = Action::delete(JOBS, namespace, name).propagation(Propagation::Foreground);
            plan.then(delete.as_seen(&job).tag(DELETE));
        }
    }
    Ok(plan)
}

/// What is to become of a Job.
#[derive(Debug, PartialEq)]
pub enum Fate {
    /// It has not finished, has no TTL, or is going already.
    Stays,
    /// It has finished, and nobody knows when.
    Undated,
    /// It goes at some time.
    Expires {
        /// When it finished.
        finished: Time,
        /// When it goes.
        at: Time,
    },
}

/// What is to become of a Job.
pub fn fate(job: &Job) -> Fate {
    let Some(ttl) = job.spec.ttl_seconds_after_finished else { return Fate::Stays };
    if job.metadata.is_deleting() {
        return Fate::Stays;
    }
    let Some(end) = job::end(&job.status.conditions) else { return Fate::Stays };
    let Some(finished) = end.last_transition_time else { return Fate::Undated };
    // The API server refuses negative ones; one that slipped through is over.
    let ttl = Duration::from_secs(u64::try_from(ttl).unwrap_or(0));
    Fate::Expires { finished, at: finished + ttl }
}
