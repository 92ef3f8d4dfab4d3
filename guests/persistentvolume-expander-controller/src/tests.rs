//! The scenarios.

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
    let manifest = coxswain_sdk::manifest_of::<PersistentVolumeExpanderController>();
    assert!(manifest.reads.iter().all(|read| !read.whole));
}
