//! One reconcile of a ClusterRole.

use coxswain_sdk::contract::PatchKind;
use coxswain_sdk::resource::CLUSTER_ROLES;
use coxswain_sdk::{Action, Ask, Ctx, Error, Plan, Query, Result, from_json};
use serde_json::{Map, Value, json};

use crate::NAME;
use crate::view::{AggregationRule, ClusterRole, Managed, Manager};

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
    if rules.is_empty() && !are_ours(ctx, name)? {
        return Ok(plan);
    }
    // An apply, so that it is seen which manager the rules are from.
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

/// Whether the rules of a role are from this controller, past the cache, which
/// does not keep who manages what. Where nothing is found, rules that somebody
/// else gave stay, as nobody claims their place.
fn are_ours(ctx: &Ctx<'_>, name: &str) -> Result<bool> {
    match ctx.look_up(Ask::get_metadata(CLUSTER_ROLES, "", name))? {
        Ok(text) => {
            let role: Managed =
                from_json(&text).map_err(|e| Error::Retry(format!("ClusterRole {name}: {e}")))?;
            Ok(role.metadata.managed_fields.iter().any(Manager::has_our_rules))
        }
        Err(failure) if failure.status == 404 => Ok(false),
        Err(failure) => Err(Error::Retry(format!("cannot read ClusterRole {name}: {}", failure.message))),
    }
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
