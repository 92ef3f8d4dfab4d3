//! The status of a budget.

use std::collections::BTreeMap;
use std::time::Duration;

use coxswain_sdk::merge::take_out;
use coxswain_sdk::{Object, Time};
use serde_json::{Map, Value, json};

use crate::expected::Expected;
use crate::view::{Budget, BudgetStatus, Pod};

/// How long a pod whose eviction was granted may take until it is seen to go.
pub const DELETION_TIMEOUT: Duration = Duration::from_secs(120);

/// Pods whose eviction was granted.
#[derive(Debug, Default)]
pub struct Disrupted<'a> {
    /// Those that are still to go, and since when.
    pub pods: BTreeMap<String, Time>,
    /// Those that should have gone by now.
    pub overdue: Vec<&'a Pod>,
    /// When the first of them is overdue.
    pub recheck: Option<Time>,
}

/// What became of the pods whose eviction was granted.
pub fn disrupted<'a>(seen: &BTreeMap<String, Time>, pods: &'a [Object<Pod>], now: Time) -> Disrupted<'a> {
    let mut disrupted = Disrupted::default();
    for pod in pods.iter().filter(|pod| !pod.metadata.is_deleting()) {
        let Some(since) = seen.get(&pod.metadata.name).copied() else { continue };
        let due = since + DELETION_TIMEOUT;
        if due < now {
            disrupted.overdue.push(pod);
        } else {
            disrupted.pods.insert(pod.metadata.name.clone(), since);
            disrupted.recheck = Some(disrupted.recheck.map_or(due, |before| before.min(due)));
        }
    }
    disrupted
}

/// How many pods are ready and not about to go.
pub fn healthy(pods: &[Object<Pod>], disrupted: &BTreeMap<String, Time>, now: Time) -> i32 {
    let goes = |pod: &Pod| {
        let granted = disrupted.get(&pod.metadata.name);
        pod.metadata.is_deleting() || granted.is_some_and(|since| *since + DELETION_TIMEOUT > now)
    };
    let healthy = pods.iter().filter(|pod| pod.is_ready() && !goes(pod)).count();
    i32::try_from(healthy).unwrap_or(i32::MAX)
}

/// The status that follows.
pub fn counted(
    budget: &Budget,
    expected: &Expected,
    healthy: i32,
    disrupted: BTreeMap<String, Time>,
    now: Time,
) -> BudgetStatus {
    // Without pods none may go: the first ones may come before they are counted.
    let allowed = if expected.pods > 0 { healthy.saturating_sub(expected.healthy).max(0) } else { 0 };
    let generation = budget.metadata.generation;
    let mut conditions = budget.status.conditions.clone();
    let (status, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    set_condition(&mut conditions, status, reason, "", generation, now);
    BudgetStatus {
        observed_generation: generation,
        disrupted_pods: disrupted,
        disruptions_allowed: Some(allowed),
        current_healthy: Some(healthy),
        desired_healthy: Some(expected.healthy),
        expected_pods: Some(expected.pods),
        conditions,
    }
}

/// The status if nobody can count: nothing may go.
pub fn failed(budget: &Budget, why: &str, now: Time) -> BudgetStatus {
    let mut status = budget.status.clone();
    let generation = status.observed_generation;
    status.disruptions_allowed = Some(0);
    set_condition(&mut status.conditions, "False", "SyncFailed", why, generation, now);
    status
}

/// Sets the DisruptionAllowed condition in its place. Its time is that of the
/// last change of its status.
fn set_condition(
    conditions: &mut Vec<Map<String, Value>>,
    status: &str,
    reason: &str,
    message: &str,
    generation: i64,
    now: Time,
) {
    const KIND: &str = "DisruptionAllowed";
    let at = conditions.iter().position(|c| c.get("type").and_then(Value::as_str) == Some(KIND));
    let at = at.unwrap_or_else(|| {
        conditions.push(Map::new());
        conditions.len() - 1
    });
    let condition = &mut conditions[at];
    if condition.get("status").and_then(Value::as_str) != Some(status) {
        condition.insert("lastTransitionTime".to_owned(), json!(now));
    }
    let texts = [("type", KIND), ("status", status), ("reason", reason), ("message", message)];
    for (field, text) in texts {
        condition.insert(field.to_owned(), json!(text));
    }
    if generation == 0 {
        take_out(condition, "observedGeneration");
    } else {
        condition.insert("observedGeneration".to_owned(), json!(generation));
    }
}
