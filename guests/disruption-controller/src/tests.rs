//! What the controller does, scenario by scenario, and what it reads.

use coxswain_sdk::selector::LabelSelector;
use coxswain_sdk::{Time, from_json, manifest_of};

use crate::budget::in_words;
use crate::stale::stale_from;
use crate::{DisruptionController, Pod};

#[test]
fn scenarios() {
    let scenarios = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    coxswain_sdk::testing::scenarios::<DisruptionController>(scenarios);
}

#[test]
fn it_reads_no_more_than_it_uses() {
    let manifest = manifest_of::<DisruptionController>();
    let fields: Vec<Vec<&str>> =
        manifest.reads.iter().map(|read| read.fields.iter().map(String::as_str).collect()).collect();
    let budgets = vec![
        "spec.maxUnavailable",
        "spec.minAvailable",
        "spec.selector.matchExpressions[*].key",
        "spec.selector.matchExpressions[*].operator",
        "spec.selector.matchExpressions[*].values",
        "spec.selector.matchLabels",
        "status.conditions",
        "status.currentHealthy",
        "status.desiredHealthy",
        "status.disruptedPods",
        "status.disruptionsAllowed",
        "status.expectedPods",
        "status.observedGeneration",
    ];
    let pods = vec![
        "status.conditions[*].lastTransitionTime",
        "status.conditions[*].reason",
        "status.conditions[*].status",
        "status.conditions[*].type",
        "status.phase",
    ];
    let replicas = vec!["spec.replicas"];
    assert_eq!(fields, [budgets, pods, replicas.clone(), replicas.clone(), replicas.clone(), replicas]);
}

#[test]
fn a_mark_is_stale_two_minutes_after_it_was_made() {
    let mark = |more: &str| {
        format!(r#""type":"DisruptionTarget","lastTransitionTime":"2026-01-01T00:00:00Z",{more}"#)
    };
    let stale = Time::parse("2026-01-01T00:02:00Z");
    for (about, meta, phase, condition, expected) in [
        ("marked", "", "Running", mark(r#""status":"True","reason":"EvictionByEvictionAPI""#), stale),
        ("without a reason", "", "Pending", mark(r#""status":"True""#), stale),
        ("taken back", "", "Running", mark(r#""status":"False""#), None),
        ("the kubelet's", "", "Running", mark(r#""status":"True","reason":"TerminationByKubelet""#), None),
        ("failed", "", "Failed", mark(r#""status":"True""#), None),
        ("succeeded", "", "Succeeded", mark(r#""status":"True""#), None),
        (
            "going",
            r#""deletionTimestamp":"2026-01-01T00:01:00Z""#,
            "Running",
            mark(r#""status":"True""#),
            None,
        ),
        ("another", "", "Running", r#""type":"Ready","status":"True""#.to_owned(), None),
        (
            "undated",
            "",
            "Running",
            r#""type":"DisruptionTarget","status":"True""#.to_owned(),
            Time::parse("1970-01-01T00:02:00Z"),
        ),
    ] {
        let text = format!(
            r#"{{"metadata":{{{meta}}},"status":{{"phase":"{phase}","conditions":[{{{condition}}}]}}}}"#
        );
        let pod: Pod = from_json(&text).unwrap();
        assert_eq!(stale_from(&pod), expected, "{about}");
    }
}

#[test]
fn selectors_in_events_are_in_the_words_that_users_know() {
    let selector: LabelSelector = from_json(
        r#"{"matchLabels":{"app":"web","b":"c"},"matchExpressions":[{"key":"x","operator":"In","values":["1","2"]},{"key":"y","operator":"Exists"}]}"#,
    )
    .unwrap();
    assert_eq!(
        in_words(Some(&selector)),
        "&LabelSelector{MatchLabels:map[string]string{app: web,b: c,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:x,Operator:In,Values:[1 2],},LabelSelectorRequirement{Key:y,Operator:Exists,Values:[],},},}"
    );
    assert_eq!(in_words(None), "nil");
}
