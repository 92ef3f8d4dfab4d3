//! The scenarios.

use coxswain_sdk::testing::reads;

use crate::PersistentVolumeExpanderController;

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<PersistentVolumeExpanderController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}

#[test]
fn it_reads_no_more_than_it_uses() {
    assert_eq!(
        reads::<PersistentVolumeExpanderController>(),
        [
            "persistentvolumeclaims metadata.annotations.\"volume.kubernetes.io/storage-resizer\"",
            "persistentvolumeclaims spec.resources.requests.storage",
            "persistentvolumeclaims spec.volumeName",
            "persistentvolumeclaims status.capacity.storage",
            "persistentvolumeclaims status.phase",
            "persistentvolumes metadata.annotations.\"volume.alpha.kubernetes.io/pre-resize-capacity\"",
            "persistentvolumes spec.awsElasticBlockStore.volumeID",
            "persistentvolumes spec.azureDisk.diskName",
            "persistentvolumes spec.azureFile.shareName",
            "persistentvolumes spec.cinder.volumeID",
            "persistentvolumes spec.claimRef.namespace",
            "persistentvolumes spec.claimRef.uid",
            "persistentvolumes spec.gcePersistentDisk.pdName",
            "persistentvolumes spec.portworxVolume.volumeID",
            "persistentvolumes spec.vsphereVolume.volumePath",
        ]
    );
}
