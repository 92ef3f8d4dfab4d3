//! The resourceclaim controller: makes the device claims of pods that bring a
//! template, and takes claims from pods that are done.
//!
//! A claim is made with the pod as its owner and a generated name; the pod's
//! status says which one it is. The scheduler reserves claims for pods; for pods
//! bound to a node by somebody else that is done here. The last user to be done
//! gives the devices back. Nothing is kept.

mod claim;
mod measures;
mod pod;
mod view;

#[cfg(test)]
mod tests;

use coxswain_sdk::resource::{PODS, RESOURCE_CLAIMS};
use coxswain_sdk::resource_claims::{POD_INDEX, with_pod_index};
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Result};

use view::{Claim, Pod, Template};

const POD_SOURCE: &str = "pods";

/// The controller.
#[derive(Debug)]
pub struct ResourceClaimController;

impl Controller for ResourceClaimController {
    fn declare() -> Declaration {
        let declaration = Declaration::new("resourceclaim-controller")
            .alias("resource-claim-controller")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("resource-claim-controller")
            .event_component("resource_claim")
            .concurrency(10, "concurrent-resourceclaim-syncs")
            .keys_indexed(POD_SOURCE, &[PODS], &[POD_INDEX])
            .queue("resource_claim")
            .keys_objects("resourceclaims", &[RESOURCE_CLAIMS])
            .queue("resource_claim")
            .read_with::<Pod>(with_pod_index)
            .read_with::<Claim>(|read| read.optional())
            .read_with::<Template>(|read| read.optional())
            .write(RESOURCE_CLAIMS, "", &["create", "patch", "delete"])
            .write(RESOURCE_CLAIMS, "status", &["patch"])
            // The API server asks for it when reservations or devices change.
            .write(RESOURCE_CLAIMS, "binding", &["patch"])
            .write(PODS, "status", &["patch"])
            // What is made has an owner reference that blocks the owner's deletion.
            .write(PODS, "finalizers", &["update"])
            .lookup_get(PODS, "");
        measures::declare(declaration)
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        if ctx.source() == POD_SOURCE {
            let pod = ctx.primary::<Pod>()?;
            return pod.map_or_else(|| Ok(Plan::new()), |pod| pod::reconcile(ctx, &pod));
        }
        let claim = ctx.primary::<Claim>()?;
        claim.map_or_else(|| Ok(Plan::new()), |claim| claim::reconcile(ctx, &claim))
    }
}

coxswain_sdk::export!(ResourceClaimController);
