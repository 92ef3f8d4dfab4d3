//! What the controller does, scenario by scenario.

use replicaset_controller::ReplicaSetController;

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<ReplicaSetController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}
