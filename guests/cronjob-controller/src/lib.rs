//! The cron job controller: makes Jobs by the clock.
//!
//! In: a CronJob and the Jobs it controls. Out: a Job when a run is due, its
//! record in the CronJob's status, and deletions beyond the history limits.
//!
//! A run is made first and recorded (`status.active`, `status.lastScheduleTime`)
//! once its Job shows. The Job's name ends in the minute it was scheduled for and
//! its annotation has the exact time, so that a run which was made and not
//! recorded (the manager died, or the answer was lost) is found, recorded and
//! not made again. How clocks that are changed are treated is said in
//! [`schedule`].
//!
//! State, each part of it a hint:
//!
//! * The schedule as of the last reconcile. A schedule that has changed since is
//!   not applied to times past: its first run is the next one. Lost, a run that
//!   the new schedule would have had since the last one is made up for at once, as
//!   after any restart.
//! * The run made last, until it is recorded. Lost, a Job that somebody deletes
//!   between its creation and its record is made again.
//! * Which of the Jobs listed as active were seen. One of them that is seen no
//!   more is gone. Lost, the API server is asked whether it is, and a CronJob
//!   that is going may be gone before the answer: then no event tells of the Job.
//!
//! Rules: <https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/>.

mod history;
mod job;
mod memory;
mod reconcile;
mod record;
pub mod schedule;
#[cfg(test)]
mod tests;
mod timing;
mod view;
pub mod zone;

use coxswain_sdk::civil;
use coxswain_sdk::resource::{CRON_JOBS, JOBS};
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Result, buckets};

pub use view::{CronJob, Job};

/// The controller.
#[derive(Debug)]
pub struct CronJobController;

impl Controller for CronJobController {
    fn declare() -> Declaration {
        // 1 s doubling to 512 s.
        let buckets = buckets::exponential(1.0, 2.0, 10);
        Declaration::new("cronjob-controller")
            .alias("cronjob")
            .version(env!("CARGO_PKG_VERSION"))
            .state_format(2, &[])
            .concurrency(5, "concurrent-cron-job-syncs")
            .keys_objects("cronjobs", &[CRON_JOBS])
            .queue("cronjob")
            .histogram(
                reconcile::SKEW,
                &[],
                &buckets,
                "[STABLE] Time between when a cronjob is scheduled to be run, and when the corresponding job is created",
            )
            .read::<CronJob>()
            .read::<Job>()
            .write(JOBS, "", &["create", "delete"])
            .write(CRON_JOBS, "status", &["patch"])
            // What is made has an owner reference that blocks the owner's deletion.
            .write(CRON_JOBS, "finalizers", &["update"])
            .lookup_get(JOBS, "")
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        reconcile::reconcile(ctx)
    }
}

coxswain_sdk::export!(CronJobController);
