use coxswain_sdk::testing;

#[test]
fn scenarios() {
    testing::scenarios::<crate::BootstrapSigner>(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios"));
}
