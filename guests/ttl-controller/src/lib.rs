//! The TTL controller: tells kubelets, in an annotation of their nodes, for how
//! long they may keep secrets and configmaps before they ask again. The larger
//! the cluster, the longer.
//!
//! All nodes together are one key, since what each is told depends on how many
//! there are. Nothing is kept: which of two overlapping sizes the cluster is
//! taken for follows from what most nodes were told before.

mod sizes;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use coxswain_sdk::resource::NODES;
use coxswain_sdk::{
    Action, Controller, Ctx, Declaration, FromJson, Object, ObjectMeta, Plan, Query, Resource, Result, Step,
    View,
};
use serde_json::json;

/// The annotation.
pub const TTL: &str = "node.alpha.kubernetes.io/ttl";

/// What is read of a node.
#[derive(Clone, Debug, FromJson)]
pub struct Node {
    metadata: ObjectMeta<Told>,
}

/// What it was told.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Told {
    #[serde(rename = "node.alpha.kubernetes.io/ttl")]
    ttl: Option<String>,
}

impl View for Node {
    const RESOURCE: Resource = NODES;
}

impl Node {
    fn ttl(&self) -> Option<i64> {
        self.metadata.annotations.ttl.as_ref()?.parse().ok()
    }
}

/// The controller.
#[derive(Debug)]
pub struct TtlController;

impl Controller for TtlController {
    fn declare() -> Declaration {
        Declaration::new("ttl-controller")
            .alias("ttl")
            .version(env!("CARGO_PKG_VERSION"))
            .keys_single("cluster")
            .queue("ttlcontroller")
            .read::<Node>()
            .write(NODES, "", &["patch"])
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        let nodes = ctx.list::<Node>(Query::all())?;
        let ttl = sizes::ttl(nodes.len(), told(&nodes));
        let untold = nodes.iter().filter(|node| node.ttl() != Some(ttl));
        let mut plan = Plan::new();
        plan.then(Step::new(untold.map(|node| tell(node, ttl))).or_go_on());
        Ok(plan)
    }
}

/// What most nodes were told.
fn told(nodes: &[Object<Node>]) -> Option<i64> {
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    for ttl in nodes.iter().filter_map(|node| node.ttl()) {
        *counts.entry(ttl).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(ttl, _)| ttl)
}

fn tell(node: &Node, ttl: i64) -> Action {
    let meta = &node.metadata;
    let body = json!({ "metadata": { "annotations": { TTL: ttl.to_string() } } });
    Action::merge(NODES, "", &meta.name, &body).uid(&meta.uid).tag("ttl")
}

coxswain_sdk::export!(TtlController);
