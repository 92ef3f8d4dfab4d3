//! The taint eviction controller: deletes pods that do not tolerate a
//! `NoExecute` taint of their node, or not for ever.
//!
//! Each node is a key; its pods are looked at only while it has such a taint.
//! When a pod is due follows from objects: from when the taint was put on
//! (`timeAdded`) or the pod was bound, whichever came later, and for how long it
//! is tolerated. So a restart starts nothing anew, and changed tolerations count
//! at once.
//!
//! What is kept between reconciles, always as a hint: when taints that do not
//! say so were first seen, and which pods wait for their deletion. Lost, the
//! former are tolerated anew, and no event tells that the latter need not wait
//! any more.
//!
//! Rules: <https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/>.

mod deadline;
mod measures;
mod memory;
mod reconcile;
#[cfg(test)]
mod tests;
mod view;

use coxswain_sdk::resource::{NODES, PODS};
use coxswain_sdk::taints::TaintedNode;
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Result};

use crate::view::Pod;

/// The controller.
#[derive(Debug)]
pub struct TaintEvictionController;

impl Controller for TaintEvictionController {
    fn declare() -> Declaration {
        let declaration = Declaration::new("taint-eviction-controller")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("node-controller")
            .state_format(1, &[])
            .concurrency(8, "")
            .keys_objects("nodes", &[NODES])
            .queue("noexec_taint_node")
            .read::<TaintedNode>()
            .read_with::<Pod>(|read| read.index(reconcile::BY_NODE, &["spec.nodeName"]))
            .write(PODS, "status", &["patch"])
            .write(PODS, "", &["delete"]);
        measures::declare(declaration)
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        reconcile::reconcile(ctx)
    }
}

coxswain_sdk::export!(TaintEvictionController);
