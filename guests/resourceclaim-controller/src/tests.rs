//! The scenarios, and generated names.

use coxswain_sdk::testing::reads;

use crate::ResourceClaimController;
use crate::pod::prefix;

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<ResourceClaimController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}

#[test]
fn long_names_are_shortened_in_proportion() {
    assert_eq!(prefix("p", "dev"), "p-dev-");
    let (long, short) = ("p".repeat(253), "c".repeat(63));
    let both = prefix(&long, &short);
    assert_eq!(both, format!("{}-{}", "p".repeat(45), "c".repeat(11)));
    assert_eq!(prefix(&"p".repeat(50), "dev00"), format!("{}-dev00-", "p".repeat(50)));
    assert_eq!(prefix(&"p".repeat(51), "dev00").len(), 50 + 1 + 4);
    // No name of the API, and no reason to panic.
    assert!(prefix(&"ü".repeat(100), "dev").len() <= 57);
}

#[test]
fn it_reads_no_more_than_it_uses() {
    assert_eq!(
        reads::<ResourceClaimController>(),
        [
            "pods spec.nodeName",
            "pods spec.resourceClaims[*].name",
            "pods spec.resourceClaims[*].resourceClaimName",
            "pods spec.resourceClaims[*].resourceClaimTemplateName",
            "pods status.phase",
            "pods status.resourceClaimStatuses[*].name",
            "pods status.resourceClaimStatuses[*].resourceClaimName",
            "resourceclaims metadata.annotations.\"resource.kubernetes.io/extended-resource-claim\"",
            "resourceclaims metadata.annotations.\"resource.kubernetes.io/pod-claim-name\"",
            "resourceclaims spec.devices.requests[*].exactly.adminAccess",
            "resourceclaims status.allocation.devices.results[*].request",
            "resourceclaims status.reservedFor",
            "resourceclaimtemplates spec.metadata.annotations",
            "resourceclaimtemplates spec.metadata.labels",
            "resourceclaimtemplates spec.spec",
        ]
    );
}
