//! What the controller declares: a change here changes what is cached.

use coxswain_sdk::manifest_of;
use replicaset_controller::ReplicaSetController;

#[test]
fn it_reads_no_more_than_it_uses() {
    let manifest = manifest_of::<ReplicaSetController>();
    let fields: Vec<_> =
        manifest.reads.iter().map(|read| (read.resource.resource.as_str(), &read.fields)).collect();
    let expected: [(&str, &[&str]); 2] = [
        (
            "replicasets",
            &[
                "spec.minReadySeconds",
                "spec.replicas",
                "spec.selector.matchExpressions[*].key",
                "spec.selector.matchExpressions[*].operator",
                "spec.selector.matchExpressions[*].values",
                "spec.selector.matchLabels",
                "spec.template.metadata.annotations",
                "spec.template.metadata.finalizers",
                "spec.template.metadata.labels",
                "spec.template.spec",
                "status.availableReplicas",
                "status.conditions",
                "status.fullyLabeledReplicas",
                "status.observedGeneration",
                "status.readyReplicas",
                "status.replicas",
                "status.terminatingReplicas",
            ],
        ),
        (
            "pods",
            &[
                "metadata.annotations.\"controller.kubernetes.io/pod-deletion-cost\"",
                "spec.initContainers[*].name",
                "spec.initContainers[*].restartPolicy",
                "spec.nodeName",
                "status.conditions[*].lastTransitionTime",
                "status.conditions[*].status",
                "status.conditions[*].type",
                "status.containerStatuses[*].restartCount",
                "status.initContainerStatuses[*].name",
                "status.initContainerStatuses[*].restartCount",
                "status.phase",
            ],
        ),
    ];
    assert_eq!(fields.len(), expected.len());
    for ((resource, fields), (expected_resource, expected)) in fields.into_iter().zip(expected) {
        assert_eq!(resource, expected_resource);
        assert_eq!(fields.as_slice(), expected, "{resource}");
    }
}
