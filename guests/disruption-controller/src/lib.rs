//! The disruption controller: says how many pods of each PodDisruptionBudget may
//! be evicted.
//!
//! * `budgets`: a PodDisruptionBudget, the pods it selects and how many their
//!   owners want. Out: its status, which the eviction API obeys. Whatever goes
//!   wrong sets `disruptionsAllowed` to 0, so that nothing is evicted on a count
//!   that nobody could make.
//! * `conditions`: pods that were marked as about to be disrupted and were not.
//!   The mark is taken back after two minutes.
//! * `namespaces`: pods that several budgets select are told so.
//!
//! How many pods are wanted comes from ReplicationControllers, ReplicaSets,
//! Deployments and StatefulSets in the cache, and from the scale subresource of
//! any other kind of owner, which is asked for anew each time.
//!
//! State: `namespaces` keeps which pods were told, lest they be told with every
//! change. Lost, they are told once more. Nothing else is kept.
//!
//! Rules: <https://kubernetes.io/docs/concepts/workloads/pods/disruptions/>.

mod budget;
mod expected;
mod overlap;
mod owners;
mod stale;
mod status;
#[cfg(test)]
mod tests;
mod view;

use coxswain_sdk::contract::LookupRule;
use coxswain_sdk::resource::{EVERY, POD_DISRUPTION_BUDGETS, PODS};
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Result};

pub use view::{Budget, Pod};

const BUDGETS: &str = "budgets";
const CONDITIONS: &str = "conditions";
const BY_CONDITION: &str = "condition";

/// The controller.
#[derive(Debug)]
pub struct DisruptionController;

impl Controller for DisruptionController {
    fn declare() -> Declaration {
        Declaration::new("disruption-controller")
            .alias("disruption")
            .version(env!("CARGO_PKG_VERSION"))
            .state_format(2, &[])
            .event_component("controllermanager")
            .keys_objects(BUDGETS, &[POD_DISRUPTION_BUDGETS])
            .queue("disruption")
            .keys_index_values(CONDITIONS, PODS, BY_CONDITION)
            .queue("stale_pod_disruption")
            .keys_index_values("namespaces", POD_DISRUPTION_BUDGETS, "namespace")
            .queue("disruption")
            .read::<Budget>()
            .read_with::<Pod>(|read| read.index(BY_CONDITION, &["status.conditions[*].type"]))
            .read::<view::ReplicationController>()
            .read::<view::ReplicaSet>()
            .read::<view::Deployment>()
            .read::<view::StatefulSet>()
            .write(POD_DISRUPTION_BUDGETS, "status", &["patch"])
            .write(PODS, "status", &["patch"])
            .lookup_get(EVERY, "scale")
            .lookup(LookupRule::Raw("/api".to_owned()))
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        match ctx.source() {
            BUDGETS => budget::reconcile(ctx),
            CONDITIONS => stale::reconcile(ctx),
            _ => overlap::reconcile(ctx),
        }
    }
}

coxswain_sdk::export!(DisruptionController);
