//! The scenarios, and what the controller declares.

use coxswain_sdk::testing::reads;

use crate::EphemeralVolumeController;

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<EphemeralVolumeController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}

#[test]
fn it_reads_no_more_than_it_uses() {
    assert_eq!(
        reads::<EphemeralVolumeController>(),
        [
            "pods spec.volumes[*].ephemeral",
            "pods spec.volumes[*].name",
            "pods spec.volumes[*].persistentVolumeClaim.claimName",
            "persistentvolumeclaims",
        ]
    );
}
