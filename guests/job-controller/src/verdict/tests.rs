use coxswain_sdk::Object;
use serde_json::{Value, json};

use super::*;
use crate::tests::{at, indexed, indexed_pod, job, pod};
use crate::view::Pod;

fn reason(job: &Job, pods: &[Object<Pod>], now: i64) -> Option<String> {
    let tally = Tally::of(job, pods);
    Verdict::of(job, &tally, Some(at(0)), at(now)).map(|verdict| verdict.reason)
}

fn failed(name: &str) -> Object<Pod> {
    pod(name, json!({"status": {"phase": "Failed"}}))
}

#[test]
fn what_is_recorded_stands() {
    let recorded = |kind: &str, status: &str| json!([{"type": kind, "status": status, "reason": "Before", "message": "as it was"}]);
    let one_failure_too_many = [failed("a")];
    for (conditions, expected) in [
        (json!([]), "BackoffLimitExceeded"),
        (recorded("FailureTarget", "True"), "Before"),
        (recorded("SuccessCriteriaMet", "True"), "Before"),
        // Somebody wrote that it is not so.
        (recorded("FailureTarget", "False"), "BackoffLimitExceeded"),
        (recorded("SuccessCriteriaMet", "False"), "BackoffLimitExceeded"),
    ] {
        let job = job(json!({"spec": {"backoffLimit": 0}, "status": {"conditions": conditions}}));
        assert_eq!(reason(&job, &one_failure_too_many, 0).as_deref(), Some(expected), "{conditions}");
    }
    let both = json!([
        {"type": "FailureTarget", "status": "True", "reason": "Bad"},
        {"type": "SuccessCriteriaMet", "status": "True", "reason": "Good"},
    ]);
    let job = job(json!({"status": {"conditions": both}}));
    let verdict = Verdict::of(&job, &Tally::of(&job, &[]), None, at(0)).unwrap();
    assert_eq!(
        (verdict.success, verdict.interim(), verdict.terminal()),
        (true, SUCCESS_CRITERIA_MET, COMPLETE)
    );
}

#[test]
fn of_several_reasons_the_first_counts() {
    // Index 0 has succeeded, index 1 has failed; a rule for each reason.
    let pods = [
        indexed_pod("ok", "0", "Succeeded"),
        pod(
            "bad",
            json!({
                "metadata": {"annotations": {"batch.kubernetes.io/job-completion-index": "1"}},
                "status": {"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}]},
            }),
        ),
    ];
    let mut spec = json!({
        "completions": 2, "backoffLimit": 0, "activeDeadlineSeconds": 5,
        "backoffLimitPerIndex": 0, "maxFailedIndexes": 0,
        "podFailurePolicy": {"rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]},
        "successPolicy": {"rules": [{"succeededCount": 1}]},
    });
    for (expected, without) in [
        ("PodFailurePolicy", json!({"podFailurePolicy": null})),
        ("BackoffLimitExceeded", json!({"backoffLimit": 6})),
        ("DeadlineExceeded", json!({"activeDeadlineSeconds": null})),
        ("MaxFailedIndexesExceeded", json!({"maxFailedIndexes": 1})),
        ("FailedIndexes", json!({"completions": 3})),
        ("SuccessPolicy", json!({"successPolicy": null})),
    ] {
        assert_eq!(reason(&indexed(json!({"spec": spec})), &pods, 9).as_deref(), Some(expected), "{spec}");
        coxswain_sdk::merge::apply(&mut spec, &without);
    }
    assert_eq!(reason(&indexed(json!({"spec": spec})), &pods, 9), None);
}

#[test]
fn more_failures_than_the_limit_are_too_many() {
    let uncounted = json!({"failed": 1, "uncountedTerminatedPods": {"failed": ["gone"]}});
    for (limit, status, pods, too_many) in [
        (0, json!({}), vec![], false),
        (0, json!({}), vec![failed("a")], true),
        (1, json!({}), vec![failed("a")], false),
        (1, json!({}), vec![failed("a"), failed("b")], true),
        // Counted, listed and new ones all count, each once.
        (2, uncounted.clone(), vec![], false),
        (2, uncounted.clone(), vec![failed("gone")], false),
        (2, uncounted.clone(), vec![failed("a")], true),
        (i32::MAX, json!({"failed": i32::MAX}), vec![], false),
        (i32::MAX, json!({"failed": i32::MAX}), vec![failed("a")], true),
    ] {
        let job = job(json!({"spec": {"backoffLimit": limit}, "status": status}));
        assert_eq!(reason(&job, &pods, 0).is_some(), too_many, "{limit} {status} and {} pods", pods.len());
    }
}

#[test]
fn restarts_in_place_count_where_containers_are_restarted() {
    let with = |phase: &str, restarts: &[i32]| {
        let of = |list: &[i32]| -> Value {
            list.iter().map(|count| json!({"name": "c", "restartCount": count})).collect()
        };
        let (init, main) = restarts.split_at(restarts.len() / 2);
        pod(
            "p",
            json!({"status": {"phase": phase, "initContainerStatuses": of(init), "containerStatuses": of(main)}}),
        )
    };
    for (policy, limit, pods, too_many) in [
        ("OnFailure", 0, vec![with("Running", &[0, 0])], false),
        ("OnFailure", 0, vec![with("Running", &[0, 1])], true),
        ("OnFailure", 1, vec![with("Running", &[0, 1])], true),
        ("OnFailure", 1, vec![with("Pending", &[1, 0])], true),
        ("OnFailure", 3, vec![with("Running", &[1, 1])], false),
        ("OnFailure", 3, vec![with("Running", &[1, 1]), with("Running", &[1])], true),
        // Of those that have ended the end counts, not the restarts.
        ("OnFailure", 3, vec![with("Succeeded", &[9, 9])], false),
        ("OnFailure", 3, vec![with("Running", &[i32::MAX, i32::MAX, i32::MAX])], true),
        ("Never", 0, vec![with("Running", &[1, 1])], false),
    ] {
        let template = json!({"spec": {"restartPolicy": policy}});
        let job = job(json!({"spec": {"backoffLimit": limit, "template": template}}));
        assert_eq!(reason(&job, &pods, 0).is_some(), too_many, "{policy} {limit}");
    }
}

#[test]
fn a_deadline_counts_from_the_start_while_the_job_is_active() {
    for (spec, start, expected) in [
        (json!({}), Some(0), None),
        (json!({"activeDeadlineSeconds": 9}), Some(0), Some(9)),
        (json!({"activeDeadlineSeconds": 0}), Some(0), Some(0)),
        (json!({"activeDeadlineSeconds": -9}), Some(0), Some(0)),
        (json!({"activeDeadlineSeconds": 9}), None, None),
        (json!({"activeDeadlineSeconds": 9, "suspend": true}), Some(0), None),
        (json!({"activeDeadlineSeconds": 9, "suspend": false}), Some(3), Some(12)),
    ] {
        let job = job(json!({"spec": spec}));
        assert_eq!(deadline(&job, start.map(at)), expected.map(at), "{spec}");
    }
    // So far off that it never comes.
    let job = job(json!({"spec": {"activeDeadlineSeconds": i64::MAX}}));
    assert!(deadline(&job, Some(at(0))).is_some_and(|at| at.to_wire().is_none()));
    assert_eq!(reason(&job, &[], 9), None);
}
