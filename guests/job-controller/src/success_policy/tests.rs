use serde_json::{Value, json};

use super::*;

fn rule_met(rules: Value, completed: &str) -> Option<String> {
    let job = json!({"metadata": {"name": "sums"}, "spec": {
        "completionMode": "Indexed", "completions": 10, "successPolicy": {"rules": rules},
    }});
    met(&serde_json::from_value::<Job>(job).unwrap(), &Indexes::parse(completed, 10))
}

#[test]
fn any_rule_will_do() {
    let indexes = |text: &str| json!({"succeededIndexes": text});
    let count = |count: i32| json!({"succeededCount": count});
    let both = |text: &str, count: i32| json!({"succeededIndexes": text, "succeededCount": count});
    for (rules, completed, index) in [
        (vec![indexes("0-2")], "0-2", Some(0)),
        (vec![indexes("0-2")], "0-9", Some(0)),
        (vec![indexes("0-2")], "0,2", None),
        (vec![indexes("0-2,5,7-8")], "0-5,7-9", Some(0)),
        (vec![count(3)], "0,4,9", Some(0)),
        (vec![count(3)], "0,4", None),
        (vec![both("0-4", 2)], "1,3", Some(0)),
        (vec![both("0-4", 2)], "1,7-9", None),
        (vec![both("0-1", 5)], "0,1", Some(0)),
        (vec![indexes("0"), count(2)], "3,4", Some(1)),
        (vec![indexes("3"), count(2)], "3,4", Some(0)),
        // Rules that mean nothing, and none at all.
        (vec![indexes("x")], "0-9", None),
        (vec![indexes("")], "0-9", None),
        (vec![indexes("12-15")], "0-9", None),
        (vec![json!({})], "0-9", None),
        (vec![], "0-9", None),
        // Nothing has succeeded yet.
        (vec![count(0)], "", None),
    ] {
        let expected = index.map(|index: i32| format!("Matched rules at index {index}"));
        assert_eq!(rule_met(json!(rules), completed), expected, "{rules:?} with {completed:?}");
    }
}

#[test]
fn without_a_policy_nothing_is_met() {
    let job = json!({"metadata": {"name": "sums"}, "spec": {"completionMode": "Indexed", "completions": 3}});
    assert_eq!(met(&serde_json::from_value::<Job>(job).unwrap(), &Indexes::parse("0-2", 3)), None);
}
