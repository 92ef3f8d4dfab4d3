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
    // ReplicationControllers have no count of terminating pods.
    let fields = &manifest.reads[0].fields;
    assert!(fields.iter().any(|field| field == "spec.selector"), "{fields:?}");
}
