//! What the controller does, scenario by scenario, and what it declares.

use coxswain_sdk::manifest_of;

use crate::ClusterRoleAggregationController;

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
