//! One reconcile of a ClusterRole.

use coxswain_sdk::contract::PatchKind;
use coxswain_sdk::resource::CLUSTER_ROLES;
use coxswain_sdk::{Action, Ctx, Error, Plan, Query, Result};
use serde_json::{Map, Value, json};

use crate::NAME;
use crate::view::{AggregationRule, ClusterRole};

/// One reconcile.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let Some(role) = ctx.primary::<ClusterRole>()? else { return Ok(plan) };
    let Some(aggregation) = &role.aggregation_rule else { return Ok(plan) };
    let name = &role.metadata.name;
    let rules = gather(ctx, name, aggregation)?;
    if role.rules().eq(rules.iter().cloned()) {
        return Ok(plan);
    }
    // An apply, so that it is seen which manager the rules are from. It says so
    // too where there are none, else those of somebody else would stay.
    let body = json!({
        "apiVersion": CLUSTER_ROLES.api_version(),
        "kind": CLUSTER_ROLES.kind,
        "metadata": {"name": name},
        "rules": rules,
    });
    let apply = Action::patch(CLUSTER_ROLES, "", name, PatchKind::Apply, &body);
    plan.then(apply.field_manager(NAME, true).uid(&role.metadata.uid).tag("rules"));
    Ok(plan)
}

/// The rules of all that the selectors find, but for itself: selector by
/// selector, by name, each rule once.
fn gather(ctx: &Ctx<'_>, name: &str, aggregation: &AggregationRule) -> Result<Vec<Map<String, Value>>> {
    let mut rules: Vec<Map<String, Value>> = Vec::new();
    for selector in &aggregation.cluster_role_selectors {
        let selector = selector
            .parse()
            .map_err(|e| Error::Terminal(format!("ClusterRole {name}: invalid selector: {e}")))?;
        for found in ctx.list::<ClusterRole>(Query::all().matching(&selector))? {
            if found.metadata.name == name {
                continue;
            }
            for rule in found.rules() {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
    }
    Ok(rules)
}
