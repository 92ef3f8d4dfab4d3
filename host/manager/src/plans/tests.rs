use serde_json::json;

use super::*;
use crate::contract::{GroupResource, Patch, Read, Step};

fn patch(kind: PatchKind, body: Value) -> Action {
    Action {
        tag: "t".into(),
        resource: 1,
        namespace: "default".into(),
        name: "a".into(),
        subresource: "status".into(),
        verb: Verb::Patch(Patch { kind, body: body.to_string(), field_manager: String::new(), force: false }),
        precondition: Precondition::None,
        on_success: None,
        on_failure: None,
    }
}

fn plan(actions: Vec<Action>) -> Plan {
    Plan {
        steps: vec![Step { actions, pace: Pace::Together, on_failure: OnFailure::Stop }],
        events: Vec::new(),
        not_before: None,
        quiet: 0,
        metrics: vec![],
        state: contract::StateChange::Keep,
    }
}

fn normal(plan: &Plan) -> Shown {
    Shown::new(plan, &Registry::new(), &Sensitive::default()).normal()
}

#[test]
fn what_the_contract_gives_no_order_has_none() {
    let (a, b) =
        (patch(PatchKind::Merge, json!({"a": 1, "b": [1, 2]})), patch(PatchKind::Merge, json!({"a": 2})));
    let mut spaced = a.clone();
    spaced.tag = "other".into();
    spaced.verb = Verb::Patch(Patch {
        kind: PatchKind::Merge,
        body: "{ \"b\": [1, 2], \"a\": 1 }".into(),
        field_manager: String::new(),
        force: false,
    });
    assert_eq!(normal(&plan(vec![a.clone(), b.clone()])), normal(&plan(vec![b.clone(), spaced])));
    // An array has an order, and so have steps.
    let turned = patch(PatchKind::Merge, json!({"a": 1, "b": [2, 1]}));
    assert_ne!(normal(&plan(vec![a.clone()])), normal(&plan(vec![turned])));
    let steps = |first: &Action, second: &Action| {
        let (mut one, two) = (plan(vec![first.clone()]), plan(vec![second.clone()]));
        one.steps.extend(two.steps);
        one
    };
    assert_ne!(normal(&steps(&a, &b)), normal(&steps(&b, &a)));
    assert_ne!(normal(&plan(vec![a.clone(), b.clone()])), normal(&steps(&a, &b)));
}

#[test]
fn what_makes_no_difference_is_none() {
    let a = patch(PatchKind::Merge, json!({"a": 1}));
    let mut other = plan(vec![a.clone()]);
    other.steps[0].pace = Pace::SlowStart;
    other.steps[0].on_failure = OnFailure::GoOn;
    other.steps.push(Step { actions: Vec::new(), pace: Pace::Together, on_failure: OnFailure::Stop });
    assert_eq!(normal(&plan(vec![a.clone()])), normal(&other));
    other.steps[0].actions.push(a.clone());
    let mut together = plan(vec![a.clone(), a]);
    assert_ne!(normal(&together), normal(&other));
    together.not_before = Some(contract::Timestamp { seconds: 1, millis: 0 });
    assert_ne!(normal(&together), normal(&other));
}

#[test]
fn a_write_is_shown_by_what_it_changes() {
    let before = json!({"metadata": {"annotations": {"a.b/c": "1"}, "generation": 1, "resourceVersion": "1"},
        "status": {"n": 1, "list": [1, {"x": 1}], "gone": true}});
    let mut after = before.clone();
    assert_eq!(changes(&before, &after), []);
    after["metadata"] = json!({"generation": 2, "resourceVersion": "2", "managedFields": [{"manager": "a"}]});
    after["status"] = json!({"n": 2, "new": "x", "list": [1, {"x": 2}]});
    let shown: Vec<_> = changes(&before, &after).iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "- metadata.annotations: {\"a.b/c\":\"1\"}",
            "- status.gone: true",
            "~ status.list[1].x: 1 -> 2",
            "~ status.n: 1 -> 2",
            "+ status.new: \"x\""
        ]
    );
}

#[test]
fn what_is_sensitive_is_not_shown() {
    let secrets = GroupResource { group: String::new(), version: "v1".into(), resource: "secrets".into() };
    let read = Read {
        resource: secrets.clone(),
        optional: false,
        fields: Vec::new(),
        whole: true,
        sensitive: vec!["data".into(), "list[*].key".into()],
        indexes: Vec::new(),
    };
    let tree = Sensitive::of([&read]);
    let mut object =
        json!({"metadata": {"name": "a"}, "data": {"token": "s3cret"}, "list": [{"key": "s3cret", "n": 1}]});
    tree.redact(&secrets, &mut object);
    let redacted = json!({"metadata": {"name": "a"}, "data": {"token": "(redacted)"}, "list": [{"key": "(redacted)", "n": 1}]});
    assert_eq!(object, redacted);
    let mut operations = json!([
        {"op": "add", "path": "/data/token", "value": "s3cret"},
        {"op": "add", "path": "/data", "value": {"token": "s3cret"}},
        {"op": "replace", "path": "/list/0/key", "value": "s3cret"},
        {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
    ]);
    tree.redact(&secrets, &mut operations);
    assert!(!operations.to_string().contains("s3cret"), "{operations}");
    assert!(operations.to_string().contains(r#"{"a":"b"}"#), "{operations}");
}
