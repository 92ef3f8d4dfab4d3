//! Removing a pod: marked Failed first, deleted once that shows.

use std::collections::BTreeSet;

use coxswain_sdk::contract::PatchKind;
use coxswain_sdk::resource::PODS;
use coxswain_sdk::{Action, Declaration, Plan, Step, Time, condition};
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

/// Adds what is to be done next about each of these pods, which go for the reason
/// that is counted. One that fails does not hold up the others.
pub fn remove<'a>(
    plan: &mut Plan,
    pods: impl IntoIterator<Item = &'a Pod>,
    reason: &str,
    disruption: Option<Disruption>,
    now: Time,
) {
    // What fails is counted by namespace, and so is what does not.
    let mut namespaces = BTreeSet::new();
    let next = |pod: &'a Pod| {
        namespaces.insert(pod.metadata.namespace.as_str());
        if !pod.has_ended() {
            Some(mark_failed(pod, disruption, now))
        } else if !pod.is_held() {
            Some(delete(pod))
        } else {
            None
        }
    };
    plan.then(Step::new(pods.into_iter().filter_map(next)).or_go_on());
    for namespace in namespaces {
        measure(plan, namespace, reason);
    }
}

const DELETED: &str = "pod_gc_collector_force_delete_pods_total";
const ERRORS: &str = "pod_gc_collector_force_delete_pod_errors_total";

/// Declares what is measured of removals, under kube-controller-manager's names.
pub fn declare(declaration: Declaration) -> Declaration {
    let labels = ["namespace", "reason"];
    declaration
        .counter(
            DELETED,
            &labels,
            "[ALPHA] Number of pods that are being forcefully deleted since the Pod GC Controller started.",
        )
        .counter(
            ERRORS,
            &labels,
            "[ALPHA] Number of errors encountered when forcefully deleting the pods since the Pod GC Controller started.",
        )
}

/// Counts the removals in a namespace. One that is marked counts when it is deleted.
fn measure(plan: &mut Plan, namespace: &str, reason: &str) {
    let labels = [namespace, reason];
    plan.measure_tries(&tag(DELETE, namespace), DELETED, ERRORS, &labels);
    plan.measure_failures(&tag(MARK, namespace), DELETED, ERRORS, &labels);
}

const DELETE: &str = "delete in ";
const MARK: &str = "mark as failed in ";

fn tag(what: &str, namespace: &str) -> String {
    [what, namespace].concat()
}

fn delete(pod: &Pod) -> Action {
    let meta = &pod.metadata;
    Action::delete(PODS, &meta.namespace, &meta.name)
        .grace_seconds(0)
        .uid(&meta.uid)
        .tag(&tag(DELETE, &meta.namespace))
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
        .tag(&tag(MARK, &meta.namespace))
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
