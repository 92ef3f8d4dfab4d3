//! What the controller does, scenario by scenario, what it declares, and what is
//! left out of a thousand addresses and more.

use coxswain_sdk::endpoints::pod::Pod;
use coxswain_sdk::endpoints::service::Service;
use coxswain_sdk::endpoints::subsets::{Address, Subset};
use coxswain_sdk::{from_json, manifest_of};
use serde_json::json;

use crate::EndpointsController;
use crate::capacity::truncate;
use crate::desired::desired;
use crate::reconcile::goes_with_its_service;
use crate::view::EndpointsObject;

#[test]
fn scenarios() {
    let scenarios = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    coxswain_sdk::testing::scenarios::<EndpointsController>(scenarios);
}

#[test]
fn it_reads_no_more_than_it_uses() {
    let manifest = manifest_of::<EndpointsController>();
    let of = |plural: &str| manifest.reads.iter().find(|read| read.resource.resource == plural).unwrap();
    assert_eq!(
        of("endpoints").fields,
        [
            "metadata.annotations.\"endpoints.kubernetes.io/last-change-trigger-time\"",
            "metadata.annotations.\"endpoints.kubernetes.io/over-capacity\"",
            "subsets",
        ]
    );
    assert!(of("pods").fields.iter().all(|field| !field.starts_with("metadata")));
    assert_eq!(manifest.reads.len(), 3);
}

#[test]
fn what_was_made_by_hand_goes_with_its_service_too() {
    const MANAGER: &str = "endpoints.kubernetes.io/managed-by";
    for (metadata, goes) in [
        (json!({}), true),
        (json!({"labels": {"team": "x"}}), true),
        (json!({"labels": {MANAGER: "somebody"}}), true),
        (json!({"labels": {MANAGER: "endpoint-controller"}}), false),
        (json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), false),
    ] {
        let endpoints: EndpointsObject = from_json(&json!({ "metadata": metadata }).to_string()).unwrap();
        assert_eq!(goes_with_its_service(&endpoints), goes, "{metadata}");
    }
}

#[test]
fn what_is_too_much_is_left_out_in_proportion() {
    type Sizes<'a> = &'a [(usize, usize)];
    let cases: &[(&str, Sizes<'_>, Sizes<'_>, bool)] = &[
        ("nothing", &[], &[], false),
        ("few", &[(2, 1)], &[(2, 1)], false),
        ("just as many", &[(500, 100), (300, 100)], &[(500, 100), (300, 100)], false),
        ("too many that are not ready", &[(500, 500), (400, 200)], &[(500, 72), (400, 28)], true),
        ("none of those fits", &[(600, 5), (400, 5)], &[(600, 0), (400, 0)], true),
        ("too many that are ready", &[(800, 10), (400, 10), (400, 0)], &[(500, 0), (250, 0), (250, 0)], true),
        (
            "rounded up as long as there is room",
            &[(700, 0), (700, 0), (700, 0)],
            &[(334, 0), (334, 0), (332, 0)],
            true,
        ),
        ("one subset", &[(1001, 1)], &[(1000, 0)], true),
    ];
    for (about, before, after, truncated) in cases {
        let addresses = |count: usize| vec![Address::default(); count];
        let mut subsets: Vec<Subset> = before
            .iter()
            .map(|(ready, not_ready)| Subset {
                addresses: addresses(*ready),
                not_ready_addresses: addresses(*not_ready),
                ports: Vec::new(),
            })
            .collect();
        assert_eq!(truncate(&mut subsets), *truncated, "{about}");
        let sizes: Vec<(usize, usize)> =
            subsets.iter().map(|subset| (subset.addresses.len(), subset.not_ready_addresses.len())).collect();
        assert_eq!(sizes, *after, "{about}");
    }
}

/// Ten times as many pods take about ten times as long; a hundred times would be
/// caught.
#[test]
fn ten_thousand_pods_are_gathered_in_linear_time() {
    let service: Service = from_json(
        &json!({"metadata": {"name": "web"}, "spec": {"clusterIP": "10.0.0.1", "ports": [
            {"name": "a", "targetPort": 1}, {"name": "b", "targetPort": 2},
        ]}})
        .to_string(),
    )
    .unwrap();
    let time = |count: usize| {
        let pod = |number: usize| -> Pod {
            let ip = format!("10.{}.{}.1", number / 250, number % 250);
            from_json(
                &json!({"metadata": {"uid": ip}, "status": {"podIP": ip, "podIPs": [{"ip": ip}],
                    "conditions": [{"type": "Ready", "status": "True"}]}})
                .to_string(),
            )
            .unwrap()
        };
        let pods: Vec<Pod> = (0..count).map(pod).collect();
        let start = std::time::Instant::now();
        let subsets = desired(&service, &pods);
        assert_eq!((subsets.len(), subsets[0].addresses.len(), subsets[0].ports.len()), (1, count, 2));
        start.elapsed()
    };
    time(1_000);
    let (small, large) = (time(1_000), time(10_000));
    assert!(large < small * 60 + std::time::Duration::from_millis(20), "{small:?}, then {large:?}");
}
