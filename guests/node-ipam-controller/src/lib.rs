//! The node IPAM controller: gives each node its share of the cluster's range
//! of pod addresses.
//!
//! All nodes together are one key, so that no share is given twice; which are
//! taken follows from the nodes. A node that is gone takes nothing, so its share
//! is free again.
//!
//! What is kept between reconciles, always as a hint: which share was given last
//! (the next node gets the one after it, so that addresses are not used again at
//! once), how often a node could not be written, which nodes were told that there is
//! nothing left, and which shares were taken, to count those that change. Lost,
//! shares are given from the first free one on.

mod cidr;
mod measures;
mod memory;
mod range;
mod reconcile;
mod settings;
#[cfg(test)]
mod tests;

use coxswain_sdk::resource::NODES;
use coxswain_sdk::{Controller, Ctx, Declaration, FromJson, ObjectMeta, Plan, Resource, Result, View};

/// What is read of a node.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Node {
    metadata: ObjectMeta,
    spec: NodeSpec,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
struct NodeSpec {
    #[serde(rename = "podCIDRs")]
    pod_cidrs: Vec<String>,
}

impl View for Node {
    const RESOURCE: Resource = NODES;
}

/// The controller.
#[derive(Debug)]
pub struct NodeIpamController;

impl Controller for NodeIpamController {
    fn declare() -> Declaration {
        let declared = measures::declare(Declaration::new("node-ipam-controller"))
            .alias("nodeipam")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("node-controller")
            .event_component("cidrAllocator")
            .state_format(1, &[])
            .keys_single("cluster")
            .queue("cidrallocator_node")
            .read::<Node>()
            .write(NODES, "", &["patch"]);
        settings::declare(declared)
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        reconcile::reconcile(ctx)
    }
}

coxswain_sdk::export!(NodeIpamController);
