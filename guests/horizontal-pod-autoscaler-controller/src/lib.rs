//! The horizontal pod autoscaler: sets the number of replicas of whatever has a
//! scale subresource by what its metrics say.
//!
//! An autoscaler is looked at once in each sync period, counted from its
//! creation; a change of it, or of a pod, does not hasten that. All it needs is
//! asked for then: the target's scale, and one answer of a metrics API for each
//! metric.
//!
//! State: the recommendations and the scalings of the windows that the rules
//! look back on, and when it was last looked at. It is a hint: nothing of the
//! cluster tells what was recommended and not done. Lost, the size at that
//! moment counts as the first recommendation, so that nothing shrinks before a
//! whole window has passed again.
//!
//! Rules: <https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/>.

mod calc;
mod fetch;
mod measures;
mod memory;
mod metrics;
mod reconcile;
mod rules;
mod status;
mod target;
#[cfg(test)]
mod tests;
mod view;

use coxswain_sdk::contract::{LookupRule, OptionKind};
use coxswain_sdk::resource::EVERY;
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Resource, Result};

pub use view::{Autoscaler, Pod};

/// HorizontalPodAutoscalers.
pub const AUTOSCALERS: Resource =
    Resource::new("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler");

/// The controller.
#[derive(Debug)]
pub struct HorizontalPodAutoscalerController;

impl Controller for HorizontalPodAutoscalerController {
    fn declare() -> Declaration {
        let flag = |declaration: Declaration, name: &str, kind, default, help| {
            declaration.option(&["horizontal-pod-autoscaler-", name].concat(), kind, default, help)
        };
        let declaration = Declaration::new("horizontal-pod-autoscaler-controller")
            .alias("horizontalpodautoscaling")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("horizontal-pod-autoscaler")
            .state_format(1, &[])
            .event_component("horizontal-pod-autoscaler")
            .concurrency(5, "concurrent-horizontal-pod-autoscaler-syncs")
            .keys_objects("autoscalers", &[AUTOSCALERS])
            .queue("horizontalpodautoscaler")
            .read::<Autoscaler>()
            .read::<Pod>()
            .write(AUTOSCALERS, "status", &["patch"])
            .write(EVERY, "scale", &["patch"])
            .lookup_get(EVERY, "scale");
        let declaration =
            ["/apis/metrics.k8s.io/", "/apis/custom.metrics.k8s.io/", "/apis/external.metrics.k8s.io/"]
                .into_iter()
                .fold(declaration, |declaration, path| declaration.lookup(LookupRule::Raw(path.to_owned())));
        let duration = OptionKind::Duration;
        let declaration =
            flag(declaration, "sync-period", duration, "15s", "How often each autoscaler is looked at.");
        let declaration = flag(
            declaration,
            "downscale-stabilization",
            duration,
            "5m0s",
            "How long a higher recommendation keeps replicas, where an autoscaler does not say.",
        );
        let declaration = flag(
            declaration,
            "tolerance",
            OptionKind::Decimal,
            "0.1",
            "The least relative difference of a metric from its target that is acted on.",
        );
        let declaration = flag(
            declaration,
            "cpu-initialization-period",
            duration,
            "5m0s",
            "How long after its start a pod's CPU samples may be left out.",
        );
        let declaration = flag(
            declaration,
            "initial-readiness-delay",
            duration,
            "30s",
            "How long after its start a change of a pod's readiness counts as its first.",
        );
        measures::declare(declaration)
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        reconcile::reconcile(ctx)
    }
}

coxswain_sdk::export!(HorizontalPodAutoscalerController);
