//! What is measured of StatefulSets, under the names that
//! kube-controller-manager has: only with the feature gate that lets several
//! pods be unavailable.

use coxswain_sdk::{Declaration, Plan};

use crate::members::Members;
use crate::update::Update;

const MAX_UNAVAILABLE: &str = "statefulset_controller_statefulset_max_unavailable";
const UNAVAILABLE: &str = "statefulset_controller_statefulset_unavailable_replicas";

/// Declares the metrics.
pub fn declare(declaration: Declaration) -> Declaration {
    let labels = ["statefulset_namespace", "statefulset_name", "pod_management_policy"];
    declaration
        .gauge(
            MAX_UNAVAILABLE,
            &labels,
            "[ALPHA] Maximum number of unavailable pods allowed during StatefulSet rolling updates",
        )
        .gauge(UNAVAILABLE, &labels, "[ALPHA] Current number of unavailable pods in StatefulSet")
}

/// Tells how many pods are unavailable, and how many may be. Of a set that is
/// not updated on its own the former is of no account.
pub fn tell(plan: &mut Plan, update: &Update<'_>, members: &Members) {
    let set = update.set;
    let labels = [&*set.metadata.namespace, &*set.metadata.name, set.pod_management_policy()];
    plan.measure(MAX_UNAVAILABLE, &labels, set.max_unavailable() as f64);
    if !set.updates_on_delete() {
        plan.measure(UNAVAILABLE, &labels, update.unavailable(members) as f64);
    }
}
