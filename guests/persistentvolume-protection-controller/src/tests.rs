//! The scenarios, and what the controller declares.

use coxswain_sdk::manifest_of;

use crate::PersistentVolumeProtectionController;

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<PersistentVolumeProtectionController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}

#[test]
fn it_reads_no_more_than_it_uses() {
    let manifest = manifest_of::<PersistentVolumeProtectionController>();
    let fields: Vec<_> =
        manifest.reads.iter().map(|read| (read.resource.resource.as_str(), read.fields.join(" "))).collect();
    assert_eq!(fields, [("persistentvolumes", "status.phase".to_owned())]);
}
