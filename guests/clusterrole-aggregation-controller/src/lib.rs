//! The clusterrole aggregation controller: gives a ClusterRole that asks for it
//! the rules of those that its selectors find.
//!
//! It keeps no state.

mod reconcile;
#[cfg(test)]
mod tests;
mod view;

use coxswain_sdk::resource::CLUSTER_ROLES;
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Result};

pub use view::ClusterRole;

/// The controller.
#[derive(Debug)]
pub struct ClusterRoleAggregationController;

const NAME: &str = "clusterrole-aggregation-controller";

impl Controller for ClusterRoleAggregationController {
    fn declare() -> Declaration {
        Declaration::new(NAME)
            .alias("clusterrole-aggregation")
            .version(env!("CARGO_PKG_VERSION"))
            .concurrency(5, "")
            .keys_objects("clusterroles", &[CLUSTER_ROLES])
            .queue("ClusterRoleAggregator")
            .read::<ClusterRole>()
            // Without `escalate` it could gather no rule that it does not have itself.
            .write(CLUSTER_ROLES, "", &["patch", "escalate"])
            .lookup_get(CLUSTER_ROLES, "")
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        reconcile::reconcile(ctx)
    }
}

coxswain_sdk::export!(ClusterRoleAggregationController);
