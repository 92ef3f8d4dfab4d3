//! The persistentvolumeclaim protection controller: a claim is kept while a pod
//! uses it.
//!
//! It sees to the finalizer `kubernetes.io/pvc-protection`. A pod that the
//! cache shows is enough to keep the claim; that there is none must be seen
//! past the cache, for the pod may be too new to be in it. Nothing is kept.

mod usage;
mod view;

#[cfg(test)]
mod tests;

use coxswain_sdk::resource::{PERSISTENT_VOLUME_CLAIMS, PODS};
use coxswain_sdk::volumes::{pods_of_claim, with_claim_index};
use coxswain_sdk::{Ask, Controller, Ctx, Declaration, Error, Plan, Result, finalizer, from_json};

use usage::uses;
use view::{Claim, Pod, PodList};

const FINALIZER: &str = "kubernetes.io/pvc-protection";

/// The controller.
#[derive(Debug)]
pub struct PersistentVolumeClaimProtectionController;

impl Controller for PersistentVolumeClaimProtectionController {
    fn declare() -> Declaration {
        Declaration::new("persistentvolumeclaim-protection-controller")
            .alias("pvc-protection")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("pvc-protection-controller")
            .concurrency(1, "")
            .keys_objects("persistentvolumeclaims", &[PERSISTENT_VOLUME_CLAIMS])
            .queue("pvcprotection")
            .read::<Claim>()
            .read_with::<Pod>(with_claim_index)
            .write(PERSISTENT_VOLUME_CLAIMS, "", &["patch"])
            .lookup_list(PODS)
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        let mut plan = Plan::new();
        let Some(claim) = ctx.primary::<Claim>()? else { return Ok(plan) };
        plan.then(finalizer::protect(&claim, FINALIZER, || is_used(ctx, &claim))?);
        Ok(plan)
    }
}

fn is_used(ctx: &Ctx<'_>, claim: &Claim) -> Result<bool> {
    let namespace = &claim.metadata.namespace;
    let cached = pods_of_claim::<Pod>(ctx, namespace, &claim.metadata.name)?;
    if cached.iter().any(|pod| uses(pod, claim)) {
        return Ok(true);
    }
    // The question names the namespace alone, so that many claims that go at
    // once share one answer.
    let ask = Ask::List {
        resource: PODS.into(),
        namespace: namespace.clone(),
        labels: String::new(),
        fields: String::new(),
        limit: 0,
        continue_from: String::new(),
        metadata_only: false,
    };
    let text = ctx
        .look_up(ask)?
        .map_err(|failure| Error::Retry(format!("live list of pods failed: {}", failure.message)))?;
    let live: PodList =
        from_json(&text).map_err(|e| Error::Retry(format!("cannot read the pods of {namespace}: {e}")))?;
    Ok(live.items.iter().any(|pod| uses(pod, claim)))
}

coxswain_sdk::export!(PersistentVolumeClaimProtectionController);
