use coxswain_sdk::testing;

#[test]
fn scenarios() {
    testing::scenarios::<crate::CsrSigning>(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios"));
}
