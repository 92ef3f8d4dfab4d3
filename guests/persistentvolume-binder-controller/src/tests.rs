//! The scenarios, and what the controller declares.

use crate::PersistentVolumeBinderController;

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<PersistentVolumeBinderController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}
