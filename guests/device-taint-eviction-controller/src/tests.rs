//! The scenarios, and what tolerations amount to.

use coxswain_sdk::Time;
use serde_json::json;

use crate::DeviceTaintEvictionController;
use crate::deadline::of_taint;
use crate::view::{Taint, Toleration};

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<DeviceTaintEvictionController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}

#[test]
fn the_shortest_toleration_counts() {
    let taint: Taint = serde_json::from_value(json!({
        "key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "1970-01-01T00:01:40Z"
    }))
    .expect("a taint");
    for (tolerations, wanted) in [
        (json!([]), Some(100)),
        (json!([{"operator": "Exists", "effect": "NoExecute"}]), None),
        (json!([{"operator": "Exists"}]), Some(100)),
        (json!([{"operator": "Exists", "effect": "NoSchedule"}]), Some(100)),
        (json!([{"key": "k", "value": "v", "effect": "NoExecute", "tolerationSeconds": 10}]), Some(110)),
        (json!([{"key": "k", "operator": "Equal", "value": "w", "effect": "NoExecute"}]), Some(100)),
        (json!([{"key": "other", "operator": "Exists", "effect": "NoExecute"}]), Some(100)),
        (json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -5}]), Some(100)),
        (json!([{"operator": "Sometimes", "effect": "NoExecute"}]), Some(100)),
        (
            json!([
                {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
                {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
            ]),
            Some(130),
        ),
        (
            json!([
                {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
                {"operator": "Exists", "effect": "NoExecute"},
            ]),
            None,
        ),
        (json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": i64::MAX}]), None),
    ] {
        let list: Vec<Toleration> = serde_json::from_value(tolerations.clone()).expect("tolerations");
        assert_eq!(of_taint(&taint, &list), wanted.map(Time::from_unix), "{tolerations}");
    }
    assert_eq!(of_taint(&Taint { time_added: None, ..taint }, &[]), None);
}

#[test]
fn it_reads_no_more_than_it_uses() {
    let manifest = coxswain_sdk::manifest_of::<DeviceTaintEvictionController>();
    assert!(manifest.reads.iter().all(|read| !read.whole));
    let of_pods = manifest.reads.iter().find(|read| read.resource.resource == "pods");
    let expected: &[&str] = &[
        "spec.nodeName",
        "spec.resourceClaims[*].name",
        "spec.resourceClaims[*].resourceClaimName",
        "status.conditions[*].reason",
        "status.conditions[*].status",
        "status.conditions[*].type",
        "status.resourceClaimStatuses[*].name",
        "status.resourceClaimStatuses[*].resourceClaimName",
    ];
    assert_eq!(of_pods.map(|read| &read.fields[..]).unwrap_or_default(), expected);
}
