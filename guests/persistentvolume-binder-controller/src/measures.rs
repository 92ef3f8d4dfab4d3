//! What is measured of volumes and claims, under the names that kube-controller-manager has.

use coxswain_sdk::{Declaration, Plan};

use crate::class;
use crate::names::BOUND;
use crate::view::{Claim, Volume};

const VOLUMES: &str = "pv_collector_total_pv_count";
const BOUND_VOLUMES: &str = "pv_collector_bound_pv_count";
const UNBOUND_VOLUMES: &str = "pv_collector_unbound_pv_count";
const BOUND_CLAIMS: &str = "pv_collector_bound_pvc_count";
const UNBOUND_CLAIMS: &str = "pv_collector_unbound_pvc_count";
const RETROACTIVE: &str = "retroactive_storageclass_total";
const RETROACTIVE_ERRORS: &str = "retroactive_storageclass_errors_total";
const ERRORS: &str = "volume_operation_errors_total";

/// Tag of the write that gives a claim the default class.
pub const DEFAULT_CLASS: &str = "default-class";

/// Declares the metrics.
pub fn declare(declaration: Declaration) -> Declaration {
    let of_claims = ["namespace", "storage_class", "volume_attributes_class"];
    declaration
        .gauge(
            VOLUMES,
            &["plugin_name", "volume_mode"],
            "[ALPHA] Gauge measuring total number of persistent volumes",
        )
        .gauge(
            BOUND_VOLUMES,
            &["storage_class"],
            "[ALPHA] Gauge measuring number of persistent volume currently bound",
        )
        .gauge(
            UNBOUND_VOLUMES,
            &["storage_class"],
            "[ALPHA] Gauge measuring number of persistent volume currently unbound",
        )
        .gauge(
            BOUND_CLAIMS,
            &of_claims,
            "[ALPHA] Gauge measuring number of persistent volume claim currently bound",
        )
        .gauge(
            UNBOUND_CLAIMS,
            &of_claims,
            "[ALPHA] Gauge measuring number of persistent volume claim currently unbound",
        )
        .counter(
            RETROACTIVE,
            &[],
            "[ALPHA] Total number of retroactive StorageClass assignments to persistent volume claim",
        )
        .counter(
            RETROACTIVE_ERRORS,
            &[],
            "[ALPHA] Total number of failed retroactive StorageClass assignments to persistent volume claim",
        )
        .counter(ERRORS, &["plugin_name", "operation_name"], "[ALPHA] Total volume operation errors")
}

/// Tells of a volume.
pub fn volume(plan: &mut Plan, volume: &Volume) {
    let spec = &volume.spec;
    plan.measure(VOLUMES, &[&plugin(volume), spec.volume_mode.as_deref().unwrap_or("Filesystem")], 1.0);
    let metric = if volume.status.phase == BOUND { BOUND_VOLUMES } else { UNBOUND_VOLUMES };
    plan.measure(metric, &[&spec.storage_class_name], 1.0);
}

/// What serves a volume, among what the manager of a cluster without cloud knows.
fn plugin(volume: &Volume) -> String {
    let spec = &volume.spec;
    if let Some(csi) = &spec.csi {
        format!("kubernetes.io/csi:{}", csi.driver)
    } else if spec.host_path.is_some() {
        crate::plugin::HOST_PATH.to_owned()
    } else if spec.nfs.is_some() {
        "kubernetes.io/nfs".to_owned()
    } else if spec.fc.is_some() {
        "kubernetes.io/fc".to_owned()
    } else if spec.iscsi.is_some() {
        "kubernetes.io/iscsi".to_owned()
    } else {
        "N/A".to_owned()
    }
}

/// Tells of a claim.
pub fn claim(plan: &mut Plan, claim: &Claim) {
    let metric = if claim.status.phase == BOUND { BOUND_CLAIMS } else { UNBOUND_CLAIMS };
    let attributes = claim.spec.volume_attributes_class_name.as_deref().unwrap_or_default();
    plan.measure(metric, &[&claim.metadata.namespace, class::of_claim(claim), attributes], 1.0);
}

/// Counts that a claim gets the default class, or does not.
pub fn retroactive(plan: &mut Plan) {
    plan.measure_tries(DEFAULT_CLASS, RETROACTIVE, RETROACTIVE_ERRORS, &[]);
}

/// Counts that a volume could not be deleted.
pub fn undeleted(plan: &mut Plan, volume: &Volume) {
    let plugin = if volume.spec.host_path.is_some() { crate::plugin::HOST_PATH } else { "N/A" };
    plan.measure(ERRORS, &[plugin, "delete"], 1.0);
}

/// Counts that no directory could be provisioned.
pub fn unprovisioned(plan: &mut Plan) {
    plan.measure(ERRORS, &[crate::plugin::HOST_PATH, "provision"], 1.0);
}
