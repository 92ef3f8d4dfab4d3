//! The scenarios, and what the controller declares.

use crate::PersistentVolumeBinderController;

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<PersistentVolumeBinderController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}

#[test]
fn it_reads_no_more_than_it_uses() {
    let manifest = coxswain_sdk::manifest_of::<PersistentVolumeBinderController>();
    assert!(manifest.reads.iter().all(|read| !read.whole));
    let of_pods = manifest.reads.iter().find(|read| read.resource.resource == "pods");
    let expected: &[&str] = &[
        "spec.nodeName",
        "spec.volumes[*].ephemeral",
        "spec.volumes[*].name",
        "spec.volumes[*].persistentVolumeClaim.claimName",
        "status.containerStatuses[*].state.running",
        "status.initContainerStatuses[*].state.running",
        "status.message",
        "status.phase",
    ];
    assert_eq!(of_pods.map(|read| &read.fields[..]).unwrap_or_default(), expected);
}
