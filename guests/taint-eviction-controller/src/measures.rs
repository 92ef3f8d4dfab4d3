//! What is measured of deletions, under the names that kube-controller-manager has.

use std::time::Duration;

use coxswain_sdk::contract::{Measure, Occasion};
use coxswain_sdk::{Declaration, Plan};

const DELETIONS: &str = "taint_eviction_controller_pod_deletions_total";
const SECONDS: &str = "taint_eviction_controller_pod_deletion_duration_seconds";

/// Declares the metrics.
pub fn declare(declaration: Declaration) -> Declaration {
    // 5 ms to 4 minutes.
    let buckets = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0];
    declaration
        .counter(DELETIONS, &[], "[ALPHA] Total number of Pods deleted by TaintEvictionController since its start.")
        .histogram(
            SECONDS,
            &[],
            &buckets,
            "[ALPHA] Latency, in seconds, between the time when a taint effect has been activated for the Pod and its deletion via TaintEvictionController.",
        )
}

/// Counts a deletion, if it succeeds; `late` is how long the pod has been due, where it could stay for a while.
pub fn deletion(plan: &mut Plan, tag: &str, late: Option<Duration>) {
    let took = late.map_or(Measure::Elapsed, |late| Measure::Number(late.as_secs_f64()));
    plan.measure_if(Occasion::Done(tag.to_owned()), DELETIONS, &[], Measure::Number(1.0));
    plan.measure_if(Occasion::Done(tag.to_owned()), SECONDS, &[], took);
}
