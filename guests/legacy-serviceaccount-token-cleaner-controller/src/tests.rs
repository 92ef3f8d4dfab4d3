use coxswain_sdk::testing;

#[test]
fn scenarios() {
    testing::scenarios::<crate::LegacyTokenCleaner>(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios"));
}
