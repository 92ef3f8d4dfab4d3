//! Annotations of pods and pod templates that are more than a note: what they have to look like.
//!
//! Source of the rules: `ValidatePodSpecificAnnotations` and `ValidatePodSpecificAnnotationUpdates` of Kubernetes.

use serde_json::Value;

use super::value::text;
use crate::status::FieldError;

/// What it costs to delete a pod before others of its ReplicaSet.
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Checks the cost in `metadata`, whose annotations are at `path`.
pub(super) fn cost(out: &mut Vec<FieldError>, metadata: &Value, path: &str) {
    let value = &metadata["annotations"][COST];
    if value.as_str().is_some_and(|text| !is_cost(text)) {
        out.push(FieldError::invalid(format!("{path}[{COST}]"), value, "must be a 32bit integer"));
    }
}

/// A number without a plus or zeros in front of it.
fn is_cost(text: &str) -> bool {
    (text == "0" || !text.starts_with(['+', '0'])) && text.parse::<i32>().is_ok()
}

/// Checks a changed pod.
pub(super) fn change(out: &mut Vec<FieldError>, old: &Value, new: &Value) {
    const PATH: &str = "metadata.annotations";
    let mut found = Vec::new();
    cost(&mut found, &new["metadata"], PATH);
    forgive(&mut found, || {
        let mut before = Vec::new();
        cost(&mut before, &old["metadata"], PATH);
        before
    });
    out.append(&mut found);
}

/// Takes a wrong cost out of `found` if it was wrong before the change already, as `before` tells.
pub(super) fn forgive(found: &mut Vec<FieldError>, before: impl FnOnce() -> Vec<FieldError>) {
    let of_cost = |error: &FieldError| error.field.strip_suffix(']').is_some_and(|f| f.ends_with(COST));
    if !found.iter().any(of_cost) {
        return;
    }
    let before = before();
    found.retain(|error| !of_cost(error) || !before.iter().any(|old| old.field == error.field));
}

/// A kubelet's mirror of a pod of its own is on its node from the start.
pub(super) fn mirror(out: &mut Vec<FieldError>, object: &Value) {
    const MIRROR: &str = "kubernetes.io/config.mirror";
    let value = &object["metadata"]["annotations"][MIRROR];
    if value.is_string() && text(&object["spec"], "nodeName").is_empty() {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        out.push(FieldError::invalid(format!("metadata.annotations[{MIRROR}]"), value, detail));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn costs_are_32bit_integers() {
        for good in ["0", "10", "-10", "-0", "-007", "2147483647", "-2147483648"] {
            assert!(is_cost(good), "{good}");
        }
        for bad in ["", "-", "+10", "008", "00", "1.5", "1_0", " 1", "many", "2147483648"] {
            assert!(!is_cost(bad), "{bad}");
        }
        let mut out = Vec::new();
        cost(&mut out, &json!({"annotations": {COST: "+1"}}), "spec.template.annotations");
        cost(&mut out, &json!({"annotations": {"other": "+1"}}), "metadata.annotations");
        let told: Vec<String> = out.iter().map(ToString::to_string).collect();
        let want = "spec.template.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: \"+1\": must be a 32bit integer";
        assert_eq!(told, [want]);
    }

    #[test]
    fn a_cost_that_was_wrong_may_stay_so() {
        let pod = |cost: Option<&str>| json!({"metadata": {"annotations": {COST: cost}}});
        for (old, new, refused) in [
            (None, Some("x"), true),
            (Some("1"), Some("x"), true),
            (Some("x"), Some("y"), false),
            (Some("x"), Some("1"), false),
            (Some("1"), None, false),
        ] {
            let mut out = Vec::new();
            change(&mut out, &pod(old), &pod(new));
            assert_eq!(!out.is_empty(), refused, "{old:?} {new:?}");
        }
    }
}
