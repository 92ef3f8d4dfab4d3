//! What the controller does, scenario by scenario, and what it reads.

use coxswain_sdk::{from_json, manifest_of};

use crate::{Node, PodGarbageCollector};

#[test]
fn scenarios() {
    let scenarios = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    coxswain_sdk::testing::scenarios::<PodGarbageCollector>(scenarios);
}

#[test]
fn it_reads_no_more_than_it_uses() {
    let manifest = manifest_of::<PodGarbageCollector>();
    let pods = [
        "spec.nodeName",
        "status.conditions[*].status",
        "status.conditions[*].type",
        "status.phase",
        "status.reason",
    ];
    let nodes = ["spec.taints[*].key", "status.conditions[*].status", "status.conditions[*].type"];
    assert_eq!(manifest.reads.len(), 2);
    assert_eq!(manifest.reads[0].fields, pods);
    assert_eq!(manifest.reads[1].fields, nodes);
}

#[test]
fn a_node_is_out_of_service_if_tainted_and_not_ready() {
    let taint = r#""taints":[{"key":"node.kubernetes.io/out-of-service","effect":"NoExecute"}]"#;
    let ready = |status: &str| format!(r#""conditions":[{{"type":"Ready","status":"{status}"}}]"#);
    for (spec, status, wanted) in [
        (taint, ready("False"), true),
        (taint, ready("Unknown"), true),
        (taint, String::new(), true),
        (taint, ready("True"), false),
        ("", ready("False"), false),
        (r#""taints":[{"key":"node.kubernetes.io/unreachable"}]"#, ready("False"), false),
    ] {
        let text = format!(r#"{{"spec":{{{spec}}},"status":{{{status}}}}}"#);
        assert_eq!(from_json::<Node>(&text).unwrap().is_out_of_service(), wanted, "{text}");
    }
}
