//! What the controller does, scenario by scenario, and what it declares.

use coxswain_sdk::manifest_of;
use coxswain_sdk::testing::{Native, Scenario, play};
use serde_json::json;

use crate::EndpointSliceController;

#[test]
fn scenarios() {
    let scenarios = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    coxswain_sdk::testing::scenarios::<EndpointSliceController>(scenarios);
}

/// Among many pods one that is not ready any more costs one write of one slice.
#[test]
fn one_pod_of_many_costs_one_write() {
    const PODS: usize = 600;
    let pod = |number: usize| {
        let (name, ip) = (format!("p{number:05}"), format!("10.0.{}.{}", number / 250, number % 250));
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "uid": name, "labels": {"app": "web"}},
            "spec": {"nodeName": "n1"},
            "status": {"podIP": ip, "podIPs": [{"ip": ip}], "conditions": [{"type": "Ready", "status": "True"}]},
        })
    };
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "uid": "web"},
            "spec": {"clusterIP": "10.96.0.1", "selector": {"app": "web"}, "ports": [{"targetPort": 80}]},
        }),
    ];
    objects.extend((0..PODS).map(pod));
    let unready = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p00277"},
        "status": {"conditions": [{"type": "Ready", "status": "False"}]},
    });
    let scenario = json!({"about": "many pods", "objects": objects, "then": [{"apply": [unready]}]});
    let scenario: Scenario = serde_json::from_value(scenario).unwrap();
    let plans = play(&scenario, &mut Native::<EndpointSliceController>::new()).unwrap();
    let writes = |what: &str| plans.matches(what).count();
    assert_eq!(writes("do: create endpointslices"), PODS / 100);
    assert_eq!(writes("do: patch endpointslices"), 1);
    assert_eq!(plans.matches("- addresses:").count(), PODS + 100, "that slice alone is written again");
}

#[test]
fn it_reads_no_more_than_it_uses() {
    let manifest = manifest_of::<EndpointSliceController>();
    let fields: Vec<_> =
        manifest.reads.iter().map(|read| (read.resource.resource.as_str(), &read.fields)).collect();
    let expected: [(&str, &[&str]); 4] = [
        (
            "services",
            &[
                "metadata.annotations.\"service.kubernetes.io/topology-aware-hints\"",
                "metadata.annotations.\"service.kubernetes.io/topology-mode\"",
                "spec.clusterIP",
                "spec.ipFamilies",
                "spec.ports[*].appProtocol",
                "spec.ports[*].name",
                "spec.ports[*].protocol",
                "spec.ports[*].targetPort",
                "spec.publishNotReadyAddresses",
                "spec.selector",
                "spec.trafficDistribution",
                "spec.type",
            ],
        ),
        (
            "pods",
            &[
                "spec.containers[*].ports[*].containerPort",
                "spec.containers[*].ports[*].name",
                "spec.containers[*].ports[*].protocol",
                "spec.containers[*].restartPolicy",
                "spec.hostname",
                "spec.initContainers[*].ports[*].containerPort",
                "spec.initContainers[*].ports[*].name",
                "spec.initContainers[*].ports[*].protocol",
                "spec.initContainers[*].restartPolicy",
                "spec.nodeName",
                "spec.subdomain",
                "status.conditions[*].lastTransitionTime",
                "status.conditions[*].status",
                "status.conditions[*].type",
                "status.phase",
                "status.podIP",
                "status.podIPs[*].ip",
            ],
        ),
        ("nodes", &["status.allocatable.cpu", "status.conditions[*].status", "status.conditions[*].type"]),
        (
            "endpointslices",
            &[
                "addressType",
                "endpoints",
                "metadata.annotations.\"endpoints.kubernetes.io/last-change-trigger-time\"",
                "ports",
            ],
        ),
    ];
    assert_eq!(fields.len(), expected.len());
    for ((resource, fields), (expected_resource, expected)) in fields.into_iter().zip(expected) {
        assert_eq!(resource, expected_resource);
        assert_eq!(fields.as_slice(), expected, "{resource}");
    }
}
