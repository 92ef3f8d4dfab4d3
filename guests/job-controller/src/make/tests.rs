use coxswain_sdk::contract::Verb;
use serde_json::{Value, json};

use super::*;
use crate::tests::{indexed, job, pod};

fn bodies(job: &Job, indexes: &[Option<i64>]) -> Vec<Value> {
    let actions = creations(job, &Tally::of(job, &[]), indexes).unwrap();
    actions.iter().map(body).collect()
}

fn body(action: &Action) -> Value {
    match action.verb() {
        Verb::Create(body) => serde_json::from_str(body).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn template(spec: Value) -> Value {
    json!({"spec": {"template": {
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["other.example.com/f"]},
        "spec": spec,
    }}})
}

#[test]
fn pods_are_the_template_with_a_finalizer() {
    let spec = json!({"containers": [{"name": "c"}], "fieldOfTheFuture": {"x": [1, 2.50, null]}});
    let made = bodies(&job(template(spec.clone())), &[None, None]);
    assert_eq!(made.len(), 2);
    assert_eq!(made[0]["spec"], spec);
    assert_eq!(
        made[0]["metadata"],
        json!({
            "generateName": "sums-", "namespace": "ns",
            "labels": {"a": "b"}, "annotations": {"c": "d"},
            "finalizers": ["other.example.com/f", TRACKING],
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "Job", "name": "sums", "uid": "job",
                "controller": true, "blockOwnerDeletion": true,
            }],
        })
    );
    // A template that has the finalizer does not get it twice.
    let mut named = template(json!({}));
    named["spec"]["template"]["metadata"]["finalizers"] = json!([TRACKING]);
    assert_eq!(bodies(&job(named), &[None])[0]["metadata"]["finalizers"], json!([TRACKING]));
}

#[test]
fn pods_of_an_index_know_it() {
    let spec = json!({
        "hostname": "of-the-template",
        "initContainers": [{"name": "i", "env": null}],
        "containers": [{"name": "c", "env": [{"name": "A", "value": "1"}]}, {"name": "own", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "7"}]}],
        "fieldOfTheFuture": true,
    });
    let made = bodies(&indexed(template(spec)), &[Some(0), Some(12)]);
    let variable = json!({"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {
        "fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']",
    }}});
    for (made, index) in made.iter().zip(["0", "12"]) {
        assert_eq!(made["metadata"]["generateName"], format!("sums-{index}-"));
        assert_eq!(made["metadata"]["labels"], json!({"a": "b", INDEX: index}));
        assert_eq!(made["metadata"]["annotations"], json!({"c": "d", INDEX: index}));
        assert_eq!(made["spec"]["hostname"], format!("sums-{index}"));
        assert_eq!(made["spec"]["fieldOfTheFuture"], true);
        assert_eq!(made["spec"]["initContainers"][0]["env"], json!([variable]));
        assert_eq!(made["spec"]["containers"][0]["env"], json!([{"name": "A", "value": "1"}, variable]));
        assert_eq!(
            made["spec"]["containers"][1]["env"],
            json!([{"name": "JOB_COMPLETION_INDEX", "value": "7"}])
        );
    }
    assert_eq!(bodies(&indexed(template(json!({}))), &[Some(1)])[0]["spec"], json!({"hostname": "sums-1"}));
    assert_eq!(bodies(&indexed(template(json!(null))), &[Some(1)])[0]["spec"], json!({"hostname": "sums-1"}));
}

#[test]
fn a_replacement_carries_the_failures_of_its_index_on() {
    let policy = json!({"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [9]}}]});
    let mut work = template(json!({}));
    work["spec"]["backoffLimitPerIndex"] = json!(5);
    work["spec"]["podFailurePolicy"] = policy;
    let work = indexed(work);
    let failed = |failures: Option<&str>, ignored: Option<&str>, code: i32| {
        let annotations = json!({
            INDEX: "0", FAILURES: failures, IGNORED_FAILURES: ignored,
        });
        let ended = json!([{"name": "c", "state": {"terminated": {"exitCode": code}}}]);
        pod(
            "old",
            json!({"metadata": {"annotations": annotations}, "status": {"phase": "Failed", "containerStatuses": ended}}),
        )
    };
    for (replaced, failures, ignored) in [
        (None, "0", json!(null)),
        (Some(failed(Some("0"), None, 1)), "1", json!(null)),
        (Some(failed(Some("2"), Some("3"), 1)), "3", json!("3")),
        (Some(failed(Some("2"), Some("3"), 9)), "2", json!("4")),
        (Some(failed(Some("2"), None, 9)), "2", json!("1")),
        // Nonsense counts as nothing.
        (Some(failed(None, None, 1)), "1", json!(null)),
        (Some(failed(Some("-4"), Some("x"), 1)), "1", json!(null)),
        (Some(failed(Some("99999999999"), None, 1)), "1", json!(null)),
    ] {
        let pods: Vec<_> = replaced.into_iter().collect();
        let made = body(&creations(&work, &Tally::of(&work, &pods), &[Some(0)]).unwrap()[0]);
        let annotations = &made["metadata"]["annotations"];
        assert_eq!((&annotations[FAILURES], &annotations[IGNORED_FAILURES]), (&json!(failures), &ignored));
    }
}

#[test]
fn long_names_are_cut_before_the_index() {
    assert_eq!(prefix("sums", 3), "sums-3-");
    let long = "a".repeat(63);
    assert_eq!(prefix(&long, 3), format!("{}-3-", "a".repeat(55)));
    assert_eq!(prefix(&long, 12345), format!("{}-12345-", "a".repeat(51)));
    assert_eq!(prefix(&"a".repeat(55), 3), format!("{}-3-", "a".repeat(55)));
}
