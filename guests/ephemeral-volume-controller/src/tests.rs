//! The scenarios, and what the controller declares.

use coxswain_sdk::manifest_of;

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
    let manifest = manifest_of::<EphemeralVolumeController>();
    let fields: Vec<_> =
        manifest.reads.iter().map(|read| (read.resource.resource.as_str(), read.fields.join(" "))).collect();
    let volume = "spec.volumes[*].";
    assert_eq!(
        fields,
        [
            ("pods", format!("{volume}ephemeral {volume}name {volume}persistentVolumeClaim.claimName")),
            ("persistentvolumeclaims", String::new()),
        ]
    );
}
