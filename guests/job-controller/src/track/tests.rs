use serde_json::{Value, json};

use super::*;
use crate::tests::{indexed, indexed_pod, job, names, pod};
use crate::view::Uncounted;

fn status_after(job: &Job, pods: &[Object<Pod>], verdict: Option<bool>) -> (JobStatus, Vec<String>, bool) {
    let verdict = verdict.map(|success| Verdict { success, reason: String::new(), message: String::new() });
    let mut status = job.status.clone();
    let tally = Tally::of(job, pods);
    let tracked = track(job, &tally, verdict.as_ref(), &mut status);
    let release =
        names(tracked.release.iter().map(|release| release.pod)).into_iter().map(str::to_owned).collect();
    (status, release, tracked.cut_short)
}

fn lists(status: &JobStatus) -> (Vec<&str>, Vec<&str>) {
    let of = |list: fn(&Uncounted) -> &Vec<String>| {
        status
            .uncounted_terminated_pods
            .as_ref()
            .map_or(Vec::new(), |lists| list(lists).iter().map(String::as_str).collect())
    };
    (of(|lists| &lists.succeeded), of(|lists| &lists.failed))
}

fn phase(name: &str, phase: &str) -> Object<Pod> {
    pod(name, json!({"status": {"phase": phase}}))
}

fn counted(name: &str, phase: &str) -> Object<Pod> {
    pod(name, json!({"metadata": {"finalizers": null}, "status": {"phase": phase}}))
}

#[test]
fn a_pod_is_listed_then_released_then_counted() {
    let work = job(json!({}));
    let pods = [phase("ok", "Succeeded"), phase("bad", "Failed"), phase("runs", "Running")];
    let (status, release, _) = status_after(&work, &pods, None);
    assert_eq!(lists(&status), (vec!["ok"], vec!["bad"]));
    assert_eq!((status.succeeded, status.failed), (0, 0));
    assert_eq!(release, ["ok", "bad"]);

    // Interrupted before any finalizer went: the same again, nothing twice.
    let listed =
        job(json!({"status": {"uncountedTerminatedPods": {"succeeded": ["ok"], "failed": ["bad"]}}}));
    let (again, release, _) = status_after(&listed, &pods, None);
    assert_eq!((&again, release.len()), (&listed.status, 2));

    // One finalizer went; that pod counts, the other still stands.
    let (half, release, _) =
        status_after(&listed, &[counted("ok", "Succeeded"), phase("bad", "Failed")], None);
    assert_eq!(lists(&half), (vec![], vec!["bad"]));
    assert_eq!((half.succeeded, half.failed, release.len()), (1, 0, 1));

    // All went, of one pod the object too.
    let (all, release, _) = status_after(&listed, &[counted("bad", "Failed")], None);
    assert_eq!(lists(&all), (vec![], vec![]));
    assert_eq!((all.succeeded, all.failed, release.len()), (1, 1, 0));
}

#[test]
fn what_the_job_stands_for_decides_who_is_released() {
    let deleted = |name: &str| pod(name, json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    let pods = [phase("runs", "Running"), deleted("going"), counted("done", "Failed")];
    for (change, verdict, failed, released) in [
        (json!({}), None, vec!["going"], vec!["going"]),
        // A terminating pod has not failed yet.
        (json!({"spec": {"podReplacementPolicy": "Failed"}}), None, vec![], vec![]),
        // A failed Job counts whatever has not ended as failed, a Job that has succeeded does not.
        (json!({}), Some(false), vec!["runs", "going"], vec!["runs", "going"]),
        (json!({}), Some(true), vec!["going"], vec!["runs", "going"]),
        // A Job that is being deleted lets all go.
        (
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            None,
            vec!["going"],
            vec!["runs", "going"],
        ),
    ] {
        let (status, release, _) = status_after(&job(change.clone()), &pods, verdict);
        assert_eq!(lists(&status), (vec![], failed), "{change} {verdict:?}");
        assert_eq!(release, released, "{change} {verdict:?}");
    }
}

#[test]
fn ignored_failures_are_released_uncounted() {
    let ignored = json!({"spec": {"podFailurePolicy": {"rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]}}});
    let conditions = json!([{"type": "DisruptionTarget", "status": "True"}]);
    let pods = [
        pod("ignored", json!({"status": {"phase": "Failed", "conditions": conditions}})),
        phase("counts", "Failed"),
    ];
    let (status, release, _) = status_after(&job(ignored), &pods, None);
    assert_eq!(lists(&status), (vec![], vec!["counts"]));
    assert_eq!(release, ["ignored", "counts"]);
}

#[test]
fn indexes_that_succeed_need_no_list() {
    let work = indexed(json!({"status": {"completedIndexes": "0", "succeeded": 1}}));
    let pods = [
        indexed_pod("again", "0", "Succeeded"),
        indexed_pod("one", "1", "Succeeded"),
        indexed_pod("beyond", "7", "Succeeded"),
        indexed_pod("none", "x", "Failed"),
        indexed_pod("two", "2", "Failed"),
    ];
    let (status, release, _) = status_after(&work, &pods, None);
    assert_eq!(lists(&status), (vec![], vec!["two"]));
    assert_eq!((status.completed_indexes.as_str(), status.succeeded), ("0,1", 2));
    assert_eq!(status.failed_indexes, None);
    assert_eq!(release, ["again", "one", "beyond", "none", "two"]);
}

#[test]
fn a_job_scaled_down_forgets_indexes_beyond_it() {
    let work = indexed(json!({
        "spec": {"completions": 2, "backoffLimitPerIndex": 1},
        "status": {"completedIndexes": "1-5", "succeeded": 5, "failedIndexes": "0,7", "failed": 3},
    }));
    let (status, ..) = status_after(&work, &[], None);
    assert_eq!((status.completed_indexes.as_str(), status.succeeded), ("1", 1));
    assert_eq!((status.failed_indexes.as_deref(), status.failed), (Some("0"), 3));
}

fn failed_index(name: &str, index: &str, before: &str) -> Object<Pod> {
    let annotations: Value = json!({
        "batch.kubernetes.io/job-completion-index": index,
        "batch.kubernetes.io/job-index-failure-count": before,
    });
    pod(name, json!({"metadata": {"annotations": annotations}, "status": {"phase": "Failed"}}))
}

#[test]
fn a_failed_index_keeps_its_last_pod_until_it_is_replaced() {
    let work = indexed(json!({"spec": {"backoffLimitPerIndex": 2}}));
    let failed = [failed_index("first", "0", "0"), failed_index("second", "0", "1")];
    assert_eq!(status_after(&work, &failed, None).1, ["first"]);
    // Replaced.
    let mut replaced = failed.to_vec();
    replaced.push(indexed_pod("third", "0", "Running"));
    assert_eq!(status_after(&work, &replaced, None).1, ["first", "second"]);
    // Given up.
    let given_up = [failed_index("third", "0", "2"), failed_index("other", "1", "0")];
    let (status, release, _) = status_after(&work, &given_up, None);
    assert_eq!((status.failed_indexes.as_deref(), release), (Some("0"), vec!["third".to_owned()]));
    // The Job has ended.
    assert_eq!(status_after(&work, &failed, Some(false)).1, ["first", "second"]);
}

#[test]
fn lists_and_releases_are_bounded() {
    let many: Vec<_> = (0..1200).map(|i| phase(&format!("p{i}"), "Failed")).collect();
    let (status, release, cut_short) = status_after(&job(json!({})), &many, None);
    assert_eq!((lists(&status).1.len(), release.len(), cut_short), (500, 500, true));
    // Those that do not count are as many at a time.
    let running: Vec<_> = (0..1200).map(|i| phase(&format!("p{i}"), "Running")).collect();
    let (status, release, cut_short) = status_after(&job(json!({})), &running, Some(true));
    assert_eq!((lists(&status).1.len(), release.len(), cut_short), (0, 500, true));
    // Exactly as many is all.
    let (_, release, cut_short) = status_after(&job(json!({})), &many[..500], None);
    assert_eq!((release.len(), cut_short), (500, false));
}

#[test]
fn counters_do_not_wrap() {
    let mut status = JobStatus {
        failed: i32::MAX,
        uncounted_terminated_pods: Some(Uncounted { failed: vec!["a".to_owned()], ..Uncounted::default() }),
        ..JobStatus::default()
    };
    count_untracked(&mut status, |_| false);
    assert_eq!(status.failed, i32::MAX);
    assert_eq!((clamped(-1), clamped(i64::MAX)), (0, i32::MAX));
}
