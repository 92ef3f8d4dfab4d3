//! The scenarios, what the controller declares, and who uses a claim.

use coxswain_sdk::testing::reads;
use serde_json::json;

use crate::PersistentVolumeClaimProtectionController;
use crate::usage::uses;
use crate::view::{Claim, Pod};

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<PersistentVolumeClaimProtectionController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}

#[test]
fn it_reads_no_more_than_it_uses() {
    assert_eq!(
        reads::<PersistentVolumeClaimProtectionController>(),
        [
            "persistentvolumeclaims",
            "pods spec.nodeName",
            "pods spec.volumes[*].ephemeral",
            "pods spec.volumes[*].name",
            "pods spec.volumes[*].persistentVolumeClaim.claimName",
        ]
    );
}

#[test]
fn a_pod_uses_a_claim_that_it_names_or_that_was_made_for_it() {
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pod-p", "controller": true}]);
    let claim = |name: &str, owners: serde_json::Value| -> Claim {
        let meta = json!({"name": name, "namespace": "a", "uid": "c", "ownerReferences": owners});
        serde_json::from_value(json!({ "metadata": meta })).expect("a claim")
    };
    let pod = |namespace: &str, meta: serde_json::Value, node: &str, volume: serde_json::Value| -> Pod {
        let mut metadata = json!({"name": "p", "namespace": namespace, "uid": "pod-p"});
        for (field, value) in meta.as_object().into_iter().flatten() {
            metadata[field] = value.clone();
        }
        let spec = json!({"nodeName": node, "volumes": [{"name": "other"}, volume]});
        serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).expect("a pod")
    };
    let named = || json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}});
    let template = || json!({"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}});
    let going = |grace: i64| json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace});
    let none = || json!({});
    let by_name = claim("c", json!([]));
    let made = claim("p-v", owner);
    let foreign = claim("p-v", json!([]));
    for (what, wanted, pod, claim) in [
        ("named", true, pod("a", none(), "n", named()), &by_name),
        ("not scheduled", false, pod("a", none(), "", named()), &by_name),
        ("another namespace", false, pod("b", none(), "n", named()), &by_name),
        ("going by name", true, pod("a", going(0), "n", named()), &by_name),
        ("made for it", true, pod("a", none(), "n", template()), &made),
        ("made, not scheduled", false, pod("a", none(), "", template()), &made),
        ("made for another", false, pod("a", none(), "n", template()), &foreign),
        ("made, pod going", true, pod("a", going(30), "n", template()), &made),
        ("made, pod shut down", false, pod("a", going(0), "n", template()), &made),
        ("neither", false, pod("a", none(), "n", json!({"name": "v"})), &by_name),
    ] {
        assert_eq!(uses(&pod, claim), wanted, "{what}");
    }
}
