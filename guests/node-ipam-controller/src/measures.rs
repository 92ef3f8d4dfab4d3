//! What is measured of ranges, under the names that kube-controller-manager has.
//!
//! A share counts as given once a node is seen to have it, so what is refused is
//! not counted, but as a request; those that are taken when the controller starts
//! count as well.

use coxswain_sdk::{Declaration, Plan};

use crate::range::{Range, Taken};

const GIVEN: &str = "node_ipam_controller_cidrset_cidrs_allocations_total";
const RELEASED: &str = "node_ipam_controller_cidrset_cidrs_releases_total";
// Spelled as it is there.
const MOST: &str = "node_ipam_controller_cirdset_max_cidrs";
const USAGE: &str = "node_ipam_controller_cidrset_usage_cidrs";
const TRIES: &str = "node_ipam_controller_cidrset_allocation_tries_per_request";

/// Declares the metrics.
pub fn declare(declaration: Declaration) -> Declaration {
    let labels = ["clusterCIDR"];
    declaration
        .counter(GIVEN, &labels, "[ALPHA] Counter measuring total number of CIDR allocations.")
        .counter(RELEASED, &labels, "[ALPHA] Counter measuring total number of CIDR releases.")
        .gauge(MOST, &labels, "[ALPHA] Maximum number of CIDRs that can be allocated.")
        .gauge(USAGE, &labels, "[ALPHA] Gauge measuring percentage of allocated CIDRs.")
        .histogram(
            TRIES,
            &labels,
            &[1.0, 5.0, 25.0, 125.0, 625.0],
            // It tells of something else, as it does there.
            "[ALPHA] Number of endpoints added on each Service sync",
        )
}

/// Tells what is taken of a range, and what has changed since.
pub fn usage(plan: &mut Plan, range: &Range, before: &Taken, taken: &Taken) {
    let label = range.whole.to_string();
    let both = before.shared_with(taken);
    for (metric, number) in [(GIVEN, taken.len() - both), (RELEASED, before.len() - both)] {
        if number > 0 {
            plan.measure(metric, &[&label], number as f64);
        }
    }
    plan.measure(MOST, &[&label], range.shares() as f64);
    plan.measure(USAGE, &[&label], taken.len() as f64 / range.shares() as f64);
}

/// Tells how many shares were passed over for one that is to be given.
pub fn tries(plan: &mut Plan, range: &Range, passed: u64) {
    plan.measure(TRIES, &[&range.whole.to_string()], passed as f64);
}
