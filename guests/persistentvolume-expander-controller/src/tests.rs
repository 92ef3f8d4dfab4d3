//! The scenarios.

use crate::PersistentVolumeExpanderController;

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<PersistentVolumeExpanderController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}
