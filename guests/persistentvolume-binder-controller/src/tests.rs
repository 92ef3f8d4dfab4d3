//! The scenarios, and what the controller declares.

use coxswain_sdk::testing::reads;
use serde_json::{Value, json};

use crate::PersistentVolumeBinderController;
use crate::plugin::{Deletion, deletion};
use crate::recycle::scrubs;
use crate::view::Volume;

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<PersistentVolumeBinderController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}

#[test]
fn only_directories_below_tmp_are_deleted() {
    for (path, wanted) in [
        ("/tmp/x", true),
        ("/srv/tmp/x", true),
        ("/tmp/", false),
        ("/tmp", false),
        ("/tmpx/y", false),
        ("/", false),
        ("", false),
    ] {
        let volume = json!({ "metadata": { "name": "v" }, "spec": { "hostPath": { "path": path } } });
        let volume: Volume = serde_json::from_value(volume).expect("a volume");
        assert_eq!(deletion(&volume) == Deletion::ObjectOnly, wanted, "{path:?}");
    }
}

/// The pod that is made, and changes to it that keep it from being believed.
#[test]
fn only_a_pod_that_scrubs_is_believed() {
    let container = json!({
        "name": "c", "image": "i", "command": ["sh"], "args": ["scrub"],
        "volumeMounts": [{"name": "vol", "mountPath": "/scrub"}],
    });
    let wanted =
        json!({ "containers": [container], "volumes": [{"name": "vol", "hostPath": {"path": "/x"}}] });
    let change = |pointer: &str, value: Value| {
        let mut spec = wanted.clone();
        match spec.pointer_mut(pointer) {
            Some(place) => *place = value,
            None => spec[pointer.trim_start_matches('/')] = value,
        }
        spec
    };
    let mounts = |more: Value| json!([{"name": "vol", "mountPath": "/scrub"}, more]);
    assert!(scrubs(&wanted, &wanted));
    // Admission adds a token.
    let token = json!({"name": "token", "mountPath": "/var/run/secrets"});
    assert!(scrubs(&change("/containers/0/volumeMounts", mounts(token)), &wanted));
    for (what, spec) in [
        ("nothing", json!({})),
        ("another image", change("/containers/0/image", json!("idle"))),
        ("other arguments", change("/containers/0/args", json!(["true"]))),
        ("another directory", change("/volumes/0/hostPath/path", json!("/y"))),
        ("an export", change("/volumes/0", json!({"name": "vol", "nfs": {"server": "s", "path": "/x"}}))),
        ("another volume", change("/volumes/0/name", json!("other"))),
        ("no mount", change("/containers/0/volumeMounts", json!([]))),
        (
            "read only",
            change(
                "/containers/0/volumeMounts/0",
                json!({"name": "vol", "mountPath": "/scrub", "readOnly": true}),
            ),
        ),
        (
            "a part",
            change(
                "/containers/0/volumeMounts/0",
                json!({"name": "vol", "mountPath": "/scrub", "subPath": "a"}),
            ),
        ),
        (
            "covered",
            change("/containers/0/volumeMounts", mounts(json!({"name": "e", "mountPath": "/scrub/x"}))),
        ),
        ("two containers", change("/containers", json!([container, container]))),
        ("one before", change("/initContainers", json!([{"name": "i"}]))),
    ] {
        assert!(!scrubs(&spec, &wanted), "{what}: {spec}");
    }
}

#[test]
fn it_reads_no_more_than_it_uses() {
    assert_eq!(
        reads::<PersistentVolumeBinderController>(),
        [
            "persistentvolumeclaims metadata.annotations.\"pv.kubernetes.io/bind-completed\"",
            "persistentvolumeclaims metadata.annotations.\"pv.kubernetes.io/bound-by-controller\"",
            "persistentvolumeclaims metadata.annotations.\"pv.kubernetes.io/migrated-to\"",
            "persistentvolumeclaims metadata.annotations.\"volume.beta.kubernetes.io/storage-class\"",
            "persistentvolumeclaims metadata.annotations.\"volume.beta.kubernetes.io/storage-provisioner\"",
            "persistentvolumeclaims metadata.annotations.\"volume.kubernetes.io/selected-node\"",
            "persistentvolumeclaims metadata.annotations.\"volume.kubernetes.io/storage-provisioner\"",
            "persistentvolumeclaims spec.accessModes",
            "persistentvolumeclaims spec.dataSource.name",
            "persistentvolumeclaims spec.resources.requests.storage",
            "persistentvolumeclaims spec.selector.matchExpressions[*].key",
            "persistentvolumeclaims spec.selector.matchExpressions[*].operator",
            "persistentvolumeclaims spec.selector.matchExpressions[*].values",
            "persistentvolumeclaims spec.selector.matchLabels",
            "persistentvolumeclaims spec.storageClassName",
            "persistentvolumeclaims spec.volumeAttributesClassName",
            "persistentvolumeclaims spec.volumeMode",
            "persistentvolumeclaims spec.volumeName",
            "persistentvolumeclaims status.accessModes",
            "persistentvolumeclaims status.capacity.storage",
            "persistentvolumeclaims status.currentVolumeAttributesClassName",
            "persistentvolumeclaims status.phase",
            "persistentvolumes metadata.annotations.\"pv.kubernetes.io/bound-by-controller\"",
            "persistentvolumes metadata.annotations.\"pv.kubernetes.io/migrated-to\"",
            "persistentvolumes metadata.annotations.\"pv.kubernetes.io/provisioned-by\"",
            "persistentvolumes metadata.annotations.\"volume.alpha.kubernetes.io/pre-resize-capacity\"",
            "persistentvolumes metadata.annotations.\"volume.beta.kubernetes.io/storage-class\"",
            "persistentvolumes spec.accessModes",
            "persistentvolumes spec.capacity.storage",
            "persistentvolumes spec.claimRef.name",
            "persistentvolumes spec.claimRef.namespace",
            "persistentvolumes spec.claimRef.uid",
            "persistentvolumes spec.csi.driver",
            "persistentvolumes spec.fc",
            "persistentvolumes spec.hostPath.path",
            "persistentvolumes spec.iscsi",
            "persistentvolumes spec.nfs.path",
            "persistentvolumes spec.nfs.server",
            "persistentvolumes spec.persistentVolumeReclaimPolicy",
            "persistentvolumes spec.storageClassName",
            "persistentvolumes spec.volumeAttributesClassName",
            "persistentvolumes spec.volumeMode",
            "persistentvolumes status.message",
            "persistentvolumes status.phase",
            "storageclasses metadata.annotations.\"storageclass.beta.kubernetes.io/is-default-class\"",
            "storageclasses metadata.annotations.\"storageclass.kubernetes.io/is-default-class\"",
            "storageclasses mountOptions",
            "storageclasses provisioner",
            "storageclasses reclaimPolicy",
            "storageclasses volumeBindingMode",
            "pods spec.nodeName",
            "pods spec.volumes[*].ephemeral",
            "pods spec.volumes[*].name",
            "pods spec.volumes[*].persistentVolumeClaim.claimName",
            "pods status.containerStatuses[*].state.running",
            "pods status.initContainerStatuses[*].state.running",
            "pods status.phase",
        ]
    );
}
