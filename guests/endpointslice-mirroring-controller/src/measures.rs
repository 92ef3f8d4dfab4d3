//! What is measured of mirrored slices, under the names that kube-controller-manager has.

use coxswain_sdk::contract::{Measure, Occasion};
use coxswain_sdk::endpoints::pack::{Packed, slices_for};
use coxswain_sdk::{Declaration, Plan, buckets};

const ADDED: &str = "endpoint_slice_mirroring_controller_endpoints_added_per_sync";
const UPDATED: &str = "endpoint_slice_mirroring_controller_endpoints_updated_per_sync";
const REMOVED: &str = "endpoint_slice_mirroring_controller_endpoints_removed_per_sync";
const SKIPPED: &str = "endpoint_slice_mirroring_controller_addresses_skipped_per_sync";
const SECONDS: &str = "endpoint_slice_mirroring_controller_endpoints_sync_duration";
const DESIRED: &str = "endpoint_slice_mirroring_controller_endpoints_desired";
const SLICES: &str = "endpoint_slice_mirroring_controller_num_endpoint_slices";
const DESIRED_SLICES: &str = "endpoint_slice_mirroring_controller_desired_endpoint_slices";
const CHANGES: &str = "endpoint_slice_mirroring_controller_changes";

/// Declares the metrics.
pub fn declare(declaration: Declaration) -> Declaration {
    let per_sync = buckets::exponential(2.0, 2.0, 15);
    declaration
        .histogram(ADDED, &[], &per_sync, "[ALPHA] Number of endpoints added on each Endpoints sync")
        .histogram(UPDATED, &[], &per_sync, "[ALPHA] Number of endpoints updated on each Endpoints sync")
        .histogram(REMOVED, &[], &per_sync, "[ALPHA] Number of endpoints removed on each Endpoints sync")
        .histogram(
            SKIPPED,
            &[],
            &per_sync,
            "[ALPHA] Number of addresses skipped on each Endpoints sync due to being invalid or exceeding MaxEndpointsPerSubset",
        )
        .histogram(
            SECONDS,
            &[],
            &buckets::exponential(0.001, 2.0, 15),
            "[ALPHA] Duration of syncEndpoints() in seconds",
        )
        .gauge(DESIRED, &[], "[ALPHA] Number of endpoints desired")
        .gauge(SLICES, &[], "[ALPHA] Number of EndpointSlices")
        .gauge(
            DESIRED_SLICES,
            &[],
            "[ALPHA] Number of EndpointSlices that would exist with perfect endpoint allocation",
        )
        .counter(CHANGES, &["operation"], "[ALPHA] Number of EndpointSlice changes")
}

/// Measures a sync, and what it writes.
pub fn sync(plan: &mut Plan) {
    plan.measure_if(Occasion::Always, SECONDS, &[], Measure::Elapsed);
    for operation in ["create", "update", "delete"] {
        plan.measure_if(Occasion::Each(operation.to_owned()), CHANGES, &[operation], Measure::Number(1.0));
    }
}

/// Measures an Endpoints object that is mirrored. `groups` are the sizes of what is wanted in one slice each.
pub fn census<A>(plan: &mut Plan, packed: &Packed<A>, groups: &[usize], skipped: usize, limit: usize) {
    let slices: usize = groups.iter().map(|wanted| slices_for(*wanted, limit)).sum();
    let parts = [
        (ADDED, packed.added),
        (UPDATED, packed.updated),
        (REMOVED, packed.removed),
        (SKIPPED, skipped),
        (DESIRED, groups.iter().sum()),
        (SLICES, packed.drafts.len() + packed.untouched.len()),
        (DESIRED_SLICES, slices),
    ];
    for (metric, number) in parts {
        plan.measure(metric, &[], number as f64);
    }
}
