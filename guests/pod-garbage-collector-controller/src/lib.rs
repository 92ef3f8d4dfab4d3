//! The pod garbage collector: removes pods that nothing else will.
//!
//! Pods are looked at from three sides, so that a change costs what it touches:
//!
//! * `terminated`: one key. Ended pods beyond `--terminated-pod-gc-threshold`
//!   are removed, evicted ones and the oldest first.
//! * `deleting`: each pod that was asked to go. One that was never bound to a
//!   node, or whose node is not ready and tainted as out of service, has no
//!   kubelet to end it.
//! * `nodes`: each node name that pods carry. Pods of a node that is not there
//!   are removed once it was missing for [`nodes::QUARANTINE`] and the API server
//!   itself says that it is gone.
//!
//! A pod that has not ended is marked Failed first, and deleted (without grace)
//! once that shows; so its owner always sees how it ended.
//!
//! State: `nodes` keeps since when the node has been missing, which no object
//! says. Lost, the quarantine starts again. Nothing else is kept: how long a pod
//! has been deleting is written in the pod.
//!
//! Rules: <https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-garbage-collection>.

mod deleting;
mod nodes;
mod removal;
mod terminated;
#[cfg(test)]
mod tests;
mod view;

use coxswain_sdk::contract::OptionKind;
use coxswain_sdk::resource::{NODES, PODS};
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Result};

pub use view::{Node, Pod};

const TERMINATED: &str = "terminated";
const DELETING: &str = "deleting";
const BY_NODE: &str = "node";
const BY_PHASE: &str = "phase";
const THRESHOLD: &str = "terminated-pod-gc-threshold";

/// The controller.
#[derive(Debug)]
pub struct PodGarbageCollector;

impl Controller for PodGarbageCollector {
    fn declare() -> Declaration {
        let help = "how many ended pods may exist before the oldest are deleted; 0 or less: any number";
        let declaration = Declaration::new("pod-garbage-collector-controller")
            .alias("podgc")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("pod-garbage-collector")
            .state_format(1, &[])
            .keys_single(TERMINATED)
            .keys_indexed(DELETING, &[PODS], &["deleting"])
            .keys_index_values("nodes", PODS, BY_NODE)
            .queue("orphaned_pods_nodes")
            .read_with::<Pod>(|read| {
                read.index(BY_NODE, &["spec.nodeName"]).index(BY_PHASE, &["status.phase"])
            })
            .read::<Node>()
            .write(PODS, "", &["delete"])
            .write(PODS, "status", &["patch"])
            .lookup_get(NODES, "")
            .option(THRESHOLD, OptionKind::Integer, "12500", help);
        removal::declare(declaration)
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        match ctx.source() {
            TERMINATED => terminated::reconcile(ctx),
            DELETING => deleting::reconcile(ctx),
            _ => nodes::reconcile(ctx),
        }
    }
}

coxswain_sdk::export!(PodGarbageCollector);
