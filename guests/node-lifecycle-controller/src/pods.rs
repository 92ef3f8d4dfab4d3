//! Pods of a node that is not heard of: none of them can be said to be ready.
//!
//! The state of a node's key holds since when the node is not heard of, and the
//! uids of pods seen not ready since. Each pod is marked once: one that turns
//! ready afterwards has a kubelet that lives, and must not be fought over.
//!
//! A node whose kubelet said that it is not ready before it fell silent keeps its
//! pods as they are, for kube-controller-manager marks pods only of nodes that
//! were ready. The state says so from then until the node is ready again.

use std::collections::BTreeSet;

use coxswain_sdk::contract::PatchKind;
use coxswain_sdk::resource::PODS;
use coxswain_sdk::sort::set_of;
use coxswain_sdk::{About, Action, Ctx, Plan, Query, Result, Step};
use serde_json::json;

use crate::view::{Node, Pod, READY, UNKNOWN};

/// Index of pods by the node they are bound to.
pub const BY_NODE: &str = "node";

/// State of a node whose kubelet said that it is not ready.
const NOT_READY: &str = "not-ready";

/// Marks what is to be marked, if the node is not heard of.
pub fn mark(ctx: &Ctx<'_>, node: &Node, plan: &mut Plan) -> Result<()> {
    let ready = match node.ready() {
        Some(ready) if ready.status == UNKNOWN => ready,
        Some(ready) if ready.status != "True" => {
            if ctx.state() != Some(NOT_READY) {
                plan.keep(NOT_READY);
            }
            return Ok(());
        }
        _ => {
            if ctx.state().is_some() {
                plan.clear();
            }
            return Ok(());
        }
    };
    if ctx.state() == Some(NOT_READY) {
        return Ok(());
    }
    let since = ready.last_transition_time.map(|time| time.to_string()).unwrap_or_default();
    let mut lines = ctx.state().unwrap_or_default().lines();
    // What was kept of an earlier time is of no account.
    let same_time = lines.next() == Some(since.as_str());
    let before: BTreeSet<&str> = set_of(lines.filter(|_| same_time));

    let pods = ctx.list::<Pod>(Query::all().index(BY_NODE, &[&node.metadata.name]))?;
    let mut marked = BTreeSet::new();
    let mut writes = Vec::new();
    for pod in &pods {
        let meta = &pod.metadata;
        if before.contains(meta.uid.as_str()) || !pod.may_be_ready() {
            marked.insert(meta.uid.as_str());
            continue;
        }
        let condition = json!({
            "type": READY,
            "status": "False",
            "lastTransitionTime": ctx.now().whole_seconds(),
        });
        let body = json!({ "metadata": { "uid": meta.uid }, "status": { "conditions": [condition] } });
        // By type, so that the other conditions stay.
        let write = Action::patch(PODS, &meta.namespace, &meta.name, PatchKind::Strategic, &body)
            .subresource("status")
            .uid(&meta.uid)
            .tag("pod")
            .on_success(About::of::<Pod, _>(meta).warning("NodeNotReady", "Node is not ready"));
        writes.push(write);
    }
    plan.then(Step::new(writes).or_go_on());
    if !same_time || marked != before {
        let mut state = since;
        for uid in marked {
            state.push('\n');
            state.push_str(uid);
        }
        plan.keep(state);
    }
    Ok(())
}
