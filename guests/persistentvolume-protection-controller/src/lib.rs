//! The persistentvolume protection controller: a volume that is bound is kept
//! until it no longer is.
//!
//! It sees to the finalizer `kubernetes.io/pv-protection`. Whether the volume
//! is in use is what its phase says, so there is nothing to keep.

#[cfg(test)]
mod tests;

use coxswain_sdk::claim::HasMetadata;
use coxswain_sdk::meta::NoAnnotations;
use coxswain_sdk::resource::PERSISTENT_VOLUMES;
use coxswain_sdk::{
    Controller, Ctx, Declaration, FromJson, ObjectMeta, Plan, Resource, Result, View, finalizer,
};

const FINALIZER: &str = "kubernetes.io/pv-protection";
const BOUND: &str = "Bound";

/// What is read of a volume.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
struct Volume {
    metadata: ObjectMeta,
    status: Status,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
struct Status {
    phase: String,
}

impl View for Volume {
    const RESOURCE: Resource = PERSISTENT_VOLUMES;
}

impl HasMetadata for Volume {
    type Annotations = NoAnnotations;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// The controller.
#[derive(Debug)]
pub struct PersistentVolumeProtectionController;

impl Controller for PersistentVolumeProtectionController {
    fn declare() -> Declaration {
        Declaration::new("persistentvolume-protection-controller")
            .alias("pv-protection")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("pv-protection-controller")
            .concurrency(1, "")
            .keys_objects("persistentvolumes", &[PERSISTENT_VOLUMES])
            .queue("pvprotection")
            .read::<Volume>()
            .write(PERSISTENT_VOLUMES, "", &["patch"])
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        let mut plan = Plan::new();
        let Some(volume) = ctx.primary::<Volume>()? else { return Ok(plan) };
        plan.then(finalizer::protect(&volume, FINALIZER, || Ok(volume.status.phase == BOUND))?);
        Ok(plan)
    }
}

coxswain_sdk::export!(PersistentVolumeProtectionController);
