//! Scenarios, the manifest, and what the tables of the other files share.

use coxswain_sdk::contract::ObjectRef;
use coxswain_sdk::{Object, Time, manifest_of, merge};
use serde_json::{Value, json};

use crate::JobController;
use crate::view::{Job, Pod, TRACKING};

mod counting;

/// A Job of 3 completions, 2 at a time, with a change.
pub(crate) fn job(change: Value) -> Job {
    let mut job = json!({
        "metadata": {"name": "sums", "namespace": "ns", "uid": "job", "generation": 1},
        "spec": {"completions": 3, "parallelism": 2, "backoffLimit": 6},
    });
    merge::apply(&mut job, &change);
    serde_json::from_value(job).unwrap()
}

/// The same, Indexed.
pub(crate) fn indexed(change: Value) -> Job {
    let mut all = json!({"spec": {"completionMode": "Indexed"}});
    merge::apply(&mut all, &change);
    job(all)
}

/// A running pod that is still to be counted, with a change.
pub(crate) fn pod(name: &str, change: Value) -> Object<Pod> {
    let mut pod = json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": name, "finalizers": [TRACKING],
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"nodeName": "n"},
        "status": {"phase": "Running"},
    });
    merge::apply(&mut pod, &change);
    let reference = ObjectRef { resource: 1, id: 0, version: 1 };
    Object::new(reference, serde_json::from_value(pod).unwrap())
}

/// A pod of an index in a phase.
pub(crate) fn indexed_pod(name: &str, index: &str, phase: &str) -> Object<Pod> {
    pod(
        name,
        json!({
            "metadata": {"annotations": {"batch.kubernetes.io/job-completion-index": index}},
            "status": {"phase": phase},
        }),
    )
}

/// A pod whose only container ended at this second of 2026.
pub(crate) fn ended(name: &str, phase: &str, second: i64) -> Object<Pod> {
    let at = at(second).to_string();
    pod(
        name,
        json!({"status": {"phase": phase, "containerStatuses": [
            {"name": "c", "state": {"terminated": {"exitCode": i32::from(phase == "Failed"), "finishedAt": at}}},
        ]}}),
    )
}

/// So many seconds after the beginning of 2026.
pub(crate) fn at(second: i64) -> Time {
    Time::from_unix(Time::parse("2026-01-01T00:00:00Z").unwrap().unix() + second)
}

pub(crate) fn names<'a>(pods: impl IntoIterator<Item = &'a Object<Pod>>) -> Vec<&'a str> {
    pods.into_iter().map(|pod| pod.metadata.name.as_str()).collect()
}

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<JobController>(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios"));
}

#[test]
fn it_reads_no_more_than_it_uses() {
    let manifest = manifest_of::<JobController>();
    let fields = |resource: &str| {
        let read = manifest.reads.iter().find(|read| read.resource.resource == resource).unwrap();
        assert!(!read.whole && !read.optional);
        read.fields.iter().map(String::as_str).collect::<Vec<_>>()
    };
    assert_eq!(
        fields("pods"),
        [
            "metadata.annotations.\"batch.kubernetes.io/job-completion-index\"",
            "metadata.annotations.\"batch.kubernetes.io/job-index-failure-count\"",
            "metadata.annotations.\"batch.kubernetes.io/job-index-ignored-failure-count\"",
            "spec.initContainers[*].name",
            "spec.initContainers[*].restartPolicy",
            "spec.nodeName",
            "status.conditions[*].lastTransitionTime",
            "status.conditions[*].status",
            "status.conditions[*].type",
            "status.containerStatuses[*].name",
            "status.containerStatuses[*].restartCount",
            "status.containerStatuses[*].state.terminated.exitCode",
            "status.containerStatuses[*].state.terminated.finishedAt",
            "status.initContainerStatuses[*].name",
            "status.initContainerStatuses[*].restartCount",
            "status.initContainerStatuses[*].state.terminated.exitCode",
            "status.initContainerStatuses[*].state.terminated.finishedAt",
            "status.phase",
        ]
    );
    let jobs = fields("jobs");
    assert!(jobs.contains(&"spec.template.spec") && jobs.contains(&"status.conditions"), "{jobs:?}");
    assert!(jobs.contains(&"status.uncountedTerminatedPods.failed"), "{jobs:?}");
    assert_eq!(jobs.len(), 38, "{jobs:?}");
}
