//! The job controller: runs pods until enough of them have succeeded.
//!
//! | file | what |
//! |---|---|
//! | `reconcile` | whose turn it is: a Job, or pods that lost theirs |
//! | `sync` | one sync of a Job, as a plan; `status`: what is written of it; `writes`: in what order |
//! | `tally` | pods sorted out; `indexes`: sets of completion indexes |
//! | `verdict` | whether the Job has succeeded or failed; `failure_policy`, `success_policy` |
//! | `manage` | what to make and delete; `backoff`, `per_index`: when |
//! | `track` | counting each pod once |
//! | `make` | the pods made |
//! | `orphans` | pods that no Job counts any more |
//! | `setbacks` | how the last plan went, and when to try again |
//! | `measures` | what is measured |
//! | `memory` | what is kept between two reconciles, and why |

mod backoff;
mod failure_policy;
mod indexes;
mod make;
mod manage;
mod measures;
mod memory;
mod orphans;
mod per_index;
mod reconcile;
mod setbacks;
mod status;
mod success_policy;
mod sync;
mod tally;
mod track;
mod verdict;
mod view;
mod writes;

#[cfg(test)]
mod tests;

use coxswain_sdk::resource::{JOBS, PODS};
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Result};

use reconcile::{OF_JOBS, OF_OWNERS, OF_PODS};
use view::{Job, Pod};

/// The controller.
#[derive(Debug)]
pub struct JobController;

impl Controller for JobController {
    fn declare() -> Declaration {
        let owned = ["metadata.ownerReferences[*].uid", "metadata.finalizers[*]"];
        measures::declare(Declaration::new("job-controller"))
            .alias("job")
            .version(env!("CARGO_PKG_VERSION"))
            .state_format(1, &[])
            .concurrency(5, "concurrent-job-syncs")
            .keys_objects(OF_JOBS, &[JOBS])
            .queue("job")
            .keys_index_values(OF_OWNERS, PODS, orphans::OWNED)
            .queue("job")
            .keys_indexed(OF_PODS, &[PODS], &["orphan"])
            .queue("job_orphan_pod")
            .read::<Job>()
            .read_with::<Pod>(|read| read.index(orphans::OWNED, &owned))
            .write(PODS, "", &["create", "delete", "patch"])
            .write(JOBS, "status", &["patch"])
            // Asked of whoever makes pods that block the deletion of their Job.
            .write(JOBS, "finalizers", &["update"])
            .lookup_get(JOBS, "")
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        reconcile::reconcile(ctx)
    }
}

coxswain_sdk::export!(JobController);
