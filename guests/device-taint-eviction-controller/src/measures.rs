//! What is measured of deletions, under the names that kube-controller-manager has.

use std::time::Duration;

use coxswain_sdk::contract::{Measure, Occasion};
use coxswain_sdk::{Declaration, Plan};

const DELETIONS: &str = "device_taint_eviction_controller_pod_deletions_total";
const SECONDS: &str = "device_taint_eviction_controller_pod_deletion_duration_seconds";

/// Declares the metrics.
pub fn declare(declaration: Declaration) -> Declaration {
    // 5 ms to 4 minutes.
    let buckets = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0];
    declaration
        .counter(DELETIONS, &[], "[ALPHA] Total number of Pods deleted by DeviceTaintEvictionController since its start.")
        .histogram(
            SECONDS,
            &[],
            &buckets,
            "[ALPHA] Latency, in seconds, between the time when a device taint effect has been activated and a Pod's deletion via DeviceTaintEvictionController.",
        )
}

/// Counts the deletion of this tag, if it succeeds, of a pod that has been due for so long.
pub fn deletion(plan: &mut Plan, tag: &str, late: Duration) {
    plan.measure_if(Occasion::Done(tag.to_owned()), DELETIONS, &[], Measure::Number(1.0));
    plan.measure_if(Occasion::Done(tag.to_owned()), SECONDS, &[], Measure::Number(late.as_secs_f64()));
}
