//! The scenarios, and what tolerations amount to.

use coxswain_sdk::Time;
use coxswain_sdk::testing::reads;
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
    assert_eq!(
        reads::<DeviceTaintEvictionController>(),
        [
            "pods spec.nodeName",
            "pods spec.resourceClaims[*].name",
            "pods spec.resourceClaims[*].resourceClaimName",
            "pods status.conditions[*].reason",
            "pods status.conditions[*].status",
            "pods status.conditions[*].type",
            "pods status.resourceClaimStatuses[*].name",
            "pods status.resourceClaimStatuses[*].resourceClaimName",
            "resourceclaims status.allocation.devices.results[*].device",
            "resourceclaims status.allocation.devices.results[*].driver",
            "resourceclaims status.allocation.devices.results[*].pool",
            "resourceclaims status.allocation.devices.results[*].tolerations[*].effect",
            "resourceclaims status.allocation.devices.results[*].tolerations[*].key",
            "resourceclaims status.allocation.devices.results[*].tolerations[*].operator",
            "resourceclaims status.allocation.devices.results[*].tolerations[*].tolerationSeconds",
            "resourceclaims status.allocation.devices.results[*].tolerations[*].value",
            "resourceclaims status.reservedFor[*].uid",
            "resourceslices spec.devices[*].name",
            "resourceslices spec.devices[*].taints[*].effect",
            "resourceslices spec.devices[*].taints[*].key",
            "resourceslices spec.devices[*].taints[*].timeAdded",
            "resourceslices spec.devices[*].taints[*].value",
            "resourceslices spec.pool.generation",
        ]
    );
}
