//! Volumes that are directories of the node: for trying things out on one
//! machine. Only the object is made; the container runtime makes the directory.

use coxswain_sdk::resource::PERSISTENT_VOLUMES;
use coxswain_sdk::{About, Action, Ctx, Object, Plan, Result};
use serde_json::{Value, json};

use crate::bind::{claim_ref, patch_claim};
use crate::names::{
    BOUND_BY_CONTROLLER, IN_TREE_FINALIZER, PROVISIONED_BY, PROVISIONING_FAILED, PROVISIONING_SUCCEEDED,
};
use crate::options::Options;
use crate::plugin::HOST_PATH;
use crate::provision::provisioner_patch;
use crate::view::{Claim, Class, Volume};

const CREATED_BY: &str = "kubernetes.io/createdby";
const DELETE: &str = "Delete";

/// Makes a volume for a claim. Returns what is in the way.
pub fn provision(
    ctx: &Ctx<'_>,
    options: &Options,
    plan: &mut Plan,
    claim: &Object<Claim>,
    class: &Class,
) -> Result<Option<String>> {
    if claim.spec.data_source.is_some() {
        return Ok(Some(format!(
            "plugin {HOST_PATH:?} is not a CSI plugin. Only CSI plugin can provision a claim with a datasource"
        )));
    }
    // The claim says who was asked, as it would for anyone else.
    if let Some(body) = provisioner_patch(claim, HOST_PATH) {
        plan.then(patch_claim(claim, &body).tag("provisioner"));
    }
    let name = format!("pvc-{}", claim.metadata.uid);
    if ctx.get::<Volume>("", &name)?.is_some() {
        return Ok(None);
    }
    let class_name = &class.metadata.name;
    if !class.mount_options.is_empty() {
        return Ok(Some(format!(
            "Mount options are not supported by the provisioner but StorageClass {class_name:?} has mount \
             options [{}]",
            class.mount_options.join(" ")
        )));
    }
    if !options.host_path_provisioning {
        return Ok(Some(format!(
            "Failed to create provisioner: provisioning in volume plugin {HOST_PATH:?} is disabled"
        )));
    }
    if claim.spec.volume_mode.as_deref() == Some("Block") {
        return Ok(Some(format!(
            "Failed to provision volume with StorageClass {class_name:?}: {HOST_PATH} does not support block \
             volume provisioning"
        )));
    }
    let about = About::of::<Claim, _>(&claim.metadata);
    let made = format!("Successfully provisioned volume {name} using {HOST_PATH}");
    let meta = &claim.metadata;
    let failed = format!(
        "Error creating provisioned PV object for claim {}/{}: {{message}}. Deleting the volume.",
        meta.namespace, meta.name
    );
    let create = Action::create(PERSISTENT_VOLUMES, "", &name, &volume(&name, claim, class))?
        .tag("provision")
        .on_success(about.normal(PROVISIONING_SUCCEEDED, made))
        .on_failure(about.warning(PROVISIONING_FAILED, failed));
    plan.then(create);
    Ok(None)
}

fn volume(name: &str, claim: &Claim, class: &Class) -> Value {
    let spec = &claim.spec;
    let policy = class.reclaim_policy.as_deref().unwrap_or(DELETE);
    let once = vec!["ReadWriteOnce".to_owned()];
    let modes = if spec.access_modes.is_empty() { &once } else { &spec.access_modes };
    let mut volume = json!({
        "apiVersion": PERSISTENT_VOLUMES.api_version(),
        "kind": PERSISTENT_VOLUMES.kind,
        "metadata": {
            "name": name,
            "annotations": {
                CREATED_BY: "hostpath-dynamic-provisioner",
                BOUND_BY_CONTROLLER: "yes",
                PROVISIONED_BY: HOST_PATH,
            },
        },
        "spec": {
            "accessModes": modes,
            "capacity": spec.resources.requests,
            "claimRef": claim_ref(claim),
            "hostPath": { "path": format!("/tmp/hostpath_pv/{}", claim.metadata.uid) },
            "persistentVolumeReclaimPolicy": policy,
            "storageClassName": class.metadata.name,
        },
    });
    if policy == DELETE {
        volume["metadata"]["finalizers"] = json!([IN_TREE_FINALIZER]);
    }
    volume
}
