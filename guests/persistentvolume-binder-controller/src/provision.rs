//! Handing a claim over to whoever provisions volumes of its class.

use coxswain_sdk::migration::{PREFIX, driver_of};
use coxswain_sdk::{About, Ctx, Object, Plan, Result};
use serde_json::{Value, json};

use crate::bind::patch_claim;
use crate::names::{BETA_PROVISIONER, EXTERNAL_PROVISIONING, MIGRATED_TO, PROVISIONER, PROVISIONING_FAILED};
use crate::notice;
use crate::options::Options;
use crate::view::{Claim, Class};
use crate::{host_path, measures, plugin};

/// Asks for a volume. Returns whether there is nothing to tell the user.
pub fn provision(
    ctx: &Ctx<'_>,
    options: &Options,
    plan: &mut Plan,
    claim: &Object<Claim>,
    class_name: &str,
) -> Result<bool> {
    if !options.dynamic_provisioning {
        return Ok(true);
    }
    let about = About::of::<Claim, _>(&claim.metadata);
    let fail = |plan: &mut Plan, text: String| {
        let event = about.warning(PROVISIONING_FAILED, text.clone());
        notice::tell(ctx, plan, options.sync_period, &format!("{PROVISIONING_FAILED} {text}"), vec![event]);
        Ok(false)
    };
    let Some(class) = ctx.get::<Class>("", class_name)? else {
        return fail(plan, format!("storageclass.storage.k8s.io {class_name:?} not found"));
    };
    let provisioner = class.provisioner.as_str();
    if let Some(driver) = driver_of(provisioner) {
        return hand_over(ctx, options, plan, claim, driver);
    }
    if !provisioner.starts_with(PREFIX) {
        return hand_over(ctx, options, plan, claim, provisioner);
    }
    let trouble = match plugin::refuses_to_provision(provisioner) {
        Some(text) => Some(text),
        None => {
            let trouble = host_path::provision(ctx, options, plan, claim, &class)?;
            if trouble.is_some() {
                measures::unprovisioned(plan);
            }
            trouble
        }
    };
    match trouble {
        Some(text) => fail(plan, text),
        None => Ok(true),
    }
}

fn hand_over(
    ctx: &Ctx<'_>,
    options: &Options,
    plan: &mut Plan,
    claim: &Object<Claim>,
    provisioner: &str,
) -> Result<bool> {
    let about = About::of::<Claim, _>(&claim.metadata);
    let text = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually \
         by the system administrator. If volume creation is delayed, please verify that the provisioner is \
         running and correctly registered."
    );
    let event = about.normal(EXTERNAL_PROVISIONING, text);
    match provisioner_patch(claim, provisioner) {
        Some(body) => {
            let failed = about.warning(PROVISIONING_FAILED, "Error saving claim: {message}");
            let action = patch_claim(claim, &body).tag("provisioner").on_success(event).on_failure(failed);
            plan.then(action);
            notice::remember(plan, ctx.now(), &what(provisioner));
            plan.come_back(ctx.now() + options.sync_period);
        }
        None => notice::tell(ctx, plan, options.sync_period, &what(provisioner), vec![event]),
    }
    Ok(false)
}

fn what(provisioner: &str) -> String {
    format!("{EXTERNAL_PROVISIONING} {provisioner}")
}

/// The annotations that tell a provisioner to begin; None if they are there.
pub fn provisioner_patch(claim: &Claim, provisioner: &str) -> Option<Value> {
    let there = &claim.metadata.annotations;
    if there.provisioner.as_deref() == Some(provisioner) {
        return None;
    }
    let mut annotations = json!({ PROVISIONER: provisioner, BETA_PROVISIONER: provisioner });
    if there.migrated_to.is_some() && driver_of(provisioner).is_none() {
        annotations[MIGRATED_TO] = Value::Null;
    }
    Some(json!({ "metadata": { "annotations": annotations } }))
}
