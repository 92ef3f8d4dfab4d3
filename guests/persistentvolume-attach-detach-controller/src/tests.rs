//! The scenarios, and the names of volumes.

use crate::PersistentVolumeAttachDetachController;
use crate::attachable::{Attachable, is_shareable};

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<PersistentVolumeAttachDetachController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}

#[test]
fn names_are_read_as_they_are_written() {
    let volume = Attachable::csi("d.example.com", "vol-1");
    assert_eq!(volume.name, "kubernetes.io/csi/d.example.com^vol-1");
    assert_eq!(Attachable::of_name(&volume.name), Some(volume.clone()));
    // sha256 of "vol-1" "d.example.com" "node-1".
    assert_eq!(
        volume.attachment_name("node-1").as_deref(),
        Some("csi-4499ee017ffbd7c27adcaf4b6d7385ae0ab9c5fa487205ab041ef1825c4e8e71")
    );
    for foreign in ["kubernetes.io/csi/d", "kubernetes.io/csi/d^a^b", "kubernetes.io/flex/x", ""] {
        assert_eq!(Attachable::of_name(foreign), None, "{foreign}");
    }
}

#[test]
fn only_modes_of_many_nodes_are_shared() {
    let modes = |modes: &[&str]| modes.iter().map(|mode| (*mode).to_owned()).collect::<Vec<_>>();
    for (shared, list) in [
        (true, modes(&[])),
        (true, modes(&["ReadWriteMany"])),
        (true, modes(&["ReadWriteOnce", "ReadOnlyMany"])),
        (false, modes(&["ReadWriteOnce"])),
        (false, modes(&["ReadWriteOncePod"])),
    ] {
        assert_eq!(is_shareable(&list), shared, "{list:?}");
    }
}

#[test]
fn it_reads_no_more_than_it_uses() {
    let manifest = coxswain_sdk::manifest_of::<PersistentVolumeAttachDetachController>();
    assert!(manifest.reads.iter().all(|read| !read.whole));
    let of_pods = manifest.reads.iter().find(|read| read.resource.resource == "pods");
    let expected: &[&str] = &[
        "spec.nodeName",
        "spec.volumes[*].ephemeral",
        "spec.volumes[*].fc.lun",
        "spec.volumes[*].fc.targetWWNs",
        "spec.volumes[*].fc.wwids",
        "spec.volumes[*].iscsi.iqn",
        "spec.volumes[*].iscsi.lun",
        "spec.volumes[*].iscsi.targetPortal",
        "spec.volumes[*].name",
        "spec.volumes[*].persistentVolumeClaim.claimName",
        "status.containerStatuses[*].state.running",
        "status.initContainerStatuses[*].state.running",
        "status.phase",
    ];
    assert_eq!(of_pods.map(|read| &read.fields[..]).unwrap_or_default(), expected);
}
