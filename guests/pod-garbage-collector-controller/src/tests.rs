//! What the controller does, scenario by scenario, and what it reads.

use coxswain_sdk::{Time, from_json, manifest_of};

use crate::{Node, Pod, PodGarbageCollector};

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

#[test]
fn a_pod_was_asked_to_go_its_grace_before_it_is_gone() {
    for (grace, wanted) in [
        (r#","deletionGracePeriodSeconds":30"#, "2026-01-01T00:00:00Z"),
        (r#","deletionGracePeriodSeconds":0"#, "2026-01-01T00:00:30Z"),
        (r#","deletionGracePeriodSeconds":-9223372036854775808"#, "2026-01-01T00:00:30Z"),
        ("", "2026-01-01T00:00:30Z"),
    ] {
        let text = format!(r#"{{"metadata":{{"deletionTimestamp":"2026-01-01T00:00:30Z"{grace}}}}}"#);
        let pod: Pod = from_json(&text).unwrap();
        assert_eq!(pod.asked_to_go(), Time::parse(wanted), "{text}");
    }
    assert_eq!(Pod::default().asked_to_go(), None);
}
