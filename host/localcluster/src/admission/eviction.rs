//! Evictions and the disruption budgets that hold them back.

use serde_json::{Value, json};

use crate::kinds::value::{child, int, items, set, text};
use crate::rest::strategy::{Consulted, Ctx};
use crate::selector::object_matches;
use crate::status::Status;

const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
const MAX_DISRUPTED: usize = 2000;

/// Lets an eviction pass, or says why not; counts it against the budget of the pod.
pub fn check_eviction(ctx: &Ctx<'_>, pod: &Value, dry_run: bool) -> Result<(), Status> {
    let leaving = !pod["metadata"]["deletionTimestamp"].is_null();
    if leaving || matches!(text(&pod["status"], "phase"), "Succeeded" | "Failed" | "Pending") {
        return Ok(());
    }
    let labels = &pod["metadata"]["labels"];
    let budgets: Vec<Value> = ctx
        .consult(Consulted::PodDisruptionBudgets)
        .list(ctx.namespace)
        .into_iter()
        .filter(|b| object_matches(&b["spec"]["selector"], labels))
        .collect();
    let budget = match budgets.as_slice() {
        [] => return Ok(()),
        [one] => one,
        _ => {
            return Err(Status::server_error(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
    };
    let ready = items(&pod["status"], "conditions")
        .iter()
        .any(|c| text(c, "type") == "Ready" && text(c, "status") == "True");
    if !ready && unhealthy_may_go(budget) {
        return Ok(());
    }
    let name = text(&budget["metadata"], "name").to_owned();
    let pod_name = text(&pod["metadata"], "name").to_owned();
    let now = ctx.now.clone();
    let namespace = ctx.namespace;
    ctx.consult(Consulted::PodDisruptionBudgets).modify(namespace, &name, &mut |budget| {
        check(budget)?;
        if dry_run {
            return Ok(false);
        }
        let status = child(budget, "status");
        let left = int(status, "disruptionsAllowed") - 1;
        set(status, "disruptionsAllowed", left);
        set(child(status, "disruptedPods"), &pod_name, now.clone());
        if left == 0 {
            not_allowed(status, &now);
        }
        Ok(true)
    })?;
    Ok(())
}

/// A pod that is not ready may always go under one policy, and under the other while enough are healthy.
fn unhealthy_may_go(budget: &Value) -> bool {
    let status = &budget["status"];
    match text(&budget["spec"], "unhealthyPodEvictionPolicy") {
        "AlwaysAllow" => true,
        _ => {
            int(status, "currentHealthy") >= int(status, "desiredHealthy")
                && int(status, "desiredHealthy") > 0
        }
    }
}

fn check(budget: &Value) -> Result<(), Status> {
    let (meta, status) = (&budget["metadata"], &budget["status"]);
    let name = text(meta, "name");
    let cause = "DisruptionBudget";
    if int(status, "observedGeneration") < int(meta, "generation") {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(Status::too_many_requests(REFUSED, 10).with_cause(cause, &why, ""));
    }
    let allowed = int(status, "disruptionsAllowed");
    let forbid = |why: &str| Err(Status::forbidden("policy", "poddisruptionbudget", name, why));
    if allowed < 0 {
        return forbid("pdb disruptions allowed is negative");
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > MAX_DISRUPTED) {
        return forbid("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if allowed > 0 {
        return Ok(());
    }
    let condition = items(status, "conditions")
        .iter()
        .find(|c| text(c, "type") == "DisruptionAllowed" && text(c, "status") == "False")
        .filter(|c| !text(c, "message").is_empty());
    let (desired, current) = (int(status, "desiredHealthy"), int(status, "currentHealthy"));
    let why = match condition {
        Some(c) if text(c, "reason") == "SyncFailed" => format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {}",
            text(c, "message")
        ),
        _ if current <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently")
        }
        Some(c) => format!(
            "The disruption budget {name} does not allow evicting pods currently ({}): {}",
            text(c, "reason"),
            text(c, "message")
        ),
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    };
    Err(Status::too_many_requests(REFUSED, 0).with_cause(cause, &why, ""))
}

fn not_allowed(status: &mut Value, now: &str) {
    let mut conditions = items(status, "conditions").to_vec();
    let observed = int(status, "observedGeneration");
    let found = conditions.iter().find(|c| text(c, "type") == "DisruptionAllowed");
    let since = match found {
        Some(c) if text(c, "status") == "False" => c["lastTransitionTime"].clone(),
        _ => json!(now),
    };
    conditions.retain(|c| text(c, "type") != "DisruptionAllowed");
    conditions.push(json!({
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "InsufficientPods",
        "observedGeneration": observed,
        "lastTransitionTime": since,
        "message": "",
    }));
    set(status, "conditions", conditions);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_answer_with_a_cause() {
        let budget = json!({"metadata": {"name": "b", "generation": 1}, "status": {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}});
        let status = check(&budget).expect_err("refused");
        assert_eq!(status.code, 429);
        let causes = status.details.expect("details").causes;
        assert_eq!(causes[0].message, "The disruption budget b needs 1 healthy pods and has 1 currently");
    }
}
