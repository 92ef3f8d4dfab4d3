use coxswain_sdk::merge;
use serde_json::{Value, json};

use super::*;
use crate::tests::{at, indexed, indexed_pod, job, names, pod};

fn failures() -> Failures {
    Failures::default()
}

fn running(count: usize) -> Vec<Object<Pod>> {
    (0..count).map(|i| pod(&format!("p{i}"), json!({}))).collect()
}

/// How many to make and to delete, and whether there is more.
fn work(job: &Job, pods: &[Object<Pod>]) -> (usize, usize, bool) {
    let tally = Tally::of(job, pods);
    let work = Work::of(job, &tally, &failures(), at(0));
    assert!(work.create.is_empty() || work.delete.is_empty());
    (work.create.len(), work.delete.len(), work.cut_short)
}

#[test]
fn active_pods_follow_parallelism_and_what_is_left_to_do() {
    for (spec, status, active, create, delete, cut_short) in [
        (json!({}), json!({}), 0, 2, 0, false),
        (json!({}), json!({}), 2, 0, 0, false),
        (json!({}), json!({}), 3, 0, 1, false),
        (json!({}), json!({"succeeded": 2}), 0, 1, 0, false),
        (json!({}), json!({"succeeded": 2}), 2, 0, 1, false),
        (json!({}), json!({"succeeded": 9}), 1, 0, 1, false),
        (json!({"parallelism": 0}), json!({}), 2, 0, 2, false),
        (json!({"parallelism": -5}), json!({}), 0, 0, 0, false),
        (json!({"parallelism": null}), json!({}), 0, 1, 0, false),
        (json!({"completions": 0}), json!({}), 0, 0, 0, false),
        // A queue of work: until one has succeeded, then who runs may finish.
        (json!({"completions": null}), json!({}), 1, 1, 0, false),
        (json!({"completions": null}), json!({"succeeded": 1}), 1, 0, 0, false),
        (json!({"completions": null, "parallelism": 1}), json!({}), 3, 0, 2, false),
        // Bursts.
        (json!({"completions": 9999, "parallelism": 500}), json!({}), 0, 500, 0, false),
        (json!({"completions": 9999, "parallelism": 501}), json!({}), 0, 500, 0, true),
        (json!({"completions": i32::MAX, "parallelism": i32::MAX}), json!({}), 0, 500, 0, true),
        (json!({"parallelism": 0}), json!({}), 501, 0, 500, true),
        // Suspended Jobs have none, however many they were.
        (json!({"suspend": true}), json!({}), 0, 0, 0, false),
        (json!({"suspend": true}), json!({}), 501, 0, 501, false),
    ] {
        let job = job(json!({"spec": spec, "status": status}));
        assert_eq!(work(&job, &running(active)), (create, delete, cut_short), "{spec} {status} {active}");
    }
}

#[test]
fn terminating_pods_are_waited_for_where_only_failed_ones_are_replaced() {
    let going = pod("going", json!({"metadata": {"deletionTimestamp": at(0).to_string()}}));
    for (spec, create) in [
        (json!({"podReplacementPolicy": "TerminatingOrFailed"}), 2),
        (json!({"podReplacementPolicy": "Failed"}), 1),
        (json!({"podFailurePolicy": {"rules": []}}), 1),
        (json!({}), 2),
    ] {
        let job = job(json!({"spec": spec}));
        assert_eq!(work(&job, std::slice::from_ref(&going)), (create, 0, false), "{spec}");
    }
    let indexed = indexed(json!({"spec": {"podReplacementPolicy": "Failed"}}));
    let mut pods = vec![indexed_pod("a", "1", "Running")];
    let going = json!({"metadata": {
        "deletionTimestamp": at(0).to_string(), "annotations": {"batch.kubernetes.io/job-completion-index": "0"},
    }});
    pods.push(pod("b", going));
    assert_eq!(created(&indexed, &pods), Vec::<i64>::new());
    assert_eq!(created(&indexed, &pods[1..]), [1]);
}

fn created(job: &Job, pods: &[Object<Pod>]) -> Vec<i64> {
    Work::of(job, &Tally::of(job, pods), &failures(), at(0)).create.into_iter().flatten().collect()
}

#[test]
fn the_first_indexes_without_a_pod_get_one() {
    let job = |change: Value| {
        let mut all = json!({"spec": {"completions": 6, "parallelism": 3}});
        merge::apply(&mut all, &change);
        indexed(all)
    };
    for (change, pods, expected) in [
        (json!({}), vec![], vec![0, 1, 2]),
        (json!({}), vec![("a", "1", "Running")], vec![0, 2]),
        (json!({"status": {"completedIndexes": "0,3"}}), vec![("a", "1", "Running")], vec![2, 4]),
        (json!({}), vec![("a", "0", "Succeeded"), ("b", "1", "Pending")], vec![2, 3]),
        (json!({"status": {"completedIndexes": "0-4"}}), vec![], vec![5]),
        (json!({"status": {"completedIndexes": "0-5"}}), vec![], vec![]),
        // A failed pod's index is tried again; one that has failed for good is not.
        (json!({}), vec![("a", "0", "Failed")], vec![0, 1, 2]),
        (
            json!({"spec": {"backoffLimitPerIndex": 1}, "status": {"failedIndexes": "0"}}),
            vec![],
            vec![1, 2, 3],
        ),
    ] {
        let pods: Vec<_> = pods.iter().map(|(name, index, phase)| indexed_pod(name, index, phase)).collect();
        assert_eq!(created(&job(change.clone()), &pods), expected, "{change}");
    }
}

#[test]
fn pods_without_an_index_of_their_own_go() {
    let job = indexed(json!({"spec": {"completions": 4, "parallelism": 4}}));
    for (pods, gone) in [
        (vec![("a", "0"), ("b", "1")], vec![]),
        (vec![("a", "x"), ("b", "1")], vec!["a"]),
        (vec![("a", "4"), ("b", "-1"), ("c", "1")], vec!["a", "b"]),
        (vec![("a", "1"), ("b", "1"), ("c", "1")], vec!["a", "b"]),
    ] {
        let pods: Vec<_> = pods.iter().map(|(name, index)| indexed_pod(name, index, "Running")).collect();
        let tally = Tally::of(&job, &pods);
        let mut work = names(Work::of(&job, &tally, &failures(), at(0)).delete);
        work.sort_unstable();
        assert_eq!(work, gone);
    }
    // The best of an index stays, and further ones go for want of parallelism.
    let pods = [
        indexed_pod("ready", "0", "Running"),
        indexed_pod("pending", "0", "Pending"),
        indexed_pod("b", "1", "Pending"),
        indexed_pod("c", "2", "Running"),
    ];
    let job = indexed(json!({"spec": {"parallelism": 2}}));
    let tally = Tally::of(&job, &pods);
    assert_eq!(names(Work::of(&job, &tally, &failures(), at(0)).delete), ["pending", "b"]);
}

#[test]
fn those_that_got_least_far_go_first() {
    let ready = |since: i64| json!([{"type": "Ready", "status": "True", "lastTransitionTime": at(since).to_string()}]);
    let restarted = |count: i32| json!([{"name": "c", "restartCount": count}]);
    // Each by one rule before the next, and after it by all later rules.
    let pods = [
        pod("1-unassigned", json!({"spec": {"nodeName": ""}, "status": {"conditions": ready(0)}})),
        pod("2-pending", json!({"status": {"phase": "Pending", "conditions": ready(0)}})),
        pod("3-unknown", json!({"status": {"phase": "Unknown", "conditions": ready(0)}})),
        pod("4-not-ready", json!({})),
        pod("5-ready-recently", json!({"status": {"conditions": ready(9)}})),
        pod("6-restarted", json!({"status": {"conditions": ready(5), "containerStatuses": restarted(3)}})),
        pod(
            "7-young",
            json!({"metadata": {"creationTimestamp": at(7).to_string()}, "status": {"conditions": ready(5)}}),
        ),
        pod("8-old", json!({"status": {"conditions": ready(5)}})),
    ];
    let order: Vec<&str> = names(&pods);
    let job = job(json!({"spec": {"parallelism": 0}}));
    let mut reversed: Vec<Object<Pod>> = pods.to_vec();
    reversed.reverse();
    let tally = Tally::of(&job, &reversed);
    assert_eq!(names(Work::of(&job, &tally, &failures(), at(0)).delete), order);
}

#[test]
fn a_further_pod_waits_after_failures() {
    let tally_of = |job: &Job, pods: &'static [Object<Pod>]| Tally::of(job, pods);
    let plain = job(json!({}));
    let tally = tally_of(&plain, &[]);
    let failed = Failures { count: 2, last: Some(at(0)) };
    let waits = Work::of(&plain, &tally, &failed, at(5));
    assert_eq!((waits.create.len(), waits.again), (0, Some(at(20))));
    let over = Work::of(&plain, &tally, &failed, at(20));
    assert_eq!((over.create.len(), over.again), (2, None));
    // Where failures count by index, each index waits by itself.
    let per_index = indexed(json!({"spec": {"backoffLimitPerIndex": 3, "parallelism": 3}}));
    let failed = |name: &str, index: &str, before: &str| {
        let annotations = json!({
            "batch.kubernetes.io/job-completion-index": index,
            "batch.kubernetes.io/job-index-failure-count": before,
        });
        pod(name, json!({"metadata": {"annotations": annotations}, "status": {"phase": "Failed"}}))
    };
    let pods = [failed("a", "0", "0"), failed("b", "1", "1")];
    let tally = Tally::of(&per_index, &pods);
    let some = |work: Work<'_>| (work.create.into_iter().flatten().collect::<Vec<_>>(), work.again);
    assert_eq!(some(Work::of(&per_index, &tally, &failures(), at(5))), (vec![2], Some(at(10))));
    assert_eq!(some(Work::of(&per_index, &tally, &failures(), at(10))), (vec![0, 2], Some(at(20))));
    assert_eq!(some(Work::of(&per_index, &tally, &failures(), at(20))), (vec![0, 1, 2], None));
}
