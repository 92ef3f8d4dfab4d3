//! Where else a volume is that only one node may have.

use std::collections::BTreeSet;

use coxswain_sdk::{Ctx, Query, Result};

use crate::view::{Attachment, Node, Pod, PodVolume};
use crate::wants::{BY_NODE, Wanted};

/// Index of attachments by volume.
pub const BY_VOLUME: &str = "volume";
/// Index of attachments by what their driver calls a volume that a pod names
/// without a claim.
pub const BY_HANDLE: &str = "handle";
/// Index of nodes by what they list.
pub const BY_LISTED: &str = "listed";

/// Where a volume is, besides this node.
#[derive(Debug, PartialEq)]
pub enum Elsewhere {
    /// Nowhere.
    Nowhere,
    /// On its way to another node, or from there.
    OnTheWay,
    /// At these nodes.
    At(BTreeSet<String>),
}

/// Looks for a volume at other nodes.
pub fn elsewhere(ctx: &Ctx<'_>, here: &str, wanted: &Wanted) -> Result<Elsewhere> {
    let mut at = BTreeSet::new();
    let mut leaving = BTreeSet::new();
    let mut coming = false;
    let query = match (&wanted.volume.driver, &wanted.object) {
        (Some(_), Some(object)) => Some(Query::all().index(BY_VOLUME, &[&object.metadata.name])),
        (Some((_, handle)), None) => Some(Query::all().index(BY_HANDLE, &[handle])),
        (None, _) => None,
    };
    if let (Some((driver, _)), Some(query)) = (&wanted.volume.driver, query) {
        for attachment in ctx.list::<Attachment>(query)? {
            let spec = &attachment.spec;
            if spec.node_name == here || spec.attacher != *driver {
                continue;
            }
            if attachment.metadata.is_deleting() {
                leaving.insert(spec.node_name.clone());
            } else if attachment.status.attached {
                at.insert(spec.node_name.clone());
            } else {
                coming = true;
            }
        }
    }
    for node in ctx.list::<Node>(Query::all().index(BY_LISTED, &[&wanted.volume.name]))? {
        let name = &node.metadata.name;
        if name != here && !leaving.contains(name) {
            at.insert(name.clone());
        }
    }
    Ok(if !at.is_empty() {
        Elsewhere::At(at)
    } else if coming || !leaving.is_empty() {
        Elsewhere::OnTheWay
    } else {
        Elsewhere::Nowhere
    })
}

/// Says who has the volume. Users of other namespaces are only counted.
pub fn in_words(ctx: &Ctx<'_>, wanted: &Wanted, nodes: &BTreeSet<String>) -> Result<String> {
    let namespace = wanted.pods.first().map(|pod| pod.metadata.namespace.as_str()).unwrap_or_default();
    let mut here: Vec<String> = Vec::new();
    let mut others = 0;
    for node in nodes {
        for pod in ctx.list::<Pod>(Query::all().index(BY_NODE, &[node]))? {
            if pod.has_ended() || !uses(&pod, wanted) {
                continue;
            }
            if pod.metadata.namespace == namespace {
                here.push(pod.metadata.name.clone());
            } else {
                others += 1;
            }
        }
    }
    let and =
        if others > 0 { format!(" and {others} pod(s) in different namespaces") } else { String::new() };
    Ok(match (here.is_empty(), others) {
        (true, 0) => {
            "Volume is already exclusively attached to one node and can't be attached to another".to_owned()
        }
        (true, others) => format!("Volume is already used by {others} pod(s) in different namespaces"),
        (false, _) => format!("Volume is already used by pod(s) {}{and}", here.join(", ")),
    })
}

/// Whether a pod uses the volume through the claim that it is bound to.
fn uses(pod: &Pod, wanted: &Wanted) -> bool {
    let Some(claim) = wanted.object.as_ref().and_then(|object| object.spec.claim_ref.as_ref()) else {
        return false;
    };
    let meta = &pod.metadata;
    let names = |volume: &PodVolume| volume.claim_name(&meta.name).as_ref() == Some(&claim.name);
    claim.namespace == meta.namespace && pod.spec.volumes.iter().any(names)
}
