use serde_json::{Value, json};

use super::*;

fn meaning(rules: Value, status: Value) -> Meaning {
    by_rule(rules, status).unwrap_or(Meaning::Count)
}

fn by_rule(rules: Value, status: Value) -> Option<Meaning> {
    let policy: PodFailurePolicy = serde_json::from_value(json!({ "rules": rules })).unwrap();
    let pod = json!({"metadata": {"name": "p", "namespace": "ns"}, "status": status});
    Meaning::by_policy(&policy, &serde_json::from_value(pod).unwrap())
}

fn ended(name: &str, code: i32) -> Value {
    json!({"name": name, "state": {"terminated": {"exitCode": code}}})
}

fn codes(action: &str, operator: &str, values: &[i32]) -> Value {
    json!({"action": action, "onExitCodes": {"operator": operator, "values": values}})
}

fn condition(action: &str, kind: &str, status: &str) -> Value {
    json!({"action": action, "onPodConditions": [{"type": kind, "status": status}]})
}

fn fail_job(message: &str) -> Meaning {
    Meaning::FailJob(message.to_owned())
}

#[test]
fn exit_codes_decide() {
    let main = |code| json!({"phase": "Failed", "containerStatuses": [ended("main", code)]});
    let why = |code: i32, rule: usize| {
        fail_job(&format!(
            "Container main for pod ns/p failed with exit code {code} matching FailJob rule at index {rule}"
        ))
    };
    for (rule, code, expected) in [
        (codes("FailJob", "In", &[1, 2]), 2, why(2, 0)),
        (codes("FailJob", "In", &[1, 2]), 3, Meaning::Count),
        (codes("FailJob", "NotIn", &[1, 2]), 3, why(3, 0)),
        (codes("FailJob", "NotIn", &[1, 2]), 2, Meaning::Count),
        // Success never fits, not even as one of all other codes.
        (codes("FailJob", "NotIn", &[1]), 0, Meaning::Count),
        (codes("Ignore", "In", &[137]), 137, Meaning::Ignore),
        (codes("Count", "In", &[137]), 137, Meaning::Count),
        (codes("FailIndex", "In", &[137]), 137, Meaning::FailIndex),
        (codes("Later", "In", &[137]), 137, Meaning::Count),
        (codes("FailJob", "in", &[137]), 137, Meaning::Count),
    ] {
        assert_eq!(meaning(json!([rule.clone()]), main(code)), expected, "{rule} with {code}");
    }
}

#[test]
fn what_no_rule_fits_counts_by_no_rule() {
    let ended = json!({"containerStatuses": [ended("main", 5)]});
    for (action, code, told) in [
        ("Count", 5, Some("Count")),
        ("Ignore", 5, Some("Ignore")),
        ("FailIndex", 5, Some("FailIndex")),
        ("FailJob", 5, Some("FailJob")),
        ("Count", 6, None),
        ("Later", 5, None),
    ] {
        let by_rule = by_rule(json!([codes(action, "In", &[code])]), ended.clone());
        assert_eq!(by_rule.as_ref().map(Meaning::action), told, "{action} {code}");
    }
}

#[test]
fn the_first_rule_that_fits_decides() {
    let status = json!({
        "containerStatuses": [ended("main", 7)],
        "conditions": [{"type": "DisruptionTarget", "status": "True"}],
    });
    let rules = json!([
        codes("Count", "In", &[1]),
        condition("Ignore", "DisruptionTarget", "True"),
        codes("FailJob", "In", &[7]),
    ]);
    assert_eq!(meaning(rules, status.clone()), Meaning::Ignore);
    // An action that nobody knows is passed over.
    let rules = json!([codes("Later", "In", &[7]), codes("FailJob", "In", &[7])]);
    let why = "Container main for pod ns/p failed with exit code 7 matching FailJob rule at index 1";
    assert_eq!(meaning(rules, status), fail_job(why));
    assert_eq!(meaning(json!([]), json!({"phase": "Failed"})), Meaning::Count);
}

#[test]
fn containers_are_looked_at_in_order_and_by_name() {
    let status = json!({
        "containerStatuses": [
            {"name": "running", "state": {"running": {}}},
            {"name": "new"},
            ended("good", 0),
            ended("bad", 3),
            ended("worse", 4),
        ],
        "initContainerStatuses": [ended("init", 5)],
    });
    let of = |name: &str, values: &[i32]| {
        let mut rule = codes("FailJob", "In", values);
        rule["onExitCodes"]["containerName"] = json!(name);
        json!([rule])
    };
    let why = |container: &str, code: i32| {
        fail_job(&format!(
            "Container {container} for pod ns/p failed with exit code {code} matching FailJob rule at index 0"
        ))
    };
    assert_eq!(meaning(json!([codes("FailJob", "In", &[5, 4, 3])]), status.clone()), why("bad", 3));
    assert_eq!(meaning(of("worse", &[3, 4]), status.clone()), why("worse", 4));
    assert_eq!(meaning(of("init", &[5]), status.clone()), why("init", 5));
    assert_eq!(meaning(of("bad", &[4]), status.clone()), Meaning::Count);
    assert_eq!(meaning(of("nobody", &[3]), status), Meaning::Count);
}

#[test]
fn conditions_decide_by_type_and_status() {
    let status = json!({"phase": "Failed", "conditions": [
        {"type": "Ready", "status": "False"},
        {"type": "DisruptionTarget", "status": "True"},
    ]});
    let why = fail_job("Pod ns/p has condition DisruptionTarget matching FailJob rule at index 0");
    for (rule, expected) in [
        (condition("FailJob", "DisruptionTarget", "True"), why.clone()),
        (condition("FailJob", "DisruptionTarget", "False"), Meaning::Count),
        (condition("Ignore", "Ready", "False"), Meaning::Ignore),
        (condition("FailIndex", "Ready", "False"), Meaning::FailIndex),
        (condition("Ignore", "Other", "True"), Meaning::Count),
        (json!({"action": "Ignore", "onPodConditions": null}), Meaning::Count),
        (json!({"action": "Ignore"}), Meaning::Count),
    ] {
        assert_eq!(meaning(json!([rule.clone()]), status.clone()), expected, "{rule}");
    }
    // Codes are asked first where a rule names both.
    let both = json!([{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]},
        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]);
    assert_eq!(meaning(both, status), Meaning::Count);
}
