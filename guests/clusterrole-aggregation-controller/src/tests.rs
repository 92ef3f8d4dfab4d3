//! What the controller does, scenario by scenario, and what it declares.

use coxswain_sdk::{from_json, manifest_of};
use serde_json::json;

use crate::view::Manager;
use crate::{ClusterRoleAggregationController, NAME};

#[test]
fn scenarios() {
    let scenarios = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    coxswain_sdk::testing::scenarios::<ClusterRoleAggregationController>(scenarios);
}

#[test]
fn it_reads_no_more_than_it_uses() {
    let manifest = manifest_of::<ClusterRoleAggregationController>();
    let selector = |field: &str| format!("aggregationRule.clusterRoleSelectors[*].{field}");
    let expression = |field: &str| selector(&format!("matchExpressions[*].{field}"));
    let expected = [
        expression("key"),
        expression("operator"),
        expression("values"),
        selector("matchLabels"),
        "rules".to_owned(),
    ];
    assert_eq!(manifest.reads.len(), 1);
    assert_eq!(manifest.reads[0].fields, expected);
}

#[test]
fn rules_are_ours_if_this_controller_applied_them() {
    for (manager, operation, fields, ours) in [
        (NAME, "Apply", json!({"f:rules": {}}), true),
        (NAME, "Update", json!({"f:rules": {}}), false),
        (NAME, "Apply", json!({"f:metadata": {}}), false),
        (NAME, "Apply", json!(null), false),
        ("kubectl", "Apply", json!({"f:rules": {}}), false),
    ] {
        let entry = json!({"manager": manager, "operation": operation, "fieldsV1": fields});
        let manager: Manager = from_json(&entry.to_string()).unwrap();
        assert_eq!(manager.has_our_rules(), ours, "{entry}");
    }
}
