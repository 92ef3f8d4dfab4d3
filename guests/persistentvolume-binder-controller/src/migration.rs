//! What was built in once and is a CSI driver now: annotations that tell the
//! drivers, and the finalizers that go with them.

use coxswain_sdk::migration::{PREFIX, driver_of};
use serde_json::{Map, Value, json};

use crate::names::{EXTERNAL_FINALIZER, IN_TREE_FINALIZER, MIGRATED_TO};
use crate::view::{Claim, Volume};

/// What the annotation must become: None if it is right, Some(None) if it must
/// go.
fn change(provisioner: &str, migrated_to: Option<&str>) -> Option<Option<&'static str>> {
    match (driver_of(provisioner), migrated_to.unwrap_or_default()) {
        (Some(driver), there) if there != driver => Some(Some(driver)),
        (None, there) if !there.is_empty() => Some(None),
        _ => None,
    }
}

/// The metadata that a claim lacks, as a merge patch; None if all is there.
pub fn of_claim(claim: &Claim) -> Option<Value> {
    let annotations = &claim.metadata.annotations;
    let provisioner = annotations.provisioner.as_deref().or(annotations.beta_provisioner.as_deref())?;
    let change = change(provisioner, annotations.migrated_to.as_deref())?;
    Some(json!({ "metadata": { "annotations": { MIGRATED_TO: change } } }))
}

/// The same for a volume, finalizers included.
pub fn of_volume(volume: &Volume) -> Option<Value> {
    let annotations = &volume.metadata.annotations;
    let provisioner = annotations.provisioned_by.as_deref()?;
    let mut patch = Map::new();
    if let Some(change) = change(provisioner, annotations.migrated_to.as_deref()) {
        patch.insert("annotations".to_owned(), json!({ MIGRATED_TO: change }));
    }
    let wanted = finalizers(volume, provisioner);
    if wanted != volume.metadata.finalizers {
        let list = if wanted.is_empty() { Value::Null } else { json!(wanted) };
        patch.insert("finalizers".to_owned(), list);
    }
    (!patch.is_empty()).then(|| json!({ "metadata": patch }))
}

/// The finalizers that a provisioned volume should have: ours while we would
/// delete it, the external one only if we would not.
fn finalizers(volume: &Volume, provisioner: &str) -> Vec<String> {
    let mut finalizers = volume.metadata.finalizers.clone();
    if driver_of(provisioner).is_some() {
        finalizers.retain(|finalizer| finalizer != IN_TREE_FINALIZER);
        return finalizers;
    }
    if !provisioner.starts_with(PREFIX) {
        return finalizers;
    }
    match volume.spec.persistent_volume_reclaim_policy.as_str() {
        // None can be added to what is being deleted.
        "Delete" if volume.metadata.is_deleting() => {}
        "Delete" if !finalizers.iter().any(|finalizer| finalizer == IN_TREE_FINALIZER) => {
            finalizers.push(IN_TREE_FINALIZER.to_owned());
        }
        "Retain" | "Recycle" => finalizers.retain(|finalizer| finalizer != IN_TREE_FINALIZER),
        _ => {}
    }
    finalizers.retain(|finalizer| finalizer != EXTERNAL_FINALIZER);
    finalizers
}
