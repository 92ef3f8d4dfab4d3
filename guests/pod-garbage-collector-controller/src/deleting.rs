//! Pods that were asked to go and have no kubelet to end them.

use std::time::Duration;

use coxswain_sdk::{Ctx, Plan, Result};

use crate::removal::{is_due, remove};
use crate::view::{Node, Pod};

/// How long whoever else has to do with a deleted pod is given first.
const ROUND: Duration = Duration::from_secs(20);

/// Removes the pod of the key if it was never bound, or if its node is out of
/// service.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let Some(pod) = ctx.primary::<Pod>()? else { return Ok(plan) };
    let Some(asked) = pod.metadata.asked_to_go() else { return Ok(plan) };
    let node = &pod.spec.node_name;
    let is_stranded = if node.is_empty() {
        true
    } else {
        // Pods of a node that is gone are seen to by the node's name.
        ctx.get::<Node>("", node)?.is_some_and(|node| node.is_out_of_service())
    };
    if !is_stranded || !is_due(&pod) {
        return Ok(plan);
    }
    let due = asked + ROUND;
    if due > ctx.now() {
        plan.come_back(due);
    } else {
        let reason = if node.is_empty() { "unscheduled" } else { "out-of-service" };
        remove(&mut plan, [&*pod], reason, None, ctx.now());
    }
    Ok(plan)
}
