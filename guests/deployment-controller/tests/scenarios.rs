//! What the controller does, scenario by scenario.

use deployment_controller::DeploymentController;

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<DeploymentController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}
