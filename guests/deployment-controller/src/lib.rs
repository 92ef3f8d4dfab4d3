//! The deployment controller: keeps ReplicaSets as a Deployment says, and rolls
//! from one pod template to the next.
//!
//! | module | decides |
//! |---|---|
//! | `reconcile` | what is done, in which order |
//! | `sets` | which ReplicaSet is current, which are old |
//! | `create` | name of a new one, collisions, failed attempts |
//! | `rolling`, `recreate` | the next step of a rollout |
//! | `scale` | how a change of size is shared out |
//! | `status` | counts, conditions, progress |
//! | `history` | which old ones go |
//! | `template`, `annotations`, `bounds` | what the others go by |
//! | `writes` | what is sent |

mod annotations;
mod bounds;
mod create;
mod history;
mod reconcile;
mod recreate;
mod rolling;
mod scale;
mod sets;
mod status;
mod template;
mod view;
mod writes;

use coxswain_sdk::resource::{DEPLOYMENTS, REPLICA_SETS};
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Result};
use view::{Deployment, Pod, ReplicaSet};

/// The controller.
#[derive(Debug)]
pub struct DeploymentController;

impl Controller for DeploymentController {
    fn declare() -> Declaration {
        Declaration::new("deployment-controller")
            .alias("deployment")
            .version(env!("CARGO_PKG_VERSION"))
            .state_format(1, &[])
            .concurrency(5, "concurrent-deployment-syncs")
            .keys_objects("deployments", &[DEPLOYMENTS])
            .queue("deployment")
            .read::<Deployment>()
            .read::<ReplicaSet>()
            .read::<Pod>()
            .write(DEPLOYMENTS, "", &["patch"])
            .write(DEPLOYMENTS, "status", &["patch"])
            .write(REPLICA_SETS, "", &["create", "delete", "patch"])
            // What is made has an owner reference that blocks the owner's deletion.
            .write(DEPLOYMENTS, "finalizers", &["update"])
            .lookup_get(DEPLOYMENTS, "")
            .lookup_get(REPLICA_SETS, "")
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        reconcile::reconcile(ctx)
    }
}

coxswain_sdk::export!(DeploymentController);
