//! The dependents of an object, found by the owner index over all resources.

use coxswain_sdk::{Ctx, Object, OwnerReference, Query, Result};

use crate::Node;

/// The dependents of an object. Subscribes to them.
pub fn of(ctx: &Ctx<'_>, node: &Node) -> Result<Vec<Object<Node>>> {
    ctx.list(Query::all().every_resource().owned_by(&node.metadata.uid))
}

/// The references of a dependent to its owner.
pub fn references<'a>(dependent: &'a Node, owner: &'a Node) -> impl Iterator<Item = &'a OwnerReference> {
    dependent.metadata.owner_references.iter().filter(|reference| reference.uid == owner.metadata.uid)
}

/// Whether a dependent holds up a foreground deletion of its owner.
pub fn blocks(dependent: &Node, owner: &Node) -> bool {
    references(dependent, owner).any(|reference| reference.block_owner_deletion == Some(true))
}
