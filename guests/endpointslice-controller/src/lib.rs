//! The endpointslice controller: keeps slices of the pods behind each service.
//!
//! Packing and writing are [`coxswain_sdk::endpoints`]; here is what makes an
//! endpoint of a pod, and which zones and nodes it is meant for.
//!
//! State kept with a key, each a hint: what was last told about topology hints and
//! about pods left out, so that an event is not repeated with every reconcile (and
//! the end of such hints is told, which slices do not show once
//! `trafficDistribution` gives them as well); and that the namespace is being
//! deleted, which is seen only by being refused. Losing it costs an event told
//! twice or not at all, or one refused write.

mod desired;
mod hints;
mod measures;
mod memory;
mod reconcile;
#[cfg(test)]
mod tests;
mod trigger;
mod view;

use coxswain_sdk::contract::OptionKind;
use coxswain_sdk::endpoints::pod::Pod;
use coxswain_sdk::endpoints::service::Service;
use coxswain_sdk::resource::{ENDPOINT_SLICES, SERVICES};
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Result};

pub use view::{Node, Slice};

/// The controller.
#[derive(Debug)]
pub struct EndpointSliceController;

/// What its slices say about who manages them.
const MANAGER: &str = "endpointslice-controller.k8s.io";
const LIMIT: &str = "max-endpoints-per-slice";
const BATCH: &str = "endpointslice-updates-batch-period";

impl Controller for EndpointSliceController {
    fn declare() -> Declaration {
        let declaration = Declaration::new("endpointslice-controller")
            .alias("endpointslice")
            .version(env!("CARGO_PKG_VERSION"))
            .state_format(1, &[])
            .event_component("endpoint-slice-controller")
            .concurrency(5, "concurrent-service-endpoint-syncs")
            .option(LIMIT, OptionKind::Integer, "100", "Endpoints in a slice at most, from 1 to 1000")
            .option(
                BATCH,
                OptionKind::Duration,
                "0s",
                "How long changes of pods are gathered after a slice was written",
            )
            .keys_objects("services", &[SERVICES])
            .queue("endpoint_slice")
            .read::<Service>()
            .read::<Pod>()
            .read::<Node>()
            .read::<Slice>()
            .write(ENDPOINT_SLICES, "", &["create", "patch", "delete"])
            // What is made has an owner reference that blocks the owner's deletion.
            .write(SERVICES, "finalizers", &["update"]);
        measures::declare(declaration)
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        let mut plan = reconcile::reconcile(ctx)?;
        measures::sync(&mut plan);
        Ok(plan)
    }
}

coxswain_sdk::export!(EndpointSliceController);
