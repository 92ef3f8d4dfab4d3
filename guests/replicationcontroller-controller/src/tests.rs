use coxswain_sdk::manifest_of;

use super::*;

#[test]
fn scenarios() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    coxswain_sdk::testing::scenarios::<ReplicationControllerController>(dir);
}

#[test]
fn it_is_who_kubernetes_users_know() {
    let manifest = manifest_of::<ReplicationControllerController>();
    assert_eq!(manifest.name, "replicationcontroller-controller");
    assert_eq!(manifest.aliases, ["replicationcontroller"]);
    assert_eq!(manifest.event_component, "replication-controller");
    assert_eq!(manifest.concurrency_flag, "concurrent-rc-syncs");
}

#[test]
fn it_reads_no_more_than_it_uses() {
    let reads = coxswain_sdk::testing::reads::<ReplicationControllerController>();
    let (own, pods): (Vec<_>, Vec<_>) =
        reads.into_iter().partition(|path| path.starts_with("replicationcontrollers "));
    let paths = [
        "spec.minReadySeconds",
        "spec.replicas",
        "spec.selector",
        "spec.template.metadata.annotations",
        "spec.template.metadata.finalizers",
        "spec.template.metadata.labels",
        "spec.template.spec",
        "status.availableReplicas",
        "status.conditions",
        "status.fullyLabeledReplicas",
        "status.observedGeneration",
        "status.readyReplicas",
        "status.replicas",
        "status.terminatingReplicas",
    ];
    assert_eq!(own, paths.map(|path| format!("replicationcontrollers {path}")));
    // As of pods of ReplicaSets.
    assert_eq!(pods.len(), 11, "{pods:?}");
}
