//! What is measured of nodes, under the names that kube-controller-manager has.

use coxswain_sdk::contract::{Measure, Occasion};
use coxswain_sdk::{Declaration, Plan, buckets};
use litemap::LiteMap;

use crate::zones::Census;

const EVICTIONS: &str = "node_collector_evictions_total";
const HEALTH: &str = "node_collector_zone_health";
const SIZE: &str = "node_collector_zone_size";
const UNHEALTHY: &str = "node_collector_unhealthy_nodes_in_zone";
const SECONDS: &str = "node_collector_update_all_nodes_health_duration_seconds";

/// Declares the metrics.
pub fn declare(declaration: Declaration) -> Declaration {
    declaration
        .counter(
            EVICTIONS,
            &["zone"],
            "[STABLE] Number of Node evictions that happened since current instance of NodeController started.",
        )
        .gauge(HEALTH, &["zone"], "[ALPHA] Gauge measuring percentage of healthy nodes per zone.")
        .gauge(SIZE, &["zone"], "[ALPHA] Gauge measuring number of registered Nodes per zones.")
        .gauge(UNHEALTHY, &["zone"], "[ALPHA] Gauge measuring number of not Ready Nodes per zones.")
        .histogram(
            SECONDS,
            &[],
            &buckets::exponential(0.01, 4.0, 8),
            "[ALPHA] Duration in seconds for NodeController to update the health of all nodes.",
        )
}

/// The label of a zone: as `k8s.io/component-helpers` joins region and zone, which has a NUL in the middle.
fn label(zone: &str) -> String {
    zone.split_once(':').map_or_else(String::new, |(region, zone)| [region, ":\0:", zone].concat())
}

/// Counts a node of a zone that is tainted, if the action of this tag is done.
pub fn eviction(plan: &mut Plan, tag: String, zone: &str) {
    plan.measure_if(Occasion::Done(tag), EVICTIONS, &[&label(zone)], Measure::Number(1.0));
}

/// Tells of all zones.
pub fn look(plan: &mut Plan, zones: &LiteMap<String, Census>) {
    for (zone, Census { ready, not_ready }) in zones {
        let label = label(zone);
        let size = (ready + not_ready) as f64;
        plan.measure(SIZE, &[&label], size);
        plan.measure(HEALTH, &[&label], 100.0 * *ready as f64 / size);
        plan.measure(UNHEALTHY, &[&label], *not_ready as f64);
        // What has not happened yet is a number too.
        plan.measure(EVICTIONS, &[&label], 0.0);
    }
    plan.measure_if(Occasion::Always, SECONDS, &[], Measure::Elapsed);
}
