//! The scenarios, and the names of volumes.

use coxswain_sdk::testing::reads;
use serde_json::json;

use crate::PersistentVolumeAttachDetachController;
use crate::attachable::{Attachable, is_shareable};
use crate::migration::{access_modes, csi_of, inline};
use crate::view::{PodVolume, Volume};

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<PersistentVolumeAttachDetachController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}

#[test]
fn names_are_read_as_they_are_written() {
    let odd = Attachable::csi("d.example.com", "a^b");
    assert_eq!(Attachable::of_name(&odd.name), Some(odd));
    let volume = Attachable::csi("d.example.com", "vol-1");
    assert_eq!(volume.name, "kubernetes.io/csi/d.example.com^vol-1");
    assert_eq!(Attachable::of_name(&volume.name), Some(volume.clone()));
    // sha256 of "vol-1" "d.example.com" "node-1".
    assert_eq!(
        volume.attachment_name("node-1").as_deref(),
        Some("csi-4499ee017ffbd7c27adcaf4b6d7385ae0ab9c5fa487205ab041ef1825c4e8e71")
    );
    for foreign in ["kubernetes.io/csi/d", "kubernetes.io/flex/x", ""] {
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
fn volumes_of_what_was_built_in_have_the_handles_that_drivers_know() {
    let gce = |labels: serde_json::Value| json!([labels, {"gcePersistentDisk": {"pdName": "disk"}}]);
    for (volume, wanted) in [
        (json!([{}, {"csi": {"driver": "d", "volumeHandle": "h"}}]), Some("d h")),
        (json!([{}, {"awsElasticBlockStore": {"volumeID": "vol-1"}}]), Some("ebs.csi.aws.com vol-1")),
        (
            json!([{}, {"awsElasticBlockStore": {"volumeID": "aws://eu-1a/vol-1"}}]),
            Some("ebs.csi.aws.com vol-1"),
        ),
        (json!([{}, {"awsElasticBlockStore": {"volumeID": "aws://eu-1a/disk"}}]), None),
        (json!([{}, {"awsElasticBlockStore": {"volumeID": "aws://vol-1"}}]), None),
        (gce(json!({})), Some("pd.csi.storage.gke.io projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk")),
        (
            gce(json!({"topology.kubernetes.io/zone": "us-east1-a"})),
            Some("pd.csi.storage.gke.io projects/UNSPECIFIED/zones/us-east1-a/disks/disk"),
        ),
        (
            gce(json!({"failure-domain.beta.kubernetes.io/zone": "us-east1-a__us-east1-b"})),
            Some("pd.csi.storage.gke.io projects/UNSPECIFIED/regions/us-east1/disks/disk"),
        ),
        (gce(json!({"topology.kubernetes.io/zone": "us-east1-a__us-west1-b"})), None),
        (gce(json!({"topology.kubernetes.io/zone": "odd__odd"})), None),
        (
            json!([{}, {"azureDisk": {"diskURI": "/sub/x", "diskName": "x"}}]),
            Some("disk.csi.azure.com /sub/x"),
        ),
        (json!([{}, {"cinder": {"volumeID": "id"}}]), Some("cinder.csi.openstack.org id")),
        (json!([{}, {"vsphereVolume": {"volumePath": "[d] f"}}]), Some("csi.vsphere.vmware.com [d] f")),
        (json!([{}, {"portworxVolume": {"volumeID": "id"}}]), Some("pxd.portworx.com id")),
        (json!([{}, {"azureFile": {"shareName": "s"}}]), None),
        (json!([{}, {"nfs": {"server": "s"}}]), None),
    ] {
        let object = json!({"metadata": {"name": "v", "labels": volume[0]}, "spec": volume[1]});
        let read: Volume = serde_json::from_value(object).expect("a volume");
        let found = csi_of(&read).map(|csi| format!("{} {}", csi.driver, csi.volume_handle));
        assert_eq!(found.as_deref(), wanted, "{volume}");
    }
    let disk = json!({"spec": {"accessModes": ["ReadWriteMany"], "gcePersistentDisk": {"pdName": "d"}}});
    let disk: Volume = serde_json::from_value(disk).expect("a volume");
    assert!(!is_shareable(&access_modes(&disk)));
}

#[test]
fn volumes_without_claims_become_what_drivers_take() {
    let once = json!(["ReadWriteOnce"]);
    for (volume, title, spec) in [
        (
            json!({"awsElasticBlockStore": {"volumeID": "aws://eu-1a/vol-1", "fsType": "ext4", "partition": 2, "readOnly": true}}),
            "ebs.csi.aws.com-vol-1",
            json!({"accessModes": once, "volumeMode": "Filesystem", "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1", "fsType": "ext4", "readOnly": true, "volumeAttributes": {"partition": "2"}}}),
        ),
        (
            json!({"gcePersistentDisk": {"pdName": "d", "readOnly": true}}),
            "pd.csi.storage.gke.io-d",
            json!({"accessModes": ["ReadOnlyMany"], "volumeMode": "Filesystem", "csi": {"driver": "pd.csi.storage.gke.io", "volumeHandle": "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d", "readOnly": true, "volumeAttributes": {"partition": ""}}}),
        ),
        (
            json!({"azureDisk": {"diskName": "x", "diskURI": "/sub/x", "kind": "Managed", "cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": false}}),
            "/sub/x",
            json!({"accessModes": once, "volumeMode": "Filesystem", "csi": {"driver": "disk.csi.azure.com", "volumeHandle": "/sub/x", "fsType": "ext4", "volumeAttributes": {"kind": "managed", "cachingmode": "ReadWrite", "fstype": "ext4"}}}),
        ),
        (json!({"azureDisk": {"diskURI": "/sub/x", "kind": "Shared"}}), "", json!(null)),
        (
            json!({"cinder": {"volumeID": "id", "readOnly": true}}),
            "cinder.csi.openstack.org-id",
            json!({"accessModes": once, "volumeMode": "Filesystem", "csi": {"driver": "cinder.csi.openstack.org", "volumeHandle": "id", "readOnly": true}}),
        ),
        (
            json!({"vsphereVolume": {"volumePath": "[d] f"}}),
            "csi.vsphere.vmware.com-[d] f",
            json!({"accessModes": once, "volumeMode": "Filesystem", "csi": {"driver": "csi.vsphere.vmware.com", "volumeHandle": "[d] f"}}),
        ),
        (
            json!({"portworxVolume": {"volumeID": "id", "readOnly": true}}),
            "pxd.portworx.com-id",
            json!({"accessModes": ["ReadOnlyMany"], "volumeMode": "Filesystem", "csi": {"driver": "pxd.portworx.com", "volumeHandle": "id"}}),
        ),
        (json!({"nfs": {"server": "s"}}), "", json!(null)),
    ] {
        let read: PodVolume = serde_json::from_value(volume.clone()).expect("a volume of a pod");
        let found = inline(&read);
        let (has_title, has_spec) = found.map(|inline| (inline.title, inline.spec)).unwrap_or_default();
        assert_eq!((has_title.as_str(), has_spec), (title, spec), "{volume}");
    }
}

#[test]
fn it_reads_no_more_than_it_uses() {
    assert_eq!(
        reads::<PersistentVolumeAttachDetachController>(),
        [
            "nodes metadata.annotations.\"volumes.kubernetes.io/controller-managed-attach-detach\"",
            "nodes spec.taints[*].key",
            "nodes status.conditions[*].status",
            "nodes status.conditions[*].type",
            "nodes status.volumesAttached",
            "nodes status.volumesInUse",
            "pods spec.nodeName",
            "pods spec.volumes[*].awsElasticBlockStore",
            "pods spec.volumes[*].azureDisk",
            "pods spec.volumes[*].cinder",
            "pods spec.volumes[*].csi.driver",
            "pods spec.volumes[*].ephemeral",
            "pods spec.volumes[*].fc.lun",
            "pods spec.volumes[*].fc.targetWWNs",
            "pods spec.volumes[*].fc.wwids",
            "pods spec.volumes[*].gcePersistentDisk",
            "pods spec.volumes[*].iscsi.iqn",
            "pods spec.volumes[*].iscsi.lun",
            "pods spec.volumes[*].iscsi.targetPortal",
            "pods spec.volumes[*].name",
            "pods spec.volumes[*].persistentVolumeClaim.claimName",
            "pods spec.volumes[*].portworxVolume",
            "pods spec.volumes[*].vsphereVolume",
            "pods status.containerStatuses[*].state.running",
            "pods status.initContainerStatuses[*].state.running",
            "pods status.phase",
            "persistentvolumeclaims spec.volumeName",
            "persistentvolumeclaims status.phase",
            "persistentvolumes spec.accessModes",
            "persistentvolumes spec.awsElasticBlockStore.volumeID",
            "persistentvolumes spec.azureDisk.diskURI",
            "persistentvolumes spec.cinder.volumeID",
            "persistentvolumes spec.claimRef.name",
            "persistentvolumes spec.claimRef.namespace",
            "persistentvolumes spec.claimRef.uid",
            "persistentvolumes spec.csi.driver",
            "persistentvolumes spec.csi.volumeHandle",
            "persistentvolumes spec.fc.lun",
            "persistentvolumes spec.fc.targetWWNs",
            "persistentvolumes spec.fc.wwids",
            "persistentvolumes spec.gcePersistentDisk.pdName",
            "persistentvolumes spec.iscsi.iqn",
            "persistentvolumes spec.iscsi.lun",
            "persistentvolumes spec.iscsi.targetPortal",
            "persistentvolumes spec.portworxVolume.volumeID",
            "persistentvolumes spec.vsphereVolume.volumePath",
            "csidrivers spec.attachRequired",
            "volumeattachments spec.attacher",
            "volumeattachments spec.nodeName",
            "volumeattachments spec.source.inlineVolumeSpec.csi.driver",
            "volumeattachments spec.source.inlineVolumeSpec.csi.volumeHandle",
            "volumeattachments spec.source.persistentVolumeName",
            "volumeattachments status.attachError.message",
            "volumeattachments status.attached",
        ]
    );
}
