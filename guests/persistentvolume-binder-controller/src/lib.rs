//! The persistentvolume binder controller: brings claims and volumes together,
//! and sees to volumes whose claim is gone.
//!
//! A claim takes the smallest volume that suits it, or the one it names, or has
//! a provisioner asked for one. The volume is written first, then the claim;
//! whatever is found half done is completed. Claims and volumes share one
//! source of keys of which one is in flight at a time: no two claims take the
//! same volume, and the two sides never write against each other.
//!
//! Volumes are made, attached and deleted by CSI drivers. The little that the
//! manager does itself is in `plugin`, `recycle` and `host_path`; what it could
//! do once, drivers have taken over, see `migration`.
//!
//! Kept for a key: what was last told of it, and when (see `notice`); a loss
//! repeats an event, or a try.

mod bind;
mod claim;
mod class;
mod host_path;
mod matching;
mod measures;
mod migration;
mod names;
mod notice;
mod options;
mod plugin;
mod provision;
mod reclaim;
mod recycle;
mod view;
mod volume;

#[cfg(test)]
mod tests;

use coxswain_sdk::contract::KeyKind;
use coxswain_sdk::resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS};
use coxswain_sdk::volumes::{Pod, with_claim_index, with_claim_ref_index};
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Result};

use options::Options;
use view::{Claim, Class, Volume};

/// The controller.
#[derive(Debug)]
pub struct PersistentVolumeBinderController;

impl Controller for PersistentVolumeBinderController {
    fn declare() -> Declaration {
        const PHASE: &str = "status.phase";
        const BETA_CLASS: &str = "metadata.annotations.\"volume.beta.kubernetes.io/storage-class\"";
        let both = [PERSISTENT_VOLUME_CLAIMS.to_wire(), PERSISTENT_VOLUMES.to_wire()];
        let declaration = Declaration::new("persistentvolume-binder-controller")
            .alias("persistentvolume-binder")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("persistent-volume-binder")
            .state_format(1, &[])
            .event_component("persistentvolume-controller")
            .concurrency(1, "")
            .keys("claims and volumes", KeyKind::Objects(both.to_vec()), true)
            .queue("claims")
            .read::<Claim>()
            .read_with::<Volume>(|read| {
                with_claim_ref_index(read)
                    .index(claim::BY_PHASE, &[PHASE])
                    .index(claim::BY_CLASS, &["spec.storageClassName", PHASE])
                    .index(claim::BY_BETA_CLASS, &[BETA_CLASS, PHASE])
            })
            .read::<Class>()
            .read_with::<Pod>(with_claim_index);
        options::declare(measures::declare(declaration))
            .write(PERSISTENT_VOLUMES, "", &["create", "patch", "delete"])
            .write(PERSISTENT_VOLUMES, "status", &["patch"])
            .write(PERSISTENT_VOLUME_CLAIMS, "", &["patch"])
            .write(PERSISTENT_VOLUME_CLAIMS, "status", &["patch"])
            .write(PODS, "", &["create", "delete"])
            .lookup_get(PERSISTENT_VOLUME_CLAIMS, "")
            .lookup_get(PODS, "")
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        let options = Options::of(ctx)?;
        if ctx.key().resource == ctx.number(PERSISTENT_VOLUMES)? {
            let volume = ctx.primary::<Volume>()?;
            return volume
                .map_or_else(|| Ok(Plan::new()), |volume| volume::reconcile(ctx, &options, &volume));
        }
        let claim = ctx.primary::<Claim>()?;
        claim.map_or_else(|| Ok(Plan::new()), |claim| claim::reconcile(ctx, &options, &claim))
    }
}

coxswain_sdk::export!(PersistentVolumeBinderController);
