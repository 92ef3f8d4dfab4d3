use super::*;

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<StatefulSetController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}
