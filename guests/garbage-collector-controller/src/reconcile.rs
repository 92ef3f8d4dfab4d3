//! What is to be done about one object.

use std::time::Duration;

use coxswain_sdk::contract::Propagation;
use coxswain_sdk::{About, Action, Ask, Ctx, Error, Object, OwnerReference, Plan, Result, Step};
use serde_json::json;

use crate::dependents;
use crate::kinds::Kinds;
use crate::owners::{self, Fate, Owners};
use crate::{FOREGROUND, Node, ORPHAN};

/// How long an owner that no cache shows is taken to exist.
const UNWATCHED: Duration = Duration::from_secs(60);
const DELETE: &str = "delete";

/// Decides about the object of the key.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    if !ctx.option_as::<bool>("enable-garbage-collector")? {
        return Ok(Plan::new());
    }
    let Some(node) = ctx.primary::<Node>()? else { return Ok(Plan::new()) };
    if !node.metadata.is_deleting() {
        return collect(ctx, &node);
    }
    if node.has_finalizer(ORPHAN) {
        return orphan(ctx, &node);
    }
    if node.has_finalizer(FOREGROUND) {
        return finish_foreground(ctx, &node);
    }
    // Deletion is a one-way road; the dependents are looked at once it has ended.
    Ok(Plan::new())
}

/// Lets the dependents of a deleted object go their own way.
fn orphan(ctx: &Ctx<'_>, node: &Object<Node>) -> Result<Plan> {
    let dependents = complete(ctx, node)?;
    let released: Vec<Action> = dependents
        .iter()
        .filter(|dependent| dependents::references(dependent, node).next().is_some())
        .map(|dependent| {
            let kept = dependent.metadata.owner_references.iter().filter(|r| r.uid != node.metadata.uid);
            set_owners(dependent, kept).tag("orphan a dependent")
        })
        .collect();
    let mut plan = Plan::new();
    plan.then(Step::new(released));
    plan.then(remove_finalizer(node, ORPHAN));
    Ok(plan)
}

/// Ends a foreground deletion once nothing that blocks it is left.
fn finish_foreground(ctx: &Ctx<'_>, node: &Object<Node>) -> Result<Plan> {
    let dependents = complete(ctx, node)?;
    let mut plan = Plan::new();
    // The dependents are subscribed to, and they to their owner: each sees to itself.
    if !dependents.iter().any(|dependent| dependents::blocks(dependent, node)) {
        plan.then(remove_finalizer(node, FOREGROUND));
    }
    Ok(plan)
}

/// The dependents, once the cache of every resource that can be listed is
/// there: one that it does not show yet would be taken for none. A resource
/// that cannot be listed holds nothing up.
fn complete(ctx: &Ctx<'_>, node: &Node) -> Result<Vec<Object<Node>>> {
    if Kinds::of(ctx).syncing {
        return Err(Error::retry("the cache of some resource is still being filled"));
    }
    dependents::of(ctx, node)
}

/// Deletes an object that has lost its owners, or drops references to those it
/// has lost.
fn collect(ctx: &Ctx<'_>, node: &Object<Node>) -> Result<Plan> {
    let mut plan = Plan::new();
    if node.metadata.owner_references.is_empty() {
        return Ok(plan);
    }
    let owners = owners::classify(ctx, node)?;
    report_misplaced(ctx, node, &owners, &mut plan);
    if owners.undecided {
        return Ok(plan);
    }
    if owners.any(Fate::Solid) {
        if owners.unwatched {
            // Gone before the cache showed it, it would be missed by nobody.
            plan.come_back(ctx.now() + UNWATCHED);
        }
        if owners.any(Fate::Absent) || owners.any(Fate::Waiting) {
            // A waiting owner would wait for ever for an object that another one keeps.
            let kept = node.metadata.owner_references.iter().filter(|r| owners.has(r, Fate::Solid));
            plan.then(set_owners(node, kept).tag("drop references"));
        }
        return Ok(plan);
    }
    let dependents = if owners.any(Fate::Waiting) { dependents::of(ctx, node)? } else { Vec::new() };
    if dependents.is_empty() {
        plan.then(delete(ctx, node, honoured(node))?);
        return Ok(plan);
    }
    if dependents.iter().any(|dependent| dependent.waits_for_dependents()) {
        // Perhaps a circle, each waiting for the next: this object stops blocking its owners.
        plan.then(unblock(node));
    }
    plan.then(delete(ctx, node, Propagation::Foreground)?);
    Ok(plan)
}

fn report_misplaced(ctx: &Ctx<'_>, node: &Node, owners: &Owners, plan: &mut Plan) {
    let about = About::new(ctx.key().resource, &node.metadata);
    let namespace = &node.metadata.namespace;
    for OwnerReference { api_version, kind, name, uid, .. } in &owners.misplaced {
        let message = format!(
            "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] does not exist in namespace {namespace:?}"
        );
        plan.event(about.warning("OwnerRefInvalidNamespace", message));
    }
}

/// A propagation that finalizers on the object ask for already is honoured.
pub fn honoured(node: &Node) -> Propagation {
    if node.has_finalizer(ORPHAN) {
        Propagation::Orphan
    } else if node.has_finalizer(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    }
}

/// Deletes an object as long as it is as it was seen. One that changes faster
/// than that can be said is deleted as long as its owners are.
fn delete(ctx: &Ctx<'_>, node: &Object<Node>, propagation: Propagation) -> Result<Option<Action>> {
    let Node { metadata, .. } = &**node;
    let resource = node.reference().resource;
    let action =
        Action::delete(resource, &metadata.namespace, &metadata.name).propagation(propagation).tag(DELETE);
    if !ctx.failures(DELETE).any(|failure| failure.reason == "Conflict") {
        return Ok(Some(action.as_seen(node)));
    }
    let ask = Ask::get_metadata(resource, &metadata.namespace, &metadata.name).expecting_uid(&metadata.uid);
    let answer = ctx.look_up(ask.clone())?;
    Ok(owners::live(&node.kind, &ask, answer)?.map(|live| {
        if live.metadata.owner_references == metadata.owner_references {
            action.uid(&metadata.uid)
        } else {
            action.as_seen(node)
        }
    }))
}

fn patch_metadata(node: &Object<Node>, metadata: &serde_json::Value) -> Action {
    let Node { metadata: meta, .. } = &**node;
    Action::merge(node.reference().resource, &meta.namespace, &meta.name, &json!({ "metadata": metadata }))
        .as_seen(node)
}

fn set_owners<'a>(node: &Object<Node>, kept: impl Iterator<Item = &'a OwnerReference>) -> Action {
    let kept: Vec<&OwnerReference> = kept.collect();
    let kept = if kept.is_empty() {
        json!(null)
    } else {
        json!(kept.iter().map(|owner| owner.to_json()).collect::<Vec<_>>())
    };
    patch_metadata(node, &json!({ "ownerReferences": kept }))
}

fn unblock(node: &Object<Node>) -> Option<Action> {
    let freed = unblocked(node);
    if freed == node.metadata.owner_references {
        return None;
    }
    Some(set_owners(node, freed.iter()).tag("unblock owners"))
}

/// The owner references of an object, without blocking anybody.
pub fn unblocked(node: &Node) -> Vec<OwnerReference> {
    let free = |reference: &OwnerReference| OwnerReference {
        block_owner_deletion: reference.block_owner_deletion.map(|_| false),
        ..reference.clone()
    };
    node.metadata.owner_references.iter().map(free).collect()
}

fn remove_finalizer(node: &Object<Node>, finalizer: &str) -> Action {
    let kept: Vec<&String> = node.metadata.finalizers.iter().filter(|f| *f != finalizer).collect();
    let kept = if kept.is_empty() { json!(null) } else { json!(kept) };
    patch_metadata(node, &json!({ "finalizers": kept })).tag("remove finalizer")
}
