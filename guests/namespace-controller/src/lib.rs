//! The namespace controller: empties namespaces that are being deleted, and
//! lets them go.
//!
//! Pods go first, then all the rest at once. The cache tells what is left and
//! wakes us as it goes, so nothing is polled that is watched; before a namespace
//! is let go, the API server is asked whether it is really empty. Five
//! conditions tell what holds one up. Nothing is kept between reconciles.

mod conditions;
mod content;
mod discovery;
mod kinds;
mod reconcile;
#[cfg(test)]
mod tests;
mod view;

use coxswain_sdk::contract::{LookupRule, OptionKind};
use coxswain_sdk::resource::{EVERY, NAMESPACES};
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Result};

use view::{ApiService, Item, Namespace, Pod};

const SYNC_PERIOD: &str = "namespace-sync-period";

/// The controller.
#[derive(Debug)]
pub struct NamespaceController;

impl Controller for NamespaceController {
    fn declare() -> Declaration {
        Declaration::new("namespace-controller")
            .alias("namespace")
            .version(env!("CARGO_PKG_VERSION"))
            .concurrency(10, "concurrent-namespace-syncs")
            .client_limits(20, 100)
            .keys_indexed("namespaces", &[NAMESPACES], &["deleting"])
            .queue("namespace")
            .read::<Namespace>()
            .read::<Pod>()
            .read_with::<ApiService>(|read| read.optional())
            .read::<Item>()
            .write(EVERY, "", &["delete", "deletecollection"])
            .write(NAMESPACES, "status", &["patch"])
            .write(NAMESPACES, "finalize", &["update"])
            .lookup_get(NAMESPACES, "")
            .lookup_list(EVERY)
            .lookup(LookupRule::Raw("/apis/".to_owned()))
            .option(
                SYNC_PERIOD,
                OptionKind::Duration,
                "5m",
                "how long a namespace that is being deleted may go without another look",
            )
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        reconcile::reconcile(ctx)
    }
}

coxswain_sdk::export!(NamespaceController);
