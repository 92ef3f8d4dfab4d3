//! What becomes of a volume whose claim is gone.

use coxswain_sdk::resource::PERSISTENT_VOLUMES;
use coxswain_sdk::{About, Action, Ctx, Object, Plan, Result, finalizer};

use crate::bind::set_phase;
use crate::names::{FAILED, FAILED_DELETE, IN_TREE_FINALIZER, UNKNOWN_POLICY};
use crate::options::Options;
use crate::plugin::{Deletion, deletion};
use crate::recycle::recycle;
use crate::view::{Claim, Volume};
use crate::{measures, notice, volume::find_live};

/// Does what the volume's policy says. `claim` is what the volume refers to, if
/// it is still there and has another volume.
pub fn reclaim(
    ctx: &Ctx<'_>,
    options: &Options,
    plan: &mut Plan,
    volume: &Object<Volume>,
    claim: Option<&Claim>,
) -> Result<()> {
    if volume.metadata.annotations.migrated_to.as_deref().is_some_and(|driver| !driver.is_empty()) {
        return Ok(());
    }
    match volume.spec.persistent_volume_reclaim_policy.as_str() {
        "Retain" => notice::forget(ctx, plan),
        "Delete" => delete(ctx, plan, volume, claim)?,
        "Recycle" => recycle(ctx, options, plan, volume)?,
        _ => {
            let text = "Volume has unrecognized PersistentVolumeReclaimPolicy";
            fail(plan, volume, UNKNOWN_POLICY, text)?;
        }
    }
    Ok(())
}

/// Marks the volume as failed, and tells of it if it was not before.
pub fn fail(plan: &mut Plan, volume: &Object<Volume>, reason: &str, text: &str) -> Result<()> {
    let event = About::of::<Volume, _>(&volume.metadata).warning(reason, text);
    plan.then(set_phase(volume, FAILED, text)?.map(|action| action.on_success(event)));
    Ok(())
}

fn delete(ctx: &Ctx<'_>, plan: &mut Plan, volume: &Object<Volume>, claim: Option<&Claim>) -> Result<()> {
    match deletion(volume) {
        Deletion::External => {}
        Deletion::Impossible(text) => {
            measures::undeleted(plan, volume);
            fail(plan, volume, FAILED_DELETE, &text)?;
        }
        Deletion::ObjectOnly => {
            if claim.is_none() && is_claimed(ctx, volume)? {
                return Ok(());
            }
            let meta = &volume.metadata;
            if finalizer::has(meta, IN_TREE_FINALIZER) {
                plan.then(finalizer::remove(volume, IN_TREE_FINALIZER));
            }
            if !meta.is_deleting() {
                let delete = Action::delete(PERSISTENT_VOLUMES, "", &meta.name).as_seen(volume);
                plan.then(delete.tag("delete"));
            }
        }
    }
    Ok(())
}

/// Whether the claim that the volume refers to is there after all. Asked past
/// the cache before anything that cannot be undone.
pub fn is_claimed(ctx: &Ctx<'_>, volume: &Volume) -> Result<bool> {
    match &volume.spec.claim_ref {
        Some(claim_ref) => Ok(find_live(ctx, claim_ref)?.is_some()),
        None => Ok(true),
    }
}
