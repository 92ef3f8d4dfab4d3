//! What the controller does, scenario by scenario, and what it declares.

use coxswain_sdk::manifest_of;

use crate::EndpointSliceController;

#[test]
fn scenarios() {
    let scenarios = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    coxswain_sdk::testing::scenarios::<EndpointSliceController>(scenarios);
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
