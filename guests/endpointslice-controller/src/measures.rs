//! What is measured of the slices of services, under the names that kube-controller-manager has.
//!
//! The two families of a service add up.

use coxswain_sdk::contract::{Measure, Occasion};
use coxswain_sdk::endpoints::pack::{Packed, slices_for};
use coxswain_sdk::endpoints::service::Service;
use coxswain_sdk::{Declaration, Plan, buckets};

const ADDED: &str = "endpoint_slice_controller_endpoints_added_per_sync";
const REMOVED: &str = "endpoint_slice_controller_endpoints_removed_per_sync";
const DESIRED: &str = "endpoint_slice_controller_endpoints_desired";
const SLICES: &str = "endpoint_slice_controller_num_endpoint_slices";
const DESIRED_SLICES: &str = "endpoint_slice_controller_desired_endpoint_slices";
const CHANGES: &str = "endpoint_slice_controller_changes";
const CHANGED: &str = "endpoint_slice_controller_endpointslices_changed_per_sync";
const SYNCS: &str = "endpoint_slice_controller_syncs";
const DISTRIBUTIONS: &str = "endpoint_slice_controller_services_count_by_traffic_distribution";

/// Declares the metrics.
pub fn declare(declaration: Declaration) -> Declaration {
    let per_sync = buckets::exponential(2.0, 2.0, 15);
    declaration
        .histogram(ADDED, &[], &per_sync, "[BETA] Number of endpoints added on each Service sync")
        .histogram(REMOVED, &[], &per_sync, "[BETA] Number of endpoints removed on each Service sync")
        .gauge(DESIRED, &[], "[BETA] Number of endpoints desired")
        .gauge(SLICES, &[], "[BETA] Number of EndpointSlices")
        .gauge(
            DESIRED_SLICES,
            &[],
            "[BETA] Number of EndpointSlices that would exist with perfect endpoint allocation",
        )
        .counter(CHANGES, &["operation"], "[ALPHA] Number of EndpointSlice changes")
        .histogram(
            CHANGED,
            &["topology", "traffic_distribution"],
            &buckets::DEFAULT,
            "[ALPHA] Number of EndpointSlices changed on each Service sync",
        )
        .counter(SYNCS, &["result"], "[ALPHA] Number of EndpointSlice syncs")
        .gauge(
            DISTRIBUTIONS,
            &["traffic_distribution"],
            "[BETA] Number of Services using some specific trafficDistribution",
        )
}

/// Counts a sync, of whatever service.
pub fn sync(plan: &mut Plan) {
    for (occasion, result) in [(Occasion::Succeeded, "success"), (Occasion::Failed, "error")] {
        plan.measure_if(occasion, SYNCS, &[result], Measure::Number(1.0));
    }
}

/// What a service wants, and has once its plan is carried out.
#[derive(Debug, Default)]
pub struct Census {
    added: usize,
    removed: usize,
    desired: usize,
    slices: usize,
    desired_slices: usize,
}

impl Census {
    /// Counts one family. `groups` are the sizes of what is wanted with the same ports.
    pub fn add<A>(&mut self, packed: &Packed<A>, groups: &[usize], limit: usize) {
        self.added += packed.added;
        self.removed += packed.removed;
        self.desired += groups.iter().sum::<usize>();
        self.slices += packed.drafts.len() + packed.untouched.len();
        // There is always one, be it empty.
        self.desired_slices += groups.iter().map(|wanted| slices_for(*wanted, limit)).sum::<usize>().max(1);
    }

    /// Measures it. `changed` slices are written.
    pub fn measure(&self, plan: &mut Plan, service: &Service, changed: usize) {
        let parts = [
            (ADDED, self.added),
            (REMOVED, self.removed),
            (DESIRED, self.desired),
            (SLICES, self.slices),
            (DESIRED_SLICES, self.desired_slices),
        ];
        for (metric, number) in parts {
            plan.measure(metric, &[], number as f64);
        }
        for operation in ["create", "update", "delete"] {
            plan.measure_if(
                Occasion::Each(operation.to_owned()),
                CHANGES,
                &[operation],
                Measure::Number(1.0),
            );
        }
        let distribution = service.spec.traffic_distribution.as_deref();
        if let Some(distribution) = distribution {
            plan.measure(DISTRIBUTIONS, &[distribution], 1.0);
        }
        let labels = match service.metadata.annotations.is_auto() {
            true => ["Auto", ""],
            false => ["Disabled", distribution.unwrap_or_default()],
        };
        plan.measure_if(Occasion::Succeeded, CHANGED, &labels, Measure::Number(changed as f64));
    }
}
