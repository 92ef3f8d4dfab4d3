//! The TTL-after-finished controller: deletes Jobs some time after they have
//! finished, if they say so.
//!
//! Only Jobs with `spec.ttlSecondsAfterFinished` are keys. A Job that has
//! finished is deleted in the foreground, so that its pods go first, once that
//! many seconds have passed since the Complete or Failed condition came true.
//! The deletion carries the version the decision was made on: a Job whose TTL
//! was raised in the meantime stays. Nothing is kept between reconciles.
//!
//! Rules: <https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/>.

mod reconcile;
#[cfg(test)]
mod tests;
mod view;

use coxswain_sdk::resource::JOBS;
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Result, buckets};

pub use view::Job;

/// Jobs that have a TTL.
const WITH_TTL: &str = "ttl";

/// The controller.
#[derive(Debug)]
pub struct TtlAfterFinished;

impl Controller for TtlAfterFinished {
    fn declare() -> Declaration {
        // 100 ms doubling to 27 minutes.
        let buckets = buckets::exponential(0.1, 2.0, 14);
        Declaration::new("ttl-after-finished-controller")
            .alias("ttl-after-finished")
            .version(env!("CARGO_PKG_VERSION"))
            .concurrency(5, "concurrent-ttl-after-finished-syncs")
            .keys_indexed("jobs", &[JOBS], &[WITH_TTL])
            .queue("ttl_jobs_to_delete")
            .histogram(
                reconcile::DELETION,
                &[],
                &buckets,
                "[ALPHA] The time it took to delete the job since it became eligible for deletion",
            )
            .read_with::<Job>(|read| read.index(WITH_TTL, &["spec.ttlSecondsAfterFinished"]))
            .write(JOBS, "", &["delete"])
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        reconcile::reconcile(ctx)
    }
}

coxswain_sdk::export!(TtlAfterFinished);
