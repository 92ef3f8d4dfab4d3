//! The service CIDR controller: says that a ServiceCIDR is ready, and keeps it
//! until no address in use would be left without one.
//!
//! It keeps no state.

mod prefix;
mod reconcile;
#[cfg(test)]
mod tests;
mod view;

use coxswain_sdk::resource::SERVICE_CIDRS;
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Result};

pub use view::{IpAddress, ServiceCidr};

/// The controller.
#[derive(Debug)]
pub struct ServiceCidrController;

const NAME: &str = "service-cidr-controller";

impl Controller for ServiceCidrController {
    fn declare() -> Declaration {
        Declaration::new(NAME)
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("service-cidrs-controller")
            .concurrency(5, "")
            .keys_objects("servicecidrs", &[SERVICE_CIDRS])
            .queue("ipaddresses")
            .read::<ServiceCidr>()
            .read::<IpAddress>()
            .write(SERVICE_CIDRS, "", &["patch"])
            .write(SERVICE_CIDRS, "status", &["patch"])
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        reconcile::reconcile(ctx)
    }
}

coxswain_sdk::export!(ServiceCidrController);
