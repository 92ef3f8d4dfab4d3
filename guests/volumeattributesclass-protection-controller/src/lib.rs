//! The volumeattributesclass protection controller: a class is kept while a
//! volume or a claim names it.
//!
//! It sees to the finalizer `kubernetes.io/vac-protection`. Claims name a class
//! that they ask for, one that they have, and one that they are being changed
//! to; each of the three is an index, so that a class is never searched for.

#[cfg(test)]
mod tests;

use coxswain_sdk::claim::HasMetadata;
use coxswain_sdk::meta::NoAnnotations;
use coxswain_sdk::resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, VOLUME_ATTRIBUTES_CLASSES};
use coxswain_sdk::{
    Controller, Ctx, Declaration, FromJson, ObjectMeta, Plan, Query, Resource, Result, View, finalizer,
};

const FINALIZER: &str = "kubernetes.io/vac-protection";

/// Indexes of claims, and the fields behind them.
const CLAIM_INDEXES: [(&str, &str); 3] = [
    ("wanted-class", "spec.volumeAttributesClassName"),
    ("current-class", "status.currentVolumeAttributesClassName"),
    ("target-class", "status.modifyVolumeStatus.targetVolumeAttributesClassName"),
];
const VOLUME_INDEX: &str = "class";

#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
struct Class {
    metadata: ObjectMeta,
}

impl View for Class {
    const RESOURCE: Resource = VOLUME_ATTRIBUTES_CLASSES;
}

impl HasMetadata for Class {
    type Annotations = NoAnnotations;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// A volume: only counted.
#[derive(Debug, FromJson)]
struct Volume {
    #[allow(dead_code, reason = "a view without fields would ask for all of them")]
    metadata: ObjectMeta,
}

impl View for Volume {
    const RESOURCE: Resource = PERSISTENT_VOLUMES;
}

/// A claim: only counted.
#[derive(Debug, FromJson)]
struct Claim {
    #[allow(dead_code, reason = "a view without fields would ask for all of them")]
    metadata: ObjectMeta,
}

impl View for Claim {
    const RESOURCE: Resource = PERSISTENT_VOLUME_CLAIMS;
}

/// The controller.
#[derive(Debug)]
pub struct VolumeAttributesClassProtectionController;

impl Controller for VolumeAttributesClassProtectionController {
    fn declare() -> Declaration {
        Declaration::new("volumeattributesclass-protection-controller")
            .version(env!("CARGO_PKG_VERSION"))
            .concurrency(1, "")
            .keys_objects("volumeattributesclasses", &[VOLUME_ATTRIBUTES_CLASSES])
            .queue("vacprotection")
            .read_with::<Class>(|read| read.optional())
            .read_with::<Volume>(|read| read.index(VOLUME_INDEX, &["spec.volumeAttributesClassName"]))
            .read_with::<Claim>(|read| {
                CLAIM_INDEXES.iter().fold(read, |read, (name, path)| read.index(name, &[path]))
            })
            .write(VOLUME_ATTRIBUTES_CLASSES, "", &["patch"])
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        let mut plan = Plan::new();
        let Some(class) = ctx.primary::<Class>()? else { return Ok(plan) };
        plan.then(finalizer::protect(&class, FINALIZER, || is_used(ctx, &class.metadata.name))?);
        Ok(plan)
    }
}

fn is_used(ctx: &Ctx<'_>, class: &str) -> Result<bool> {
    if !ctx.refs::<Volume>(Query::all().index(VOLUME_INDEX, &[class]))?.is_empty() {
        return Ok(true);
    }
    for (index, _) in CLAIM_INDEXES {
        if !ctx.refs::<Claim>(Query::all().index(index, &[class]))?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

coxswain_sdk::export!(VolumeAttributesClassProtectionController);
