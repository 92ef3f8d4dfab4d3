//! The endpointslice mirroring controller: slices of Endpoints that somebody
//! made by hand for a service without a selector.
//!
//! State kept with a key, each a hint: what was last told about addresses that
//! were left out, so that an event is not repeated with every reconcile; and that
//! the namespace is being deleted, which is seen only by being refused. Losing it
//! costs an event told twice, or one refused write.

mod desired;
mod measures;
mod memory;
mod reconcile;
#[cfg(test)]
mod tests;
mod view;

use coxswain_sdk::contract::OptionKind;
use coxswain_sdk::resource::{ENDPOINT_SLICES, ENDPOINTS};
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Result};

pub use view::{EndpointsObject, Service, Slice};

/// The controller.
#[derive(Debug)]
pub struct EndpointSliceMirroringController;

/// What its slices say about who manages them.
const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
const LIMIT: &str = "mirroring-max-endpoints-per-subset";
const BATCH: &str = "mirroring-endpointslice-updates-batch-period";
/// Key source of the services that have slices, as `namespace/manager/service`.
const SLICES: &str = "slices";

impl Controller for EndpointSliceMirroringController {
    fn declare() -> Declaration {
        let declaration = Declaration::new("endpointslice-mirroring-controller")
            .alias("endpointslicemirroring")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("endpointslicemirroring-controller")
            .state_format(1, &[])
            .event_component("endpoint-slice-mirroring-controller")
            .concurrency(5, "mirroring-concurrent-service-endpoint-syncs")
            .option(
                LIMIT,
                OptionKind::Integer,
                "1000",
                "Addresses of a subset mirrored at most, from 1 to 1000",
            )
            .option(
                BATCH,
                OptionKind::Duration,
                "0s",
                "How long changes of slices are gathered after slices were written",
            )
            .keys_objects("endpoints", &[ENDPOINTS])
            .queue("endpoint_slice_mirroring")
            .keys_index_values(SLICES, ENDPOINT_SLICES, "service")
            .queue("endpoint_slice_mirroring")
            .read::<EndpointsObject>()
            .read::<Service>()
            .read_with::<Slice>(|read| {
                read.index(
                    "service",
                    &[
                        "metadata.namespace",
                        "metadata.labels.\"endpointslice.kubernetes.io/managed-by\"",
                        "metadata.labels.\"kubernetes.io/service-name\"",
                    ],
                )
            })
            .write(ENDPOINT_SLICES, "", &["create", "patch", "delete"])
            // What is made has an owner reference that blocks the owner's deletion.
            .write(ENDPOINTS, "finalizers", &["update"]);
        measures::declare(declaration)
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        let mut plan =
            if ctx.source() == SLICES { reconcile::orphans(ctx)? } else { reconcile::reconcile(ctx)? };
        measures::sync(&mut plan);
        Ok(plan)
    }
}

coxswain_sdk::export!(EndpointSliceMirroringController);
