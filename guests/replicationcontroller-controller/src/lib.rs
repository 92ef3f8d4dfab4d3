//! The replicationcontroller controller: keeps as many pods as a
//! ReplicationController says.
//!
//! What it does is [`coxswain_sdk::replicas`], as for ReplicaSets; here is what
//! makes it about ReplicationControllers.

#[cfg(test)]
mod tests;
mod view;

use coxswain_sdk::pod::Pod;
use coxswain_sdk::resource::{PODS, REPLICATION_CONTROLLERS};
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Result, replicas};

pub use view::ReplicationController;

/// The controller.
#[derive(Debug)]
pub struct ReplicationControllerController;

impl Controller for ReplicationControllerController {
    fn declare() -> Declaration {
        replicas::measures(Declaration::new("replicationcontroller-controller"))
            .alias("replicationcontroller")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("replication-controller")
            .event_component("replication-controller")
            .state_format(1, &[])
            .concurrency(5, "concurrent-rc-syncs")
            .keys_objects("replicationcontrollers", &[REPLICATION_CONTROLLERS])
            .queue("replicationmanager")
            .read::<ReplicationController>()
            .read::<Pod>()
            .write(PODS, "", &["create", "delete", "patch"])
            .write(REPLICATION_CONTROLLERS, "status", &["patch"])
            // What is made has an owner reference that blocks the owner's deletion.
            .write(REPLICATION_CONTROLLERS, "finalizers", &["update"])
            .lookup_get(REPLICATION_CONTROLLERS, "")
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        replicas::reconcile::<ReplicationController>(ctx)
    }
}

coxswain_sdk::export!(ReplicationControllerController);
