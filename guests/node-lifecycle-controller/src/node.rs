//! One node: its taints, its labels, and the readiness of its pods.
//!
//! In: the node, and its pods if it is not heard of. Out: at most one patch of
//! the node, and one of each pod that still says it is ready.

use coxswain_sdk::resource::NODES;
use coxswain_sdk::taints::Taint;
use coxswain_sdk::{Action, Ctx, Object, Plan, Result};
use serde_json::{Map, Value, json};

use crate::view::Node;
use crate::{labels, pods, taints};

/// Decides about the node of the key.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let Some(node) = ctx.primary::<Node>()? else { return Ok(plan) };
    plan.then(patch(&node, taints::follow(&node, ctx.now()), labels::changes(&node.metadata.labels)));
    pods::mark(ctx, &node, &mut plan)?;
    Ok(plan)
}

/// Gives a node these taints, and changes these labels; None if that changes
/// nothing. The list of taints is replaced whole, so it must be the one seen;
/// labels are written one by one, whatever else changed meanwhile.
pub fn patch(node: &Object<Node>, wanted: Vec<Taint>, labels: Map<String, Value>) -> Option<Action> {
    let mut body = Map::new();
    if !labels.is_empty() {
        body.insert("metadata".to_owned(), json!({ "labels": labels }));
    }
    let retainted = wanted != node.spec.taints;
    if retainted {
        let list = if wanted.is_empty() { Value::Null } else { json!(wanted) };
        body.insert("spec".to_owned(), json!({ "taints": list }));
    }
    if body.is_empty() {
        return None;
    }
    let meta = &node.metadata;
    let write = Action::merge(NODES, "", &meta.name, &Value::Object(body)).tag("node");
    Some(if retainted { write.as_seen(node) } else { write.uid(&meta.uid) })
}
