//! The persistentvolume expander controller: tells that growing a claim is left
//! to an external resizer.
//!
//! Nothing that the manager could grow itself is left. Volumes of what was once
//! built in are handed to the CSI driver that took over, by an annotation of
//! the claim. Kept for a claim: the sizes that were told of, so that each
//! wish to grow is told of once; if that is lost it is told again.

mod view;

#[cfg(test)]
mod tests;

use coxswain_sdk::migration::BuiltIn;
use coxswain_sdk::resource::PERSISTENT_VOLUME_CLAIMS;
use coxswain_sdk::{About, Action, Controller, Ctx, Declaration, Object, Plan, Result};
use serde_json::json;

use view::{Claim, Volume};

const BOUND: &str = "Bound";
const EXTERNAL_EXPANDING: &str = "ExternalExpanding";
const RESIZER: &str = "volume.kubernetes.io/storage-resizer";

/// The controller.
#[derive(Debug)]
pub struct PersistentVolumeExpanderController;

impl Controller for PersistentVolumeExpanderController {
    fn declare() -> Declaration {
        Declaration::new("persistentvolume-expander-controller")
            .alias("persistentvolume-expander")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("expand-controller")
            .state_format(1, &[])
            .event_component("volume_expand")
            .concurrency(10, "")
            .keys_objects("persistentvolumeclaims", &[PERSISTENT_VOLUME_CLAIMS])
            .queue("volume_expand")
            .read::<Claim>()
            .read::<Volume>()
            .write(PERSISTENT_VOLUME_CLAIMS, "", &["patch"])
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        let mut plan = Plan::new();
        let Some(claim) = ctx.primary::<Claim>()? else { return Ok(plan) };
        let Some(volume) = volume_to_grow(ctx, &claim)? else {
            if ctx.state().is_some() {
                plan.clear();
            }
            return Ok(plan);
        };
        let about = About::of::<Claim, _>(&claim.metadata);
        let text = match volume.spec.migrated() {
            Some(BuiltIn { name, driver }) => {
                if claim.metadata.annotations.resizer.as_deref() != Some(driver) {
                    let meta = &claim.metadata;
                    let body = json!({ "metadata": { "annotations": { RESIZER: driver } } });
                    let failed = format!(
                        "error setting resizer annotation to pvc {}/{}, with error {{message}}",
                        meta.namespace, meta.name
                    );
                    let patch = Action::merge(PERSISTENT_VOLUME_CLAIMS, &meta.namespace, &meta.name, &body)
                        .uid(&meta.uid)
                        .tag("resizer")
                        .on_failure(about.warning(EXTERNAL_EXPANDING, failed));
                    plan.then(patch);
                }
                format!("CSI migration enabled for {name}; waiting for external resizer to expand the pvc")
            }
            None => "waiting for an external controller to expand this PVC".to_owned(),
        };
        let sizes = format!("{} of {}", claim.has(), claim.wants());
        if ctx.state() != Some(&sizes) {
            plan.event(about.normal(EXTERNAL_EXPANDING, text));
            plan.keep(sizes);
        }
        Ok(plan)
    }
}

/// The volume that the claim is bound to, if it should be larger, or has grown
/// while the file system in it has yet to.
fn volume_to_grow(ctx: &Ctx<'_>, claim: &Claim) -> Result<Option<Object<Volume>>> {
    if claim.status.phase != BOUND || claim.spec.volume_name.is_empty() {
        return Ok(None);
    }
    let meta = &claim.metadata;
    let volume = ctx.get::<Volume>("", &claim.spec.volume_name)?;
    Ok(volume.filter(|volume| {
        let bound = volume
            .spec
            .claim_ref
            .as_ref()
            .is_some_and(|claim_ref| claim_ref.uid == meta.uid && claim_ref.namespace == meta.namespace);
        bound && (claim.wants() > claim.has() || volume.metadata.annotations.pre_resize_capacity.is_some())
    }))
}

coxswain_sdk::export!(PersistentVolumeExpanderController);
