use crate::WebsiteController;

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<WebsiteController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../scenarios"
    ));
}
