//! The endpoints controller: keeps one Endpoints object for each service, for
//! those who do not read slices yet.
//!
//! State kept with a key, a hint: that the namespace is being deleted, which is
//! seen only by being refused. Losing it costs one more refused write.
//!
//! An Endpoints object goes with its service. One that lost its service while
//! nobody looked goes too if its label says that a controller made it; one made by
//! hand stays, since nothing tells it from one that waits for its service.

mod capacity;
mod desired;
mod leftover;
mod reconcile;
#[cfg(test)]
mod tests;
mod view;

use coxswain_sdk::contract::OptionKind;
use coxswain_sdk::endpoints::pod::Pod;
use coxswain_sdk::endpoints::service::Service;
use coxswain_sdk::resource::{ENDPOINTS, SERVICES};
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Result};

pub use view::EndpointsObject;

/// The controller.
#[derive(Debug)]
pub struct EndpointsController;

/// The label of what it made, and its value.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";
const BATCH: &str = "endpoint-updates-batch-period";
/// Key source of Endpoints that a controller made.
const MADE: &str = "made";

impl Controller for EndpointsController {
    fn declare() -> Declaration {
        Declaration::new("endpoints-controller")
            .alias("endpoint")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("endpoint-controller")
            .state_format(1, &[])
            .event_component("endpoint-controller")
            .concurrency(5, "concurrent-endpoint-syncs")
            .option(
                BATCH,
                OptionKind::Duration,
                "0s",
                "How long changes of pods are gathered after endpoints were written",
            )
            .keys_objects("services", &[SERVICES])
            .queue("endpoint")
            .keys_indexed(MADE, &[ENDPOINTS], &["managed-by"])
            .queue("endpoint")
            .read::<Service>()
            .read::<Pod>()
            .read_with::<EndpointsObject>(|read| {
                read.index("managed-by", &["metadata.labels.\"endpoints.kubernetes.io/managed-by\""])
            })
            .write(ENDPOINTS, "", &["create", "patch", "delete"])
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        if ctx.source() == MADE { leftover::reconcile(ctx) } else { reconcile::reconcile(ctx) }
    }
}

coxswain_sdk::export!(EndpointsController);
