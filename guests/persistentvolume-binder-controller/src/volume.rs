//! What to do about a volume.

use coxswain_sdk::resource::PERSISTENT_VOLUME_CLAIMS;
use coxswain_sdk::volumes::ClaimRef;
use coxswain_sdk::{About, Ask, Ctx, Object, Plan, Result};

use crate::bind::{patch_volume, set_phase, unbind};
use crate::names::{AVAILABLE, BOUND, FAILED, RELEASED, VOLUME_MISMATCH};
use crate::options::Options;
use crate::reclaim::reclaim;
use crate::view::{Claim, Volume};
use crate::{matching, measures, migration, notice};

/// Reconciles a volume.
pub fn reconcile(ctx: &Ctx<'_>, options: &Options, volume: &Object<Volume>) -> Result<Plan> {
    let mut plan = Plan::new();
    measures::volume(&mut plan, volume);
    if let Some(body) = migration::of_volume(volume) {
        plan.then(patch_volume(volume, &body).tag("migration"));
    }
    let claim_ref = match &volume.spec.claim_ref {
        Some(claim_ref) if !claim_ref.uid.is_empty() => claim_ref,
        // Free, or reserved for a claim that has yet to take it.
        _ => {
            plan.then(set_phase(volume, AVAILABLE, "")?);
            notice::forget(ctx, &mut plan);
            return Ok(plan);
        }
    };
    let Some(claim) = find_claim(ctx, volume, claim_ref)? else {
        release(ctx, options, &mut plan, volume, None)?;
        return Ok(plan);
    };
    if claim.spec.volume_name.is_empty() {
        if matching::modes_differ(volume, &claim) {
            tell_mismatch(ctx, options, &mut plan, volume, &claim);
        }
        // Otherwise the claim is about to take it; it knows who is for it.
        return Ok(plan);
    }
    if claim.spec.volume_name == volume.metadata.name {
        plan.then(set_phase(volume, BOUND, "")?);
    } else if volume.metadata.annotations.provisioned_by.is_some()
        && volume.spec.persistent_volume_reclaim_policy == "Delete"
    {
        // It was made for the claim, which found another: nobody needs it.
        release(ctx, options, &mut plan, volume, Some(&claim))?;
        return Ok(plan);
    } else {
        unbind(&mut plan, volume)?;
    }
    notice::forget(ctx, &mut plan);
    Ok(plan)
}

/// The claim that a volume is bound to. That it is gone must be seen past the
/// cache before the volume is given up: the cache may lag behind whoever made
/// the two.
fn find_claim(ctx: &Ctx<'_>, volume: &Volume, claim_ref: &ClaimRef) -> Result<Option<Claim>> {
    let cached = ctx.get::<Claim>(&claim_ref.namespace, &claim_ref.name)?;
    match cached {
        Some(claim) if claim.metadata.uid == claim_ref.uid => Ok(Some(Claim::clone(&claim))),
        None if is_given_up(volume) => Ok(None),
        _ => find_live(ctx, claim_ref),
    }
}

/// The claim of this very uid, past the cache.
pub fn find_live(ctx: &Ctx<'_>, claim_ref: &ClaimRef) -> Result<Option<Claim>> {
    let ClaimRef { namespace, name, uid } = claim_ref;
    ctx.find_live(Ask::get(PERSISTENT_VOLUME_CLAIMS, namespace, name).expecting_uid(uid))
}

/// Whether its claim was found to be gone before.
pub fn is_given_up(volume: &Volume) -> bool {
    matches!(volume.status.phase.as_str(), RELEASED | FAILED)
}

fn release(
    ctx: &Ctx<'_>,
    options: &Options,
    plan: &mut Plan,
    volume: &Object<Volume>,
    claim: Option<&Claim>,
) -> Result<()> {
    // That it failed stays to be seen while it is tried again.
    if !is_given_up(volume) {
        plan.then(set_phase(volume, RELEASED, "")?);
    }
    reclaim(ctx, options, plan, volume, claim)
}

fn tell_mismatch(ctx: &Ctx<'_>, options: &Options, plan: &mut Plan, volume: &Volume, claim: &Claim) {
    let (volume_name, claim_name) = (&volume.metadata.name, &claim.metadata.name);
    let about_volume = format!(
        "Cannot bind PersistentVolume to requested PersistentVolumeClaim {claim_name:?} due to \
         incompatible volumeMode."
    );
    let about_claim = format!(
        "Cannot bind PersistentVolume {volume_name:?} to requested PersistentVolumeClaim due to \
         incompatible volumeMode."
    );
    let events = vec![
        About::of::<Volume, _>(&volume.metadata).warning(VOLUME_MISMATCH, about_volume.clone()),
        About::of::<Claim, _>(&claim.metadata).warning(VOLUME_MISMATCH, about_claim),
    ];
    notice::tell(ctx, plan, options.sync_period, &about_volume, events);
}
