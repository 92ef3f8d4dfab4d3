use coxswain_sdk::testing;

#[test]
fn scenarios() {
    testing::scenarios::<crate::TokenCleaner>(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios"));
}
