//! What is to become of objects, as writes.

use coxswain_sdk::resource::{DEPLOYMENTS, REPLICA_SETS};
use coxswain_sdk::{About, Action, Object, OwnerReference, Result, StringMap, merge};
use serde_json::{Map, Value, json};

use crate::annotations::{REVISION, ROLLBACK_TO, after_rollback, revision};
use crate::create::Creation;
use crate::sets::{Set, Sets, size_of};
use crate::template::HASH_LABEL;
use crate::view::{Deployment, DeploymentStatus, ReplicaSet};

/// The status, and the Deployment's revision, which goes with it; None if
/// neither changes.
pub fn status(
    deployment: &Object<Deployment>,
    seen: &DeploymentStatus,
    wanted: &DeploymentStatus,
    revision: Option<&str>,
) -> Result<Option<Action>> {
    let mut body = Map::new();
    if let Some(revision) = revision {
        body.insert("metadata".to_owned(), json!({"annotations": {REVISION: revision}}));
    }
    if let Some(status) = merge::diff_of(seen, wanted)? {
        body.insert("status".to_owned(), status);
    }
    if body.is_empty() {
        return Ok(None);
    }
    let meta = &deployment.metadata;
    let write = Action::merge(DEPLOYMENTS, &meta.namespace, &meta.name, &Value::Object(body));
    Ok(Some(write.subresource("status").tag("status").as_seen(deployment)))
}

/// Creates a ReplicaSet, or changes its size, annotations and readiness; None
/// if it is as it should be. A change of size is an event of the Deployment.
pub fn replica_set(deployment: &Object<Deployment>, set: &Set, hash: &str) -> Result<Option<Action>> {
    let write = match &set.seen {
        None => Some(creation(deployment, set, hash)?),
        Some(seen) => change(seen, set)?,
    };
    let before = set.seen.as_ref().map_or(0, |seen| size_of(seen));
    let direction = match set.replicas.cmp(&before) {
        std::cmp::Ordering::Equal => return Ok(write),
        std::cmp::Ordering::Greater => "up",
        std::cmp::Ordering::Less => "down",
    };
    let message = format!("Scaled {direction} replica set {} from {before} to {}", set.name, set.replicas);
    let event = About::of::<Deployment, _>(&deployment.metadata).normal("ScalingReplicaSet", message);
    Ok(write.map(|write| write.on_success(event)))
}

fn creation(deployment: &Object<Deployment>, set: &Set, hash: &str) -> Result<Action> {
    let meta = &deployment.metadata;
    let template = deployment.spec.template.with_hash(hash);
    let mut selector = deployment.spec.selector.as_ref().map_or_else(|| json!({}), |s| s.raw.clone());
    if !selector["matchLabels"].is_object() {
        selector["matchLabels"] = json!({});
    }
    selector["matchLabels"][HASH_LABEL] = hash.into();
    let mut spec = json!({"replicas": set.replicas, "selector": selector, "template": template});
    if set.min_ready_seconds != 0 {
        spec["minReadySeconds"] = set.min_ready_seconds.into();
    }
    let object = json!({
        "apiVersion": REPLICA_SETS.api_version(),
        "kind": REPLICA_SETS.kind,
        "metadata": {
            "name": set.name,
            "namespace": meta.namespace,
            "labels": template["metadata"]["labels"],
            "annotations": set.annotations,
            "ownerReferences": [OwnerReference::controller(DEPLOYMENTS, &meta.name, &meta.uid).to_json()],
        },
        "spec": spec,
    });
    let write = Action::create(REPLICA_SETS, &meta.namespace, &set.name, &object)?;
    Ok(write.tag(&Creation::tag(&set.name)))
}

fn change(seen: &Object<ReplicaSet>, set: &Set) -> Result<Option<Action>> {
    let content = |annotations: &StringMap, replicas: i64, min_ready: i64| {
        json!({
            "metadata": {"annotations": annotations},
            "spec": {"replicas": replicas, "minReadySeconds": min_ready},
        })
    };
    let before = content(&seen.metadata.annotations, size_of(seen), seen.spec.min_ready_seconds);
    let after = content(&set.annotations, set.replicas, set.min_ready_seconds);
    let Some(body) = merge::diff(&before, &after) else { return Ok(None) };
    let meta = &seen.metadata;
    Ok(Some(Action::merge(REPLICA_SETS, &meta.namespace, &meta.name, &body).as_seen(seen).tag("scale")))
}

/// Deletes a ReplicaSet that is not needed any more.
pub fn deletion(seen: &Object<ReplicaSet>) -> Action {
    let meta = &seen.metadata;
    Action::delete(REPLICA_SETS, &meta.namespace, &meta.name).as_seen(seen).tag("forget")
}

/// The second highest revision; 0 if there is none.
pub fn last_revision(sets: &Sets) -> i64 {
    let (mut highest, mut second) = (0, 0);
    for number in sets.all().filter_map(|set| revision(&set.annotations)) {
        if number >= highest {
            (highest, second) = (number, highest);
        } else {
            second = second.max(number);
        }
    }
    second
}

/// Gives up a rollback.
pub fn no_rollback(deployment: &Object<Deployment>) -> Action {
    let meta = &deployment.metadata;
    let body = json!({"metadata": {"annotations": {ROLLBACK_TO: null}}});
    Action::merge(DEPLOYMENTS, &meta.namespace, &meta.name, &body).as_seen(deployment).tag("rollback")
}

/// Gives the Deployment an older ReplicaSet's template and annotations.
pub fn rollback(deployment: &Object<Deployment>, set: &ReplicaSet, annotations: &StringMap) -> Action {
    let meta = &deployment.metadata;
    let mut wanted = after_rollback(&meta.annotations, annotations);
    wanted.remove(ROLLBACK_TO);
    let content = |annotations: &StringMap, template: &Value| json!({"metadata": {"annotations": annotations}, "spec": {"template": template}});
    let before = content(&meta.annotations, deployment.spec.template.raw());
    let after = content(&wanted, &set.spec.template.without_hash());
    // The annotation that asked for it goes in any case, so there is a change.
    let body = merge::diff(&before, &after).unwrap_or_else(|| json!({}));
    Action::merge(DEPLOYMENTS, &meta.namespace, &meta.name, &body).as_seen(deployment).tag("rollback")
}
