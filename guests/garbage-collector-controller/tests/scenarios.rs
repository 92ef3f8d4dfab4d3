//! What the controller does, scenario by scenario.

use garbage_collector_controller::GarbageCollector;

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<GarbageCollector>(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios"));
}
