//! Which objects a quota with scopes counts.
//!
//! In: a quota, an object. Out: whether the quota is about it. Source of the rules: `pkg/quota/v1/evaluator/core`
//! (`podMatchesScopeFunc`, `pvcMatchesScopeFunc`) of Kubernetes.

use serde_json::Value;

use crate::kinds::resources::qos;
use crate::kinds::value::{empty, items, text};
use crate::rest::strategy::Kind;

/// Whether the scopes of a quota take in an object. Only pods and claims have any: a quota with scopes counts
/// nothing else.
pub(super) fn in_scope(quota: &Value, kind: &Kind, object: &Value) -> bool {
    let spec = &quota["spec"];
    if empty(&spec["scopes"]) && empty(&spec["scopeSelector"]) {
        return true;
    }
    let holds = match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => of_pod,
        ("", "persistentvolumeclaims") => of_claim,
        _ => return false,
    };
    items(spec, "scopes").iter().filter_map(Value::as_str).all(|scope| holds(scope, "Exists", &[], object))
        && items(&spec["scopeSelector"], "matchExpressions")
            .iter()
            .all(|it| holds(text(it, "scopeName"), text(it, "operator"), items(it, "values"), object))
}

fn of_pod(scope: &str, operator: &str, values: &[Value], pod: &Value) -> bool {
    let spec = &pod["spec"];
    let ends = || spec["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0);
    match scope {
        "Terminating" => ends(),
        "NotTerminating" => !ends(),
        "BestEffort" => qos(spec) == "BestEffort",
        "NotBestEffort" => qos(spec) != "BestEffort",
        "PriorityClass" => chosen(operator, values, &[text(spec, "priorityClassName")]),
        "CrossNamespacePodAffinity" => looks_into_other_namespaces(spec),
        _ => false,
    }
}

fn of_claim(scope: &str, operator: &str, values: &[Value], claim: &Value) -> bool {
    let status = &claim["status"];
    let classes = [
        text(&claim["spec"], "volumeAttributesClassName"),
        text(status, "currentVolumeAttributesClassName"),
        text(&status["modifyVolumeStatus"], "targetVolumeAttributesClassName"),
    ];
    scope == "VolumeAttributesClass" && chosen(operator, values, &classes)
}

/// Whether one of the names fits, as a label's value would; empty names are none.
fn chosen(operator: &str, values: &[Value], names: &[&str]) -> bool {
    let mut names = names.iter().filter(|name| !name.is_empty()).peekable();
    let nothing = names.peek().is_none();
    let listed = |name: &&&str| values.iter().any(|value| value == **name);
    match operator {
        "Exists" => !nothing,
        "DoesNotExist" => nothing,
        "In" => names.any(|name| listed(&name)),
        "NotIn" => nothing || names.any(|name| !listed(&name)),
        _ => false,
    }
}

fn looks_into_other_namespaces(spec: &Value) -> bool {
    let looks = |term: &Value| !empty(&term["namespaces"]) || !term["namespaceSelector"].is_null();
    ["podAffinity", "podAntiAffinity"].iter().any(|which| {
        let affinity = &spec["affinity"][which];
        items(affinity, "requiredDuringSchedulingIgnoredDuringExecution").iter().any(looks)
            || items(affinity, "preferredDuringSchedulingIgnoredDuringExecution")
                .iter()
                .any(|weighted| looks(&weighted["podAffinityTerm"]))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scopes_choose_pods() {
        let affine = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "t", "namespaceSelector": {}}]}}});
        let cases = [
            ("Terminating", "Exists", json!([]), json!({"activeDeadlineSeconds": 5}), true),
            ("NotTerminating", "Exists", json!([]), json!({"activeDeadlineSeconds": 5}), false),
            ("BestEffort", "Exists", json!([]), json!({"containers": [{"name": "c"}]}), true),
            ("PriorityClass", "Exists", json!([]), json!({"priorityClassName": "high"}), true),
            ("PriorityClass", "Exists", json!([]), json!({}), false),
            ("PriorityClass", "In", json!(["high"]), json!({"priorityClassName": "high"}), true),
            ("PriorityClass", "NotIn", json!(["high"]), json!({"priorityClassName": "high"}), false),
            ("PriorityClass", "NotIn", json!(["high"]), json!({}), true),
            ("PriorityClass", "DoesNotExist", json!([]), json!({}), true),
            ("CrossNamespacePodAffinity", "Exists", json!([]), affine, true),
            ("CrossNamespacePodAffinity", "Exists", json!([]), json!({}), false),
            ("VolumeAttributesClass", "Exists", json!([]), json!({}), false),
        ];
        for (scope, operator, values, spec, want) in cases {
            let values = values.as_array().expect("a list");
            let found = of_pod(scope, operator, values, &json!({ "spec": spec }));
            assert_eq!(found, want, "{scope} {operator} {values:?}: {spec}");
        }
    }

    #[test]
    fn the_class_of_a_claim_is_any_it_has_or_is_to_have() {
        let claim = json!({"spec": {"volumeAttributesClassName": "new"},
            "status": {"currentVolumeAttributesClassName": "old"}});
        for (operator, values, want) in [
            ("Exists", json!([]), true),
            ("In", json!(["old"]), true),
            ("In", json!(["other"]), false),
            ("NotIn", json!(["old"]), true),
            ("DoesNotExist", json!([]), false),
        ] {
            let values = values.as_array().expect("a list");
            assert_eq!(
                of_claim("VolumeAttributesClass", operator, values, &claim),
                want,
                "{operator} {values:?}"
            );
        }
        assert!(!of_claim("BestEffort", "Exists", &[], &claim));
    }
}
