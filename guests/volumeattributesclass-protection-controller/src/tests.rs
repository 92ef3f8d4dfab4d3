//! The scenarios, and what the controller declares.

use coxswain_sdk::manifest_of;

use crate::VolumeAttributesClassProtectionController;

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<VolumeAttributesClassProtectionController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}

#[test]
fn it_keeps_no_field_of_volumes_and_claims() {
    let manifest = manifest_of::<VolumeAttributesClassProtectionController>();
    let kept: Vec<_> = manifest.reads.iter().map(|read| (read.fields.join(" "), read.whole)).collect();
    assert_eq!(kept, vec![(String::new(), false); 3]);
}
