//! The ephemeral volume controller: makes the claims of volumes that bring a
//! claim template.
//!
//! The claim is named after pod and volume and owned by the pod, so the garbage
//! collector takes it away. A claim of that name that belongs to somebody else
//! is reported and left alone. Nothing is kept.

mod view;

#[cfg(test)]
mod tests;

use std::time::Duration;

use coxswain_sdk::resource::{PERSISTENT_VOLUME_CLAIMS, PODS};
use coxswain_sdk::volumes::{is_made_for, not_made_for, template_claim_name};
use coxswain_sdk::{
    About, Action, Controller, Ctx, Declaration, Error, OwnerReference, Plan, Result, from_json,
};
use serde_json::value::RawValue;

use view::{Claim, Pod, Source};

const FAILED_BINDING: &str = "FailedBinding";

/// After so long a claim that is in the way is reported again.
const REMIND_AFTER: Duration = Duration::from_secs(1000);

/// Claims that were asked for, under kube-controller-manager's names.
const CREATES: &str = "ephemeral_volume_controller_create_total";
const CREATE_FAILURES: &str = "ephemeral_volume_controller_create_failures_total";

/// The controller.
#[derive(Debug)]
pub struct EphemeralVolumeController;

impl Controller for EphemeralVolumeController {
    fn declare() -> Declaration {
        // Every claim template has access modes.
        const TEMPLATES: &str = "spec.volumes[*].ephemeral.volumeClaimTemplate.spec.accessModes[*]";
        Declaration::new("ephemeral-volume-controller")
            .alias("ephemeral-volume")
            .version(env!("CARGO_PKG_VERSION"))
            .event_component("ephemeral_volume")
            .concurrency(5, "concurrent-ephemeralvolume-syncs")
            .keys_indexed("pods", &[PODS], &["claim-template"])
            .queue("ephemeral_volume")
            .counter(CREATES, &[], "[ALPHA] Number of PersistentVolumeClaim creation requests")
            .counter(CREATE_FAILURES, &[], "[ALPHA] Number of PersistentVolumeClaim creation requests")
            .read_with::<Pod>(|read| read.index("claim-template", &[TEMPLATES]))
            .read::<Claim>()
            .write(PERSISTENT_VOLUME_CLAIMS, "", &["create"])
            // What is made has an owner reference that blocks the owner's deletion.
            .write(PODS, "finalizers", &["update"])
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        let mut plan = Plan::new();
        let Some(pod) = ctx.primary::<Pod>()? else { return Ok(plan) };
        if pod.metadata.is_deleting() {
            return Ok(plan);
        }
        let about = About::of::<Pod, _>(&pod.metadata);
        for volume in &pod.spec.volumes {
            let Some(template) = &volume.ephemeral else { continue };
            let name = template_claim_name(&pod.metadata.name, &volume.name);
            let trouble = match ctx.get::<Claim>(&pod.metadata.namespace, &name)? {
                Some(claim) if is_made_for(&claim.metadata, &pod.metadata) => continue,
                Some(claim) => not_made_for(&claim.metadata, &pod.metadata),
                None => match create(&pod, &name, template) {
                    Ok(action) => {
                        let message =
                            format!("ephemeral volume {}: create PVC {name}: {{message}}", volume.name);
                        // A tag of its own, so that each is counted by what became of it.
                        let tag = format!("create {name}");
                        let action = action.tag(&tag).on_failure(about.warning(FAILED_BINDING, message));
                        plan.then(action);
                        plan.measure_tries(&tag, CREATES, CREATE_FAILURES, &[]);
                        continue;
                    }
                    Err(trouble) => trouble.to_string(),
                },
            };
            // Volumes after one that is in trouble have to wait.
            plan.event(about.warning(FAILED_BINDING, format!("ephemeral volume {}: {trouble}", volume.name)));
            plan.come_back(ctx.now() + REMIND_AFTER);
            break;
        }
        Ok(plan)
    }
}

fn create(pod: &Pod, name: &str, template: &RawValue) -> Result<Action> {
    let source: Source = from_json(template.get())
        .map_err(|e| Error::Terminal(format!("cannot read the claim template: {e}")))?;
    let meta = &pod.metadata;
    let owner = OwnerReference::controller(PODS, &meta.name, &meta.uid);
    let mut claim = source.volume_claim_template.claim(PERSISTENT_VOLUME_CLAIMS, &meta.namespace, owner);
    claim.metadata.name = Some(name);
    Action::create(PERSISTENT_VOLUME_CLAIMS, &meta.namespace, name, &claim)
}

coxswain_sdk::export!(EphemeralVolumeController);
