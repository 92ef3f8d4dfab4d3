//! Removing a pod: marked Failed first, deleted once that shows.

use coxswain_sdk::contract::PatchKind;
use coxswain_sdk::resource::PODS;
use coxswain_sdk::{Action, Plan, Step, Time, condition};
use serde_json::{Value, json};

use crate::view::Pod;

/// Why pods are marked as disrupted.
#[derive(Clone, Copy, Debug)]
pub struct Disruption {
    /// Reason of the DisruptionTarget condition.
    pub reason: &'static str,
    /// Its text.
    pub message: &'static str,
}

/// Whether there is anything left to do about a pod that is to go.
pub fn is_due(pod: &Pod) -> bool {
    !pod.has_ended() || !pod.is_held()
}

/// Adds what is to be done next about each of these pods. One that fails does
/// not hold up the others.
pub fn remove<'a>(
    plan: &mut Plan,
    pods: impl IntoIterator<Item = &'a Pod>,
    disruption: Option<Disruption>,
    now: Time,
) {
    let next = |pod: &Pod| {
        if !pod.has_ended() {
            Some(mark_failed(pod, disruption, now))
        } else if !pod.is_held() {
            Some(delete(pod))
        } else {
            None
        }
    };
    plan.then(Step::new(pods.into_iter().filter_map(next)).or_go_on());
}

fn delete(pod: &Pod) -> Action {
    let meta = &pod.metadata;
    Action::delete(PODS, &meta.namespace, &meta.name).grace_seconds(0).uid(&meta.uid).tag("delete")
}

/// A plain strategic patch: it works on pods whose spec no apply could own, such
/// as ones that name an environment variable twice.
fn mark_failed(pod: &Pod, disruption: Option<Disruption>, now: Time) -> Action {
    let meta = &pod.metadata;
    let mut status = json!({ "phase": "Failed", "observedGeneration": meta.generation });
    if let Some(disruption) = disruption {
        status["conditions"] = json!([mark(pod, disruption, now)]);
        status["$setElementOrder/conditions"] = order(pod);
    }
    let body = json!({ "status": status });
    Action::patch(PODS, &meta.namespace, &meta.name, PatchKind::Strategic, &body)
        .subresource("status")
        .uid(&meta.uid)
        .tag("mark as failed")
}

const KIND: &str = "DisruptionTarget";

/// Conditions stay in their order, a new one goes to the end.
fn order(pod: &Pod) -> Value {
    let mut kinds: Vec<&str> = pod.status.conditions.iter().map(|c| c.kind.as_str()).collect();
    if !kinds.contains(&KIND) {
        kinds.push(KIND);
    }
    kinds.into_iter().map(|kind| json!({ "type": kind })).collect()
}

fn mark(pod: &Pod, Disruption { reason, message }: Disruption, now: Time) -> Value {
    let mut mark = json!({
        "type": KIND,
        "status": "True",
        "reason": reason,
        "message": message,
        "observedGeneration": pod.metadata.generation,
    });
    // One that is true already keeps the time at which it became so.
    if !condition::is_true(&pod.status.conditions, KIND) {
        mark["lastTransitionTime"] = json!(now);
    }
    mark
}
