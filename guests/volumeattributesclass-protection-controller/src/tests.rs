//! The scenarios, and what the controller declares.

use coxswain_sdk::testing::reads;

use crate::VolumeAttributesClassProtectionController;

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<VolumeAttributesClassProtectionController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}

#[test]
fn it_reads_no_more_than_it_uses() {
    assert_eq!(
        reads::<VolumeAttributesClassProtectionController>(),
        ["volumeattributesclasses", "persistentvolumes", "persistentvolumeclaims",]
    );
}
