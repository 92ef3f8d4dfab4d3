//! What is to be done about a PodDisruptionBudget.

use std::time::Duration;

use coxswain_sdk::resource::{POD_DISRUPTION_BUDGETS, PODS};
use coxswain_sdk::selector::{LabelSelector, Selector};
use coxswain_sdk::{About, Action, Ctx, Object, Plan, Query, Result};

use crate::expected::{Expected, expected};
use crate::status::{Disrupted, counted, disrupted, failed, healthy};
use crate::view::{Budget, BudgetStatus, Pod};

/// When to ask again what the API server could not answer.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// Counts for the budget of the key.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let Some(budget) = ctx.primary::<Budget>()? else { return Ok(plan) };
    let about = About::new(POD_DISRUPTION_BUDGETS, &budget.metadata);
    let selector = match Selector::of(budget.spec.selector.as_ref()) {
        Ok(selector) => selector,
        Err(why) => {
            plan.event(about.warning("NoPods", format!("Failed to get pods: {why}")));
            write(&mut plan, &budget, &failed(&budget, &why, ctx.now()))?;
            return Ok(plan);
        }
    };
    let pods = selected(ctx, &budget, &selector)?;
    if pods.is_empty() {
        plan.event(about.normal("NoPods", "No matching pods found"));
    }
    match expected(ctx, &budget.spec, &pods)? {
        Ok(expected) => count(ctx, &budget, &pods, &expected, &mut plan)?,
        Err(unknown) => {
            let message = format!("Failed to calculate the number of expected pods: {}", unknown.why);
            plan.event(about.warning("CalculateExpectedPodCountFailed", message));
            if unknown.passing {
                plan.come_back(ctx.now() + ASK_AGAIN);
            }
            write(&mut plan, &budget, &failed(&budget, &unknown.why, ctx.now()))?;
        }
    }
    Ok(plan)
}

/// The pods that a budget selects.
pub fn selected(ctx: &Ctx<'_>, budget: &Budget, selector: &Selector) -> Result<Vec<Object<Pod>>> {
    if selector.is_nothing() {
        return Ok(Vec::new());
    }
    ctx.list(Query::all().namespace(&budget.metadata.namespace).matching(selector))
}

fn count(
    ctx: &Ctx<'_>,
    budget: &Object<Budget>,
    pods: &[Object<Pod>],
    expected: &Expected,
    plan: &mut Plan,
) -> Result<()> {
    let Budget { metadata, spec, status } = &**budget;
    if !expected.unmanaged.is_empty() {
        let message = format!(
            "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.",
            in_words(spec.selector.as_ref())
        );
        plan.event(About::new(POD_DISRUPTION_BUDGETS, metadata).warning("UnmanagedPods", message));
    }
    let Disrupted { pods: going, overdue, recheck } = disrupted(&status.disrupted_pods, pods, ctx.now());
    for pod in overdue {
        let (namespace, name) = (&metadata.namespace, &metadata.name);
        let message = format!("Pod was expected by PDB {namespace}/{name} to be deleted but it wasn't");
        plan.event(About::new(PODS, &pod.metadata).warning("NotDeleted", message));
    }
    if let Some(at) = recheck {
        // Just past it: at the very time it still counts as going.
        plan.come_back(at + Duration::from_millis(1));
    }
    let healthy = healthy(pods, &going, ctx.now());
    write(plan, budget, &counted(budget, expected, healthy, going, ctx.now()))
}

/// Writes a status, provided that no eviction was granted since it was read.
fn write(plan: &mut Plan, budget: &Object<Budget>, wanted: &BudgetStatus) -> Result<()> {
    let Budget { metadata, status, .. } = &**budget;
    let (namespace, name) = (&metadata.namespace, &metadata.name);
    let patch = Action::status(POD_DISRUPTION_BUDGETS, namespace, name, status, wanted)?;
    plan.then(patch.map(|patch| patch.as_seen(budget)));
    Ok(())
}

/// A selector as users of Kubernetes know it from events.
pub fn in_words(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "nil".to_owned() };
    let labels: String =
        selector.match_labels.iter().map(|(label, value)| format!("{label}: {value},")).collect();
    let expressions: String = selector
        .match_expressions
        .iter()
        .map(|expression| {
            format!(
                "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
                expression.key,
                expression.operator,
                expression.values.join(" ")
            )
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}
