//! The resource quota controller: keeps the status of ResourceQuotas at what
//! their namespaces use.
//!
//! The API server charges for what is created; this controller gives back what
//! is gone, counts what was there before the quota, and corrects the rest. It
//! counts pods, services, claims of volumes and of devices in their own ways,
//! and the objects of any other namespaced resource. A resource that cannot be
//! read keeps the last count and stops no other.
//!
//! Kept between reconciles, as a hint: see [`drift`].

mod drift;
mod evaluators;
mod list;
mod reconcile;
mod scopes;
#[cfg(test)]
mod tests;
mod usage;
mod view;

use coxswain_sdk::contract::OptionKind;
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Result};

use coxswain_sdk::resource::RESOURCE_QUOTAS;
use evaluators::claims::Claim;
use evaluators::devices::{DeviceClaim, DeviceClass};
use evaluators::pod_view::Pod;
use evaluators::services::Service;
use usage::Anything;
use view::ResourceQuota;

const SYNC_PERIOD: &str = "resource-quota-sync-period";

/// The controller.
#[derive(Debug)]
pub struct ResourceQuotaController;

impl Controller for ResourceQuotaController {
    fn declare() -> Declaration {
        Declaration::new("resourcequota-controller")
            .alias("resourcequota")
            .version(env!("CARGO_PKG_VERSION"))
            .state_format(1, &[])
            .concurrency(5, "concurrent-resource-quota-syncs")
            .keys_objects("resourcequotas", &[RESOURCE_QUOTAS])
            .queue("resourcequota_primary")
            .read::<ResourceQuota>()
            .read::<Pod>()
            .read::<Service>()
            .read::<Claim>()
            .read_with::<DeviceClaim>(|read| read.optional())
            .read_with::<DeviceClass>(|read| read.optional())
            .read::<Anything>()
            .write(RESOURCE_QUOTAS, "status", &["patch"])
            .option(
                SYNC_PERIOD,
                OptionKind::Duration,
                "5m",
                "how long the status of a quota may differ from what is counted",
            )
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        reconcile::reconcile(ctx)
    }
}

coxswain_sdk::export!(ResourceQuotaController);
