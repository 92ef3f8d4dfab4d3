//! The device taint eviction controller: evicts pods whose devices are tainted
//! with NoExecute, once their claims no longer tolerate it.
//!
//! Taints come from the slices that drivers publish. The time counts from when
//! the taint was put on, so a restart changes nothing. Kept for a pod: that it
//! is going to be evicted, so that it can be told if it is not after all; if
//! that is lost it is not told.

mod deadline;
mod measures;
mod view;

#[cfg(test)]
mod tests;

use coxswain_sdk::contract::PatchKind;
use coxswain_sdk::resource::PODS;
use coxswain_sdk::resource_claims::{POD_INDEX, with_pod_index};
use coxswain_sdk::{About, Action, Controller, Ctx, Declaration, Object, Plan, Result, Time};
use serde_json::json;

use view::{Claim, Pod, Slice};

const CONDITION: &str = "DisruptionTarget";
const CONDITION_REASON: &str = "DeletionByDeviceTaintManager";
const EVENT: &str = "DeviceTaintManagerEviction";
const WAITING: &str = "waiting";
const DELETE: &str = "delete";

/// The controller.
#[derive(Debug)]
pub struct DeviceTaintEvictionController;

impl Controller for DeviceTaintEvictionController {
    fn declare() -> Declaration {
        let declaration = Declaration::new("device-taint-eviction-controller")
            .version(env!("CARGO_PKG_VERSION"))
            .state_format(1, &[])
            .concurrency(10, "concurrent-device-taint-eviction-syncs")
            .keys_indexed("pods", &[PODS], &[POD_INDEX])
            .read_with::<Pod>(with_pod_index)
            .read_with::<Claim>(|read| read.optional())
            .read_with::<Slice>(|read| {
                read.optional().index(deadline::BY_POOL, &["spec.driver", "spec.pool.name"])
            })
            .write(PODS, "status", &["patch"])
            .write(PODS, "", &["delete"]);
        measures::declare(declaration)
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        let mut plan = Plan::new();
        let Some(pod) = ctx.primary::<Pod>()? else { return Ok(plan) };
        if pod.spec.node_name.is_empty() || pod.metadata.is_deleting() {
            return Ok(plan);
        }
        let about = About::of::<Pod, _>(&pod.metadata);
        match deadline::of_pod(ctx, &pod)? {
            None if ctx.state().is_some() => {
                plan.event(about.normal(EVENT, "Cancelling deletion"));
                plan.clear();
            }
            None => {}
            Some(at) if at > ctx.now() => {
                plan.come_back(at);
                if ctx.state().is_none() {
                    plan.keep(WAITING);
                }
            }
            Some(at) => {
                let condition = say_why(&pod, ctx.now());
                if condition.is_some() {
                    plan.event(about.normal(EVENT, "Marking for deletion"));
                }
                plan.then(condition);
                let meta = &pod.metadata;
                plan.then(Action::delete(PODS, &meta.namespace, &meta.name).uid(&meta.uid).tag(DELETE));
                measures::deletion(&mut plan, DELETE, ctx.now().since(at));
            }
        }
        Ok(plan)
    }
}

/// A patch by which the pod says why it goes; None if it does.
fn say_why(pod: &Object<Pod>, now: Time) -> Option<Action> {
    let there = pod.status.conditions.iter().find(|condition| condition.kind == CONDITION);
    let is_true = there.is_some_and(|there| there.status == "True");
    if is_true && there.is_some_and(|there| there.reason == CONDITION_REASON) {
        return None;
    }
    let mut condition = json!({
        "type": CONDITION,
        "status": "True",
        "reason": CONDITION_REASON,
        "message": "Device Taint manager: deleting due to NoExecute taint",
    });
    // One that is true already keeps the time at which it became so.
    if !is_true {
        condition["lastTransitionTime"] = json!(now.whole_seconds());
    }
    let meta = &pod.metadata;
    let body = json!({ "status": { "conditions": [condition] } });
    // By type, so that the other conditions stay.
    let patch = Action::patch(PODS, &meta.namespace, &meta.name, PatchKind::Strategic, &body);
    Some(patch.subresource("status").uid(&meta.uid).tag("condition"))
}

coxswain_sdk::export!(DeviceTaintEvictionController);
