//! What is measured of autoscalers, under the names that kube-controller-manager has.
//!
//! A size that was refused is counted by the look that finds it out, so each look counts once.

use std::cmp::Ordering;

use coxswain_sdk::contract::{Measure, Occasion};
use coxswain_sdk::{Declaration, Plan, buckets};

use crate::status::ACTIVE;
use crate::view::{Autoscaler, Status};

const LOOKS: &str = "horizontal_pod_autoscaler_controller_reconciliations_total";
const LOOK_SECONDS: &str = "horizontal_pod_autoscaler_controller_reconciliation_duration_seconds";
const COMPUTED: &str = "horizontal_pod_autoscaler_controller_metric_computation_total";
const COMPUTED_SECONDS: &str = "horizontal_pod_autoscaler_controller_metric_computation_duration_seconds";
const AUTOSCALERS: &str = "horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers";
const DESIRED: &str = "horizontal_pod_autoscaler_controller_desired_replicas";

/// Reason of the condition of a target that is scaled to zero.
pub const DISABLED: &str = "ScalingDisabled";

/// Declares the metrics.
pub fn declare(declaration: Declaration) -> Declaration {
    const OF_LOOKS: &str = "The label 'action' should be either 'scale_down', 'scale_up', or 'none'. Also, the label 'error' should be either 'spec', 'internal', or 'none'. Note that if both spec and internal errors happen during a reconciliation, the first one to occur is reported in `error` label.";
    let seconds = buckets::exponential(0.001, 2.0, 15);
    let (look, computed) = (["action", "error"], ["action", "error", "metric_type"]);
    declaration
        .counter(LOOKS, &look, &format!("[BETA] Number of reconciliations of HPA controller. {OF_LOOKS}"))
        .histogram(
            LOOK_SECONDS,
            &look,
            &seconds,
            &format!("[BETA] The time(seconds) that the HPA controller takes to reconcile once. {OF_LOOKS}"),
        )
        .counter(
            COMPUTED,
            &computed,
            "[BETA] Number of metric computations. The label 'action' should be either 'scale_down', 'scale_up', or 'none'. Also, the label 'error' should be either 'spec', 'internal', or 'none'. The label 'metric_type' corresponds to HPA.spec.metrics[*].type",
        )
        .histogram(
            COMPUTED_SECONDS,
            &computed,
            &seconds,
            "[BETA] The time(seconds) that the HPA controller takes to calculate one metric. The label 'action' should be either 'scale_down', 'scale_up', or 'none'. The label 'error' should be either 'spec', 'internal', or 'none'. The label 'metric_type' corresponds to HPA.spec.metrics[*].type",
        )
        .gauge(AUTOSCALERS, &[], "[ALPHA] Current number of controlled HPA objects.")
        .gauge(DESIRED, &["namespace", "hpa_name"], "[ALPHA] Current desired replica count for HPA objects.")
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing.
    None,
    /// The autoscaler asks for what cannot be.
    Spec,
    /// Something else.
    Internal,
}

impl Trouble {
    /// This one, or if there is none yet, some.
    pub fn or_internal(self) -> Self {
        if self == Self::None { Self::Internal } else { self }
    }

    fn label(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Spec => "spec",
            Self::Internal => "internal",
        }
    }
}

fn action(from: i32, to: i32) -> &'static str {
    match to.cmp(&from) {
        Ordering::Less => "scale_down",
        Ordering::Equal => "none",
        Ordering::Greater => "scale_up",
    }
}

/// A metric that was computed, or was to be.
#[derive(Debug)]
pub struct Computed {
    /// Its type.
    pub kind: String,
    /// The size it calls for, or what went wrong.
    pub size: Result<i32, Trouble>,
    /// Id of the lookup that gave its value; none if nothing was asked.
    pub lookup: Option<String>,
}

/// Measures a metric of an autoscaler that has so many replicas by its status. Asking takes the time, and all else is
/// done in no time.
pub fn computed(plan: &mut Plan, metric: &Computed, current: i32) {
    let (action, trouble) = match metric.size {
        Ok(size) => (action(current, size), Trouble::None),
        Err(trouble) => ("none", trouble),
    };
    let labels = [action, trouble.label(), &metric.kind];
    let took = metric.lookup.clone().map_or(Measure::Number(0.0), Measure::Lookup);
    plan.measure(COMPUTED, &labels, 1.0);
    plan.measure_if(Occasion::Always, COMPUTED_SECONDS, &labels, took);
}

/// Measures a look; `scaled` is the tag of the write of the size, and the sizes before and after it.
pub fn looked(plan: &mut Plan, scaled: Option<(&str, i32, i32)>, trouble: Trouble) {
    let mut look = |occasion: Occasion, action: &str, trouble: Trouble| {
        let labels = [action, trouble.label()];
        plan.measure_if(occasion.clone(), LOOKS, &labels, Measure::Number(1.0));
        plan.measure_if(occasion, LOOK_SECONDS, &labels, Measure::Elapsed);
    };
    match scaled {
        Some((tag, from, to)) => look(Occasion::Done(tag.to_owned()), action(from, to), trouble),
        None => {
            look(Occasion::Succeeded, "none", trouble);
            look(Occasion::Failed, "none", trouble.or_internal());
        }
    }
}

/// Tells of an autoscaler that has, or is given, this status.
pub fn census(plan: &mut Plan, autoscaler: &Autoscaler, status: &Status) {
    plan.measure(AUTOSCALERS, &[], 1.0);
    let mut conditions = status.conditions.iter().flatten();
    if status.desired_replicas > 0 || conditions.any(|c| c.kind == ACTIVE && c.reason == DISABLED) {
        let meta = &autoscaler.metadata;
        plan.measure(DESIRED, &[&meta.namespace, &meta.name], status.desired_replicas.into());
    }
}
