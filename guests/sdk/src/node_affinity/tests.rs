use serde_json::json;

use super::*;

fn labels() -> StringMap {
    let pairs = [("zone", "a"), ("disk", "ssd"), ("cores", "8"), ("odd", "x9"), ("empty", "")];
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn matches(selector: serde_json::Value) -> bool {
    let selector: NodeSelector = serde_json::from_value(selector).unwrap();
    selector.matches("node-1", &labels())
}

#[test]
fn each_operator_judges_labels() {
    for (key, operator, values, wanted) in [
        ("zone", "In", json!(["a", "b"]), true),
        ("zone", "In", json!(["b"]), false),
        ("none", "In", json!(["a"]), false),
        ("zone", "In", json!([]), false),
        ("zone", "NotIn", json!(["b"]), true),
        ("zone", "NotIn", json!(["a"]), false),
        ("none", "NotIn", json!(["a"]), true),
        ("zone", "Exists", json!([]), true),
        ("zone", "Exists", json!(null), true),
        ("none", "Exists", json!([]), false),
        ("zone", "Exists", json!(["a"]), false),
        ("none", "DoesNotExist", json!([]), true),
        ("zone", "DoesNotExist", json!([]), false),
        ("cores", "Gt", json!(["7"]), true),
        ("cores", "Gt", json!(["8"]), false),
        ("cores", "Lt", json!(["9"]), true),
        ("cores", "Lt", json!(["8"]), false),
        ("cores", "Lt", json!(["9", "10"]), false),
        ("cores", "Gt", json!(["x"]), false),
        ("odd", "Gt", json!(["1"]), false),
        ("none", "Gt", json!(["1"]), false),
        ("zone", "Like", json!(["a"]), false),
    ] {
        let term = json!({"nodeSelectorTerms": [{"matchExpressions": [
            {"key": key, "operator": operator, "values": values}
        ]}]});
        assert_eq!(matches(term), wanted, "{key} {operator} {values}");
    }
}

#[test]
fn the_name_is_the_only_field() {
    for (key, operator, values, wanted) in [
        ("metadata.name", "In", json!(["node-1"]), true),
        ("metadata.name", "In", json!(["node-2"]), false),
        ("metadata.name", "In", json!(["node-1", "node-2"]), false),
        ("metadata.name", "NotIn", json!(["node-2"]), true),
        ("metadata.name", "NotIn", json!(["node-1"]), false),
        ("metadata.name", "Exists", json!([]), false),
        ("metadata.uid", "In", json!(["node-1"]), false),
        ("metadata.uid", "NotIn", json!(["node-1"]), true),
    ] {
        let term = json!({"nodeSelectorTerms": [{"matchFields": [
            {"key": key, "operator": operator, "values": values}
        ]}]});
        assert_eq!(matches(term), wanted, "{key} {operator} {values}");
    }
}

#[test]
fn one_term_is_enough_and_within_a_term_all_must_hold() {
    let is = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    for (selector, wanted) in [
        (json!({}), false),
        (json!({"nodeSelectorTerms": null}), false),
        (json!({"nodeSelectorTerms": [{}]}), false),
        (json!({"nodeSelectorTerms": [{}, {"matchExpressions": [is("zone", "a")]}]}), true),
        (json!({"nodeSelectorTerms": [{"matchExpressions": [is("zone", "a"), is("disk", "ssd")]}]}), true),
        (json!({"nodeSelectorTerms": [{"matchExpressions": [is("zone", "a"), is("disk", "hdd")]}]}), false),
        (
            json!({"nodeSelectorTerms": [
                {"matchExpressions": [is("zone", "b")]},
                {"matchExpressions": [is("disk", "ssd")], "matchFields": [is("metadata.name", "node-1")]},
            ]}),
            true,
        ),
        (
            json!({"nodeSelectorTerms": [
                {"matchExpressions": [is("disk", "ssd")], "matchFields": [is("metadata.name", "node-2")]},
            ]}),
            false,
        ),
    ] {
        assert_eq!(matches(selector.clone()), wanted, "{selector}");
    }
}

#[test]
fn selector_and_affinity_must_both_allow() {
    let selector: StringMap = [("zone".to_owned(), "a".to_owned())].into();
    let other: StringMap = [("zone".to_owned(), "b".to_owned())].into();
    let nowhere = NodeSelector::default();
    assert!(allows(&StringMap::new(), None, "node-1", &labels()));
    assert!(allows(&selector, None, "node-1", &labels()));
    assert!(!allows(&other, None, "node-1", &labels()));
    assert!(!allows(&selector, Some(&nowhere), "node-1", &labels()));
}
