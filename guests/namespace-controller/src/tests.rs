//! The scenarios, and what the controller declares.

use crate::NamespaceController;

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<NamespaceController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}
