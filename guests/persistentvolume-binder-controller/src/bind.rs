//! Binding: the writes that make a volume and a claim belong together.
//!
//! The volume is written first, then the claim, each step only if the one
//! before went well; whoever finds half of it done completes it. Everything is
//! written on condition that both are still as they were seen.

use coxswain_sdk::quantity::Quantity;
use coxswain_sdk::resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES};
use coxswain_sdk::{Action, Error, Object, Plan, Result};
use serde_json::{Map, Value, json};

use crate::matching::is_for;
use crate::names::{AVAILABLE, BIND_COMPLETED, BOUND, BOUND_BY_CONTROLLER, PENDING};
use crate::view::{Capacity, Claim, ClaimStatus, Volume, VolumeStatus};

/// Adds what is missing for the two to be bound to each other.
pub fn bind(plan: &mut Plan, volume: &Object<Volume>, claim: &Object<Claim>) -> Result<()> {
    let status = bound_status(volume, claim)?;
    if let Some(body) = volume_patch(volume, claim) {
        plan.then(patch_volume(volume, &body).tag("bind-volume"));
    }
    plan.then(set_phase(volume, BOUND, "")?);
    if let Some(body) = claim_patch(volume, claim) {
        plan.then(patch_claim(claim, &body).tag("bind-claim"));
    }
    plan.then(set_claim_status(claim, &status)?);
    Ok(())
}

/// A patch of a volume, if it is as it was seen.
pub fn patch_volume(volume: &Object<Volume>, body: &Value) -> Action {
    Action::merge(PERSISTENT_VOLUMES, "", &volume.metadata.name, body).as_seen(volume)
}

/// A patch of a claim, if it is as it was seen.
pub fn patch_claim(claim: &Object<Claim>, body: &Value) -> Action {
    let meta = &claim.metadata;
    Action::merge(PERSISTENT_VOLUME_CLAIMS, &meta.namespace, &meta.name, body).as_seen(claim)
}

/// A write of the phase of a volume, and of why; None if it has that phase.
pub fn set_phase(volume: &Object<Volume>, phase: &str, message: &str) -> Result<Option<Action>> {
    if volume.status.phase == phase {
        return Ok(None);
    }
    let wanted = VolumeStatus { phase: phase.to_owned(), message: message.to_owned() };
    let name = &volume.metadata.name;
    let action = Action::status(PERSISTENT_VOLUMES, "", name, &volume.status, &wanted)?;
    Ok(action.map(|action| action.as_seen(volume)))
}

/// A write of the status of a claim; None if it is as wanted.
pub fn set_claim_status(claim: &Object<Claim>, wanted: &ClaimStatus) -> Result<Option<Action>> {
    let meta = &claim.metadata;
    let action =
        Action::status(PERSISTENT_VOLUME_CLAIMS, &meta.namespace, &meta.name, &claim.status, wanted)?;
    Ok(action.map(|action| action.as_seen(claim)))
}

/// The status of a claim that has no volume.
pub fn unbound_status(phase: &str) -> ClaimStatus {
    ClaimStatus { phase: phase.to_owned(), ..ClaimStatus::default() }
}

/// The status of a claim that has this volume.
pub fn bound_status(volume: &Volume, claim: &Claim) -> Result<ClaimStatus> {
    let mut status = claim.status.clone();
    status.access_modes.clone_from(&volume.spec.access_modes);
    // The size is taken over as the claim becomes bound. Later the file system
    // may well be smaller than the volume, and whoever resizes it says so.
    if status.phase != BOUND {
        let Some(size) = volume.spec.capacity.storage else {
            let name = &volume.metadata.name;
            return Err(Error::Terminal(format!("PersistentVolume {name:?} is without a storage capacity")));
        };
        let before_resize = volume.metadata.annotations.pre_resize_capacity.as_deref();
        let size = before_resize.map_or(size, |text| Quantity::parse(text).unwrap_or(size));
        status.capacity = Some(Capacity { storage: Some(size) });
    }
    // Later it is for whoever modifies the volume to say.
    if status.phase == PENDING {
        status.current_volume_attributes_class_name.clone_from(&volume.spec.volume_attributes_class_name);
    }
    BOUND.clone_into(&mut status.phase);
    Ok(status)
}

/// The reference that a volume has to its claim.
pub fn claim_ref(claim: &Claim) -> Value {
    let meta = &claim.metadata;
    json!({
        "apiVersion": PERSISTENT_VOLUME_CLAIMS.api_version(),
        "kind": PERSISTENT_VOLUME_CLAIMS.kind,
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
    })
}

/// What a volume lacks to be bound to the claim.
fn volume_patch(volume: &Volume, claim: &Claim) -> Option<Value> {
    let reserved = is_for(volume, claim);
    let has_uid = volume.spec.claim_ref.as_ref().is_some_and(|there| there.uid == claim.metadata.uid);
    let mut patch = Map::new();
    if !reserved || !has_uid {
        patch.insert("spec".to_owned(), json!({ "claimRef": claim_ref(claim) }));
    }
    if !reserved && volume.metadata.annotations.bound_by_controller.is_none() {
        patch.insert("metadata".to_owned(), json!({ "annotations": { BOUND_BY_CONTROLLER: "yes" } }));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// What a claim lacks to be bound to the volume.
fn claim_patch(volume: &Volume, claim: &Claim) -> Option<Value> {
    let chosen_here = claim.spec.volume_name != volume.metadata.name;
    let mut patch = Map::new();
    let mut annotations = Map::new();
    if chosen_here {
        patch.insert("spec".to_owned(), json!({ "volumeName": volume.metadata.name }));
        if claim.metadata.annotations.bound_by_controller.is_none() {
            annotations.insert(BOUND_BY_CONTROLLER.to_owned(), json!("yes"));
        }
    }
    if claim.metadata.annotations.bind_completed.is_none() {
        annotations.insert(BIND_COMPLETED.to_owned(), json!("yes"));
    }
    if !annotations.is_empty() {
        patch.insert("metadata".to_owned(), json!({ "annotations": annotations }));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Adds the writes that take a volume from its claim. What was set here goes;
/// of a reservation that somebody else made only the uid does.
pub fn unbind(plan: &mut Plan, volume: &Object<Volume>) -> Result<()> {
    let body = if volume.metadata.annotations.bound_by_controller.is_some() {
        json!({ "metadata": { "annotations": { BOUND_BY_CONTROLLER: null } }, "spec": { "claimRef": null } })
    } else {
        json!({ "spec": { "claimRef": { "uid": null } } })
    };
    plan.then(patch_volume(volume, &body).tag("unbind"));
    plan.then(set_phase(volume, AVAILABLE, "")?);
    Ok(())
}
