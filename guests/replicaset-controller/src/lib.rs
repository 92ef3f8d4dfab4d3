//! The replicaset controller: keeps as many pods as a ReplicaSet says.
//!
//! What it does is [`coxswain_sdk::replicas`]; here is what makes it about
//! ReplicaSets.

mod view;

use coxswain_sdk::pod::Pod;
use coxswain_sdk::resource::{PODS, REPLICA_SETS};
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Result, replicas};

pub use view::ReplicaSet;

/// The controller.
#[derive(Debug)]
pub struct ReplicaSetController;

impl Controller for ReplicaSetController {
    fn declare() -> Declaration {
        replicas::measures(Declaration::new("replicaset-controller"))
            .alias("replicaset")
            .version(env!("CARGO_PKG_VERSION"))
            .state_format(1, &[])
            .concurrency(5, "concurrent-replicaset-syncs")
            .keys_objects("replicasets", &[REPLICA_SETS])
            .queue("replicaset")
            .read::<ReplicaSet>()
            .read::<Pod>()
            .write(PODS, "", &["create", "delete", "patch"])
            .write(REPLICA_SETS, "status", &["patch"])
            // What is made has an owner reference that blocks the owner's deletion.
            .write(REPLICA_SETS, "finalizers", &["update"])
            .lookup_get(REPLICA_SETS, "")
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        replicas::reconcile::<ReplicaSet>(ctx)
    }
}

coxswain_sdk::export!(ReplicaSetController);
