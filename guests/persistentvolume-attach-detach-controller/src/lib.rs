//! The persistentvolume attach detach controller: has volumes attached to the
//! nodes whose pods use them, and detached again.
//!
//! CSI drivers do the work: they are told by VolumeAttachments. Fibre Channel
//! and iSCSI volumes are the node's own affair, but the kubelet waits until the
//! node lists them. A node is one key, since it has one list; nodes come one at
//! a time, so that a volume that only one may have is never given to two.
//!
//! Volumes of what was built in once belong to the drivers that took over, also
//! where a pod names such a source itself, without a claim: the attachment holds
//! the spec of the volume then. What is kept of a node: see `memory`.

mod attachable;
mod elsewhere;
mod measures;
mod memory;
mod migration;
mod node;
mod options;
mod view;
mod wants;

#[cfg(test)]
mod tests;

use coxswain_sdk::contract::KeyKind;
use coxswain_sdk::resource::{NODES, VOLUME_ATTACHMENTS};
use coxswain_sdk::volumes::with_claim_ref_index;
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Result};

use options::Options;
use view::{Attachment, Claim, Driver, Node, Pod, Volume};

const NODE_SOURCE: &str = "nodes";

/// The controller.
#[derive(Debug)]
pub struct PersistentVolumeAttachDetachController;

impl Controller for PersistentVolumeAttachDetachController {
    fn declare() -> Declaration {
        let declaration = measures::declare(Declaration::new("persistentvolume-attach-detach-controller"))
            .alias("attachdetach")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("attachdetach-controller")
            .state_format(1, &[])
            .event_component("attachdetach-controller")
            .keys(NODE_SOURCE, KeyKind::Objects(vec![NODES.to_wire()]), true)
            .queue("pvcs")
            // Nodes that were gone before we came have left attachments behind.
            .keys_index_values("nodes of attachments", VOLUME_ATTACHMENTS, node::BY_NODE)
            .queue("pvcs")
            .read_with::<Node>(|read| read.index(elsewhere::BY_LISTED, &["status.volumesAttached[*].name"]))
            .read_with::<Pod>(|read| read.index(wants::BY_NODE, &["spec.nodeName"]))
            .read::<Claim>()
            .read_with::<Volume>(with_claim_ref_index)
            .read::<Driver>()
            .read_with::<Attachment>(|read| {
                read.index(node::BY_NODE, &["spec.nodeName"])
                    .index(elsewhere::BY_VOLUME, &["spec.source.persistentVolumeName"])
                    .index(elsewhere::BY_HANDLE, &["spec.source.inlineVolumeSpec.csi.volumeHandle"])
            });
        options::declare(declaration)
            .write(NODES, "status", &["patch"])
            .write(VOLUME_ATTACHMENTS, "", &["create", "delete"])
            .lookup_get(NODES, "")
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        let options = Options::of(ctx)?;
        let name = &ctx.key().name;
        if ctx.source() == NODE_SOURCE {
            let node = ctx.primary::<Node>()?;
            return node::reconcile(ctx, options, name, node.as_deref());
        }
        match ctx.get::<Node>("", name)? {
            Some(_) => Ok(Plan::new()),
            None => node::reconcile(ctx, options, name, None),
        }
    }
}

coxswain_sdk::export!(PersistentVolumeAttachDetachController);
