//! One node: its taints, its labels, and the readiness of its pods.
//!
//! In: the node, and its pods if it is not heard of. Out: at most one patch of
//! the node, and one of each pod that still says it is ready.

use coxswain_sdk::resource::NODES;
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
/// nothing. The list of taints is replaced whole, so it must be the one seen.
pub fn patch(
    node: &Object<Node>,
    wanted: Vec<coxswain_sdk::taints::Taint>,
    labels: Map<String, Value>,
) -> Option<Action> {
    let mut body = Map::new();
    if wanted != node.spec.taints {
        let list = if wanted.is_empty() { Value::Null } else { json!(wanted) };
        body.insert("spec".to_owned(), json!({ "taints": list }));
    }
    if !labels.is_empty() {
        body.insert("metadata".to_owned(), json!({ "labels": labels }));
    }
    let write = Action::merge(NODES, "", &node.metadata.name, &Value::Object(body.clone()));
    (!body.is_empty()).then(|| write.as_seen(node).tag("node"))
}
