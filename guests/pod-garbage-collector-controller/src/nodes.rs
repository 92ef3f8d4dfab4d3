//! Pods of nodes that are gone.

use std::time::Duration;

use coxswain_sdk::resource::NODES;
use coxswain_sdk::{Ask, Ctx, Object, Plan, Query, Result, Time};

use crate::BY_NODE;
use crate::removal::{Disruption, is_due, remove};
use crate::view::{Node, Pod};

/// How long a node may be missing before its pods are looked at.
pub const QUARANTINE: Duration = Duration::from_secs(40);

const NODE_GONE: Disruption =
    Disruption { reason: "DeletionByPodGC", message: "PodGC: node no longer exists" };

/// Removes the pods of the node of this name if that is gone.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let name = &ctx.key().name;
    if name.is_empty() || ctx.get::<Node>("", name)?.is_some() {
        return Ok(at_rest(ctx));
    }
    let pods: Vec<Object<Pod>> = ctx.list(Query::all().index(BY_NODE, &[name]))?;
    if !pods.iter().any(|pod| is_due(pod)) {
        // A pod that comes to this name later waits as long.
        return Ok(at_rest(ctx));
    }
    let missing = ctx.state().and_then(Time::parse).filter(|since| *since <= ctx.now());
    let Some(since) = missing else { return Ok(wait(ctx)) };
    if since + QUARANTINE > ctx.now() {
        plan.come_back(since + QUARANTINE);
        return Ok(plan);
    }
    if ctx.find_live::<()>(Ask::get_metadata(NODES, "", name))?.is_some() {
        // The cache will show it, or it will be gone again.
        return Ok(wait(ctx));
    }
    remove(&mut plan, pods.iter().map(|pod| &**pod), "orphaned", Some(NODE_GONE), ctx.now());
    Ok(plan)
}

fn at_rest(ctx: &Ctx<'_>) -> Plan {
    let mut plan = Plan::new();
    plan.keep_instead(ctx.state(), String::new());
    plan
}

fn wait(ctx: &Ctx<'_>) -> Plan {
    let mut plan = Plan::new();
    plan.keep(ctx.now().to_micro()).come_back(ctx.now() + QUARANTINE);
    plan
}
