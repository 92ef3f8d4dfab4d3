//! The scenarios, and generated names.

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
    let manifest = coxswain_sdk::manifest_of::<ResourceClaimController>();
    assert!(manifest.reads.iter().all(|read| !read.whole));
    let of_pods = manifest.reads.iter().find(|read| read.resource.resource == "pods");
    let expected: &[&str] = &[
        "spec.nodeName",
        "spec.resourceClaims[*].name",
        "spec.resourceClaims[*].resourceClaimName",
        "spec.resourceClaims[*].resourceClaimTemplateName",
        "status.phase",
        "status.resourceClaimStatuses[*].name",
        "status.resourceClaimStatuses[*].resourceClaimName",
    ];
    assert_eq!(of_pods.map(|read| &read.fields[..]).unwrap_or_default(), expected);
}
