//! Admission: what a server with default plugins adds to objects, and what it refuses.
//!
//! In: objects about to be stored. Out: the same with defaults of the cluster, or a refusal. Invariant: only quota and
//! eviction write anything, and only to the status of quotas and budgets.

mod eviction;
mod limits;
mod pod_security;
mod pod_standards;
mod pods;
mod quota;
mod quota_scopes;
mod storage;

pub use eviction::check_eviction;

use serde_json::Value;

use crate::rest::strategy::{Ctx, Kind};
use crate::status::Status;

/// 403 in the words of an admission plugin.
fn refused(kind: &Kind, object: &Value, why: &str) -> Status {
    let name = object["metadata"]["name"].as_str().unwrap_or("");
    Status::forbidden(&kind.group, &kind.plural, name, why)
}

fn is(kind: &Kind, group: &str, plural: &str) -> bool {
    kind.group == group && kind.plural == plural
}

/// Drops owners that are named twice, with a warning.
fn dedup_owners(ctx: &Ctx<'_>, object: &mut Value) {
    let Some(owners) = object["metadata"].get_mut("ownerReferences").and_then(Value::as_array_mut) else {
        return;
    };
    let (mut kept, mut twice): (Vec<Value>, Vec<String>) = (Vec::new(), Vec::new());
    for owner in owners.drain(..) {
        if kept.contains(&owner) {
            let uid = owner["uid"].as_str().unwrap_or("").to_owned();
            if !twice.contains(&uid) {
                twice.push(uid);
            }
        } else {
            kept.push(owner);
        }
    }
    *owners = kept;
    if !twice.is_empty() {
        ctx.warn(format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, \
             and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            twice.join(", ")
        ));
    }
}

/// Changes a new object.
pub fn mutate_create(ctx: &Ctx<'_>, kind: &Kind, object: &mut Value) -> Result<(), Status> {
    dedup_owners(ctx, object);
    if is(kind, "", "pods") {
        limits::fill(ctx, object);
        pods::priority(ctx, kind, object)?;
        pods::tolerations(object);
        pods::runtime_class(ctx, kind, object)?;
    } else if is(kind, "", "persistentvolumeclaims") {
        storage::protect(object, "kubernetes.io/pvc-protection");
        storage::default_class(ctx, object);
    } else if is(kind, "", "persistentvolumes") {
        storage::protect(object, "kubernetes.io/pv-protection");
    } else if is(kind, "storage.k8s.io", "volumeattributesclasses") {
        storage::protect(object, "kubernetes.io/vac-protection");
    } else if is(kind, "networking.k8s.io", "ingresses") {
        storage::default_ingress_class(ctx, object);
    }
    Ok(())
}

/// Checks a new object against what the namespace allows.
pub fn validate_create(ctx: &Ctx<'_>, kind: &Kind, object: &Value) -> Result<(), Status> {
    limits::check(ctx, kind, object)?;
    pod_security::pod(ctx, kind, "", None, object)?;
    if is(kind, "", "pods") {
        pods::overhead(ctx, kind, object)?;
    } else if is(kind, "", "namespaces") {
        pod_security::labels(kind, None, object)?;
    }
    if is(kind, "scheduling.k8s.io", "priorityclasses") {
        pods::one_default(ctx, kind, object)?;
    }
    Ok(())
}

/// Counts a new object, after everybody else has let it pass.
pub fn count_create(ctx: &Ctx<'_>, kind: &Kind, object: &Value) -> Result<(), Status> {
    if !ctx.namespace.is_empty() {
        quota::charge(ctx, kind, None, object)?;
    }
    Ok(())
}

/// Changes a changed object.
pub fn mutate_update(
    ctx: &Ctx<'_>,
    kind: &Kind,
    sub: &str,
    old: &Value,
    new: &mut Value,
) -> Result<(), Status> {
    dedup_owners(ctx, new);
    if sub.is_empty() && is(kind, "", "pods") {
        pods::keep_priority(old, new);
        pods::tolerations(new);
    }
    Ok(())
}

/// Checks a changed object.
pub fn validate_update(
    ctx: &Ctx<'_>,
    kind: &Kind,
    sub: &str,
    old: &Value,
    new: &Value,
) -> Result<(), Status> {
    if sub == "resize" && is(kind, "", "pods") {
        limits::check(ctx, kind, new)?;
    } else if sub.is_empty() && is(kind, "", "namespaces") {
        pod_security::labels(kind, Some(old), new)?;
        pod_security::running(ctx, old, new);
    }
    pod_security::pod(ctx, kind, sub, Some(old), new)?;
    if is(kind, "scheduling.k8s.io", "priorityclasses") {
        pods::one_default(ctx, kind, new)?;
    }
    if matches!(sub, "" | "resize") && is(kind, "", "persistentvolumeclaims") {
        storage::may_grow(ctx, kind, old, new)?;
    }
    Ok(())
}

/// Counts the difference between two states of an object, after everybody else has let it pass.
pub fn count_update(ctx: &Ctx<'_>, kind: &Kind, sub: &str, old: &Value, new: &Value) -> Result<(), Status> {
    if !ctx.namespace.is_empty() && matches!(sub, "" | "resize") {
        quota::charge(ctx, kind, Some(old), new)?;
    }
    Ok(())
}
