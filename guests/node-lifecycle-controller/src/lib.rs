//! The node lifecycle controller: says which nodes are not heard of any more,
//! and taints nodes by what their conditions say.
//!
//! There are two kinds of keys. Each *node* is one: its taints, its labels, and
//! the readiness of its pods follow from what the API server says about it, so
//! nothing is remembered. The one key *monitor* watches over the health of all
//! nodes together. It looks once a period, as kube-controller-manager does:
//! thousands of leases are renewed in between and wake nobody.
//!
//! What is kept between reconciles, always as a hint:
//!
//! - of the monitor, when each node last gave a sign of life *by our own clock*
//!   (the clocks of nodes are not to be trusted, so this is in no object), and
//!   how many nodes of each zone were tainted lately. Lost, every node gets
//!   another grace period and is registered anew;
//! - of a node that is not heard of, which of its pods were seen not ready since.
//!   A pod that turns ready later has a kubelet that lives, and is let be. Lost,
//!   such a pod is marked once more;
//! - of a node, that its kubelet said it is not ready. Lost, its pods are marked
//!   should it fall silent.
//!
//! Rules: <https://kubernetes.io/docs/concepts/architecture/nodes/>.

mod health;
mod labels;
mod measures;
mod memory;
mod monitor;
mod node;
mod pods;
mod settings;
mod taints;
#[cfg(test)]
mod tests;
mod view;
mod zones;

use coxswain_sdk::resource::{NODES, PODS};
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Result};

use crate::view::{Lease, Node, Pod};

const MONITOR: &str = "monitor";

/// The controller.
#[derive(Debug)]
pub struct NodeLifecycleController;

impl Controller for NodeLifecycleController {
    fn declare() -> Declaration {
        let declared = Declaration::new("node-lifecycle-controller")
            .alias("nodelifecycle")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("node-controller")
            .event_component("node-controller")
            .state_format(1, &[])
            .concurrency(8, "")
            .keys_objects("nodes", &[NODES])
            .queue("node_lifecycle_controller")
            .keys_single(MONITOR)
            .queue("node_lifecycle_controller")
            .read::<Node>()
            .read::<Lease>()
            .read_with::<Pod>(|read| read.index(pods::BY_NODE, &["spec.nodeName"]))
            .write(NODES, "", &["patch"])
            .write(NODES, "status", &["patch"])
            .write(PODS, "status", &["patch"]);
        settings::declare(measures::declare(declared))
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        if ctx.source() == MONITOR { monitor::reconcile(ctx) } else { node::reconcile(ctx) }
    }
}

coxswain_sdk::export!(NodeLifecycleController);
