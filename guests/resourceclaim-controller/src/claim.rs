//! What a claim needs: to be given up by pods that are done, and to go with the
//! last of them.

use coxswain_sdk::resource::{PODS, RESOURCE_CLAIMS};
use coxswain_sdk::{Action, Ask, Ctx, Object, Plan, Result, finalizer};
use serde_json::{Map, Value, json};

use crate::measures;
use crate::view::{Claim, Pod};

const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// Reconciles a claim.
pub fn reconcile(ctx: &Ctx<'_>, claim: &Object<Claim>) -> Result<Plan> {
    let mut plan = Plan::new();
    measures::census(&mut plan, claim);
    let meta = &claim.metadata;
    let mut remaining = Vec::new();
    for entry in &claim.status.reserved_for {
        if !is_given_up(ctx, claim, entry)? {
            remaining.push(entry.clone());
        }
    }
    let is_ours = finalizer::has(meta, FINALIZER);
    let released = remaining.len() < claim.status.reserved_for.len();
    let unused = remaining.is_empty();
    if released || is_ours && meta.is_deleting() && unused {
        let mut status = Map::new();
        if released {
            let list = if unused { Value::Null } else { json!(remaining) };
            status.insert("reservedFor".to_owned(), list);
        }
        // Devices are given back with the last user. What was never used keeps
        // them, until it is deleted.
        let deallocated = claim.status.allocation.is_some() && unused && is_ours;
        if deallocated {
            status.insert("allocation".to_owned(), Value::Null);
        }
        if !status.is_empty() {
            let body = json!({ "status": status });
            let patch = Action::merge(RESOURCE_CLAIMS, &meta.namespace, &meta.name, &body).as_seen(claim);
            plan.then(patch.subresource("status").tag("release"));
        }
        if is_ours && (deallocated || claim.status.allocation.is_none()) {
            plan.then(finalizer::remove(claim, FINALIZER));
        }
    }
    if unused && !meta.is_deleting() && outlives_its_pod(ctx, claim)? {
        plan.then(Action::delete(RESOURCE_CLAIMS, &meta.namespace, &meta.name).uid(&meta.uid).tag("delete"));
    }
    Ok(plan)
}

/// Whether a reservation is for a pod that is gone or done. Users of any other
/// kind are left alone.
fn is_given_up(ctx: &Ctx<'_>, claim: &Claim, entry: &Value) -> Result<bool> {
    let text = |field: &str| entry[field].as_str().unwrap_or_default();
    if !text("apiGroup").is_empty() || text("resource") != "pods" {
        return Ok(false);
    }
    let (namespace, name, uid) = (&claim.metadata.namespace, text("name"), text("uid"));
    if let Some(pod) = ctx.get::<Pod>(namespace, name)? {
        return Ok(pod.metadata.uid != uid || pod.is_done());
    }
    // The scheduler may know the pod before we do, so that it is gone must be
    // seen past the cache.
    let live = ctx.find_live::<()>(Ask::get_metadata(PODS, namespace, name).expecting_uid(uid))?;
    Ok(live.is_none())
}

/// Whether it was made for a pod that is done, or that another has replaced. A
/// pod that is not to be seen may be too new; the garbage collector knows.
fn outlives_its_pod(ctx: &Ctx<'_>, claim: &Claim) -> Result<bool> {
    let owner = claim.metadata.controller().filter(|owner| owner.api_version == "v1" && owner.kind == "Pod");
    let Some(owner) = owner else { return Ok(false) };
    let pod = ctx.get::<Pod>(&claim.metadata.namespace, &owner.name)?;
    Ok(pod.is_some_and(|pod| pod.metadata.uid != owner.uid || pod.is_done()))
}
