//! The daemonset controller: keeps a pod of each DaemonSet on each node that
//! fits.
//!
//! Each DaemonSet is a key. Of nodes it sees labels and taints, so that a
//! heartbeat wakes nobody, and a new node wakes each DaemonSet once.
//!
//! What is kept between reconciles, always as a hint: on which nodes pods
//! failed, how long to wait before the next attempt, and that the namespace is
//! going. Nothing else tells how often pods failed, since failed ones are
//! deleted. Lost, the waits begin anew at a second.
//!
//! Rules: <https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/>.

mod backoff;
mod counts;
mod history;
mod manage;
mod placement;
mod pods;
mod reconcile;
mod rolling;
mod status;
mod template;
#[cfg(test)]
mod tests;
mod view;
mod writes;

use coxswain_sdk::resource::{CONTROLLER_REVISIONS, DAEMON_SETS, PODS};
use coxswain_sdk::revisions::Revision;
use coxswain_sdk::taints::TaintedNode;
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Result};

use crate::view::{DaemonSet, Pod};

/// The controller.
#[derive(Debug)]
pub struct DaemonSetController;

impl Controller for DaemonSetController {
    fn declare() -> Declaration {
        Declaration::new("daemonset-controller")
            .alias("daemonset")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("daemon-set-controller")
            .state_format(1, &[])
            .concurrency(2, "concurrent-daemonset-syncs")
            .keys_objects("daemonsets", &[DAEMON_SETS])
            .queue("daemonset")
            .read::<DaemonSet>()
            .read::<TaintedNode>()
            .read::<Pod>()
            .read::<Revision>()
            .write(DAEMON_SETS, "status", &["patch"])
            .write(PODS, "", &["create", "delete", "patch"])
            .write(CONTROLLER_REVISIONS, "", &["create", "delete", "patch"])
            // What is made has an owner reference that blocks the owner's deletion.
            .write(DAEMON_SETS, "finalizers", &["update"])
            .lookup_get(DAEMON_SETS, "")
            .lookup_get(CONTROLLER_REVISIONS, "")
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        reconcile::reconcile(ctx)
    }
}

coxswain_sdk::export!(DaemonSetController);
