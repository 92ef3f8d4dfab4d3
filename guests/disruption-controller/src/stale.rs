//! Marks of a disruption that did not come.

use std::time::Duration;

use coxswain_sdk::condition::{self, HasStatus as _};
use coxswain_sdk::contract::PatchKind;
use coxswain_sdk::resource::PODS;
use coxswain_sdk::{Action, Ctx, Object, Plan, Query, Result, Step, Time};
use serde_json::json;

use crate::BY_CONDITION;
use crate::view::Pod;

const DISRUPTION_TARGET: &str = "DisruptionTarget";
/// How long a pod may be marked without being asked to go.
const TIMEOUT: Duration = Duration::from_secs(120);
/// How long further marks may wait, so that they are looked at together.
const TOGETHER_MILLIS: u32 = 1000;

/// Takes back the marks that are stale.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    if ctx.key().name != DISRUPTION_TARGET {
        return Ok(plan);
    }
    let pods: Vec<Object<Pod>> = ctx.list(Query::all().index(BY_CONDITION, &[DISRUPTION_TARGET]))?;
    let mut actions = Vec::new();
    for pod in &pods {
        match stale_from(pod) {
            Some(at) if at > ctx.now() => drop(plan.come_back(at)),
            Some(_) => actions.push(take_back(pod, ctx.now())),
            None => {}
        }
    }
    plan.then(Step::new(actions).or_go_on()).quiet(TOGETHER_MILLIS);
    Ok(plan)
}

/// When a pod's mark is, or was, stale. None for pods that are going or have
/// ended, and for those that their kubelet is about to end, however long that
/// takes.
pub fn stale_from(pod: &Pod) -> Option<Time> {
    let mark = condition::find(&pod.status.conditions, DISRUPTION_TARGET)?;
    let counts = mark.is_true()
        && mark.reason != "TerminationByKubelet"
        && !pod.metadata.is_deleting()
        && !pod.has_ended();
    counts.then(|| mark.last_transition_time.unwrap_or(Time::from_unix(0)) + TIMEOUT)
}

fn take_back(pod: &Object<Pod>, now: Time) -> Action {
    let meta = &pod.metadata;
    let condition = json!({
        "type": DISRUPTION_TARGET,
        "status": "False",
        "reason": null,
        "message": null,
        "lastTransitionTime": now,
        "observedGeneration": meta.generation,
    });
    let body = json!({ "status": { "conditions": [condition] } });
    Action::patch(PODS, &meta.namespace, &meta.name, PatchKind::Strategic, &body)
        .subresource("status")
        .as_seen(pod)
        .tag("take back a mark")
}
