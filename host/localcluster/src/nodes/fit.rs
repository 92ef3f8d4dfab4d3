//! Whether a pod may run on a node: names, selectors, affinity to nodes, taints.

use serde_json::Value;

use super::annotations::OWN;

/// Whether a pod may be put on a node.
pub fn fits(pod: &Value, node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    let spec = &pod["spec"];
    if labels[OWN].as_str().is_some_and(|own| Some(own) != pod["metadata"]["namespace"].as_str()) {
        return false;
    }
    let selected =
        spec["nodeSelector"].as_object().is_none_or(|wanted| wanted.iter().all(|(k, v)| labels[k] == *v));
    selected && matches_affinity(spec, node) && tolerated(spec, node)
}

fn matches_affinity(spec: &Value, node: &Value) -> bool {
    let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let Some(terms) = required["nodeSelectorTerms"].as_array() else { return true };
    terms.iter().any(|term| {
        let labels = each(&term["matchExpressions"])
            .all(|e| holds(node["metadata"]["labels"][e["key"].as_str().unwrap_or("")].as_str(), e));
        let fields = each(&term["matchFields"]).all(|e| holds(node["metadata"]["name"].as_str(), e));
        labels && fields
    })
}

fn holds(value: Option<&str>, expression: &Value) -> bool {
    let among = || each(&expression["values"]).any(|v| v.as_str() == value);
    let number = |text: Option<&str>| text.and_then(|t| t.parse::<i64>().ok());
    let compare = |test: fn(&i64, &i64) -> bool| {
        number(value).zip(number(expression["values"][0].as_str())).is_some_and(|(a, b)| test(&a, &b))
    };
    match expression["operator"].as_str() {
        Some("In") => value.is_some() && among(),
        Some("NotIn") => value.is_none() || !among(),
        Some("Exists") => value.is_some(),
        Some("DoesNotExist") => value.is_none(),
        Some("Gt") => compare(i64::gt),
        Some("Lt") => compare(i64::lt),
        _ => false,
    }
}

fn tolerated(spec: &Value, node: &Value) -> bool {
    let tolerations = &spec["tolerations"];
    if node["spec"]["unschedulable"] == true
        && !tolerates(tolerations, "node.kubernetes.io/unschedulable", "", "NoSchedule")
    {
        return false;
    }
    each(&node["spec"]["taints"]).all(|taint| {
        let text = |field: &str| taint[field].as_str().unwrap_or("");
        let effect = text("effect");
        !matches!(effect, "NoSchedule" | "NoExecute")
            || tolerates(tolerations, text("key"), text("value"), effect)
    })
}

fn tolerates(tolerations: &Value, key: &str, value: &str, effect: &str) -> bool {
    each(tolerations).any(|t| {
        let text = |field: &str| t[field].as_str().unwrap_or("");
        if !text("effect").is_empty() && text("effect") != effect {
            return false;
        }
        let exists = text("operator") == "Exists";
        match text("key") {
            "" => exists,
            k => k == key && (exists || text("value") == value),
        }
    })
}

fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node() -> Value {
        json!({"metadata": {"name": "n1", "labels": {"zone": "a", "cores": "8"}}, "spec": {}})
    }

    fn with_affinity(term: Value) -> Value {
        json!({"metadata": {"namespace": "ns"}, "spec": {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}}})
    }

    #[test]
    fn affinity_to_labels_and_to_the_name() {
        let e = |key: &str, op: &str, values: Value| json!({"key": key, "operator": op, "values": values});
        let table = [
            (json!({"matchExpressions": [e("zone", "In", json!(["a", "b"]))]}), true),
            (json!({"matchExpressions": [e("zone", "NotIn", json!(["a"]))]}), false),
            (json!({"matchExpressions": [e("disk", "NotIn", json!(["ssd"]))]}), true),
            (json!({"matchExpressions": [e("disk", "Exists", json!(null))]}), false),
            (json!({"matchExpressions": [e("disk", "DoesNotExist", json!(null))]}), true),
            (json!({"matchExpressions": [e("cores", "Gt", json!(["4"]))]}), true),
            (json!({"matchExpressions": [e("cores", "Lt", json!(["4"]))]}), false),
            (json!({"matchFields": [e("metadata.name", "In", json!(["n1"]))]}), true),
            (json!({"matchFields": [e("metadata.name", "In", json!(["n2"]))]}), false),
        ];
        for (term, good) in table {
            assert_eq!(fits(&with_affinity(term.clone()), &node()), good, "{term}");
        }
    }

    #[test]
    fn taints_need_a_toleration() {
        let mut tainted = node();
        tainted["spec"]["taints"] = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
        let table = [
            (json!([]), false),
            (json!([{"key": "k", "operator": "Exists"}]), true),
            (json!([{"key": "k", "value": "v"}]), true),
            (json!([{"key": "k", "value": "w"}]), false),
            (json!([{"operator": "Exists"}]), true),
            (json!([{"key": "k", "operator": "Exists", "effect": "NoExecute"}]), false),
        ];
        for (tolerations, good) in table {
            let pod = json!({"metadata": {"namespace": "ns"}, "spec": {"tolerations": tolerations}});
            assert_eq!(fits(&pod, &tainted), good, "{pod}");
        }
        tainted["spec"] = json!({"unschedulable": true});
        assert!(!fits(&json!({"spec": {}}), &tainted));
        tainted["spec"]["taints"] = json!([{"key": "k", "effect": "PreferNoSchedule"}]);
        tainted["spec"]["unschedulable"] = json!(false);
        assert!(fits(&json!({"spec": {}}), &tainted));
    }

    #[test]
    fn a_node_of_its_own_takes_one_namespace() {
        let mut own = node();
        own["metadata"]["labels"][OWN] = json!("ns");
        assert!(fits(&json!({"metadata": {"namespace": "ns"}, "spec": {}}), &own));
        assert!(!fits(&json!({"metadata": {"namespace": "other"}, "spec": {}}), &own));
    }
}
