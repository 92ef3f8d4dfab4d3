//! The scenarios, and what the controller declares.

use coxswain_sdk::manifest_of;

use crate::ServiceAccountController;

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<ServiceAccountController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}

#[test]
fn it_keeps_no_field_of_accounts_and_of_namespaces_only_the_phase() {
    let manifest = manifest_of::<ServiceAccountController>();
    assert!(manifest.reads.iter().all(|read| !read.whole));
    let fields: Vec<_> =
        manifest.reads.iter().map(|read| (read.resource.resource.as_str(), read.fields.join(" "))).collect();
    let wanted = [("namespaces", "status.phase".to_owned()), ("serviceaccounts", String::new())];
    assert_eq!((manifest.aliases, fields), (vec!["serviceaccount".to_owned()], wanted.to_vec()));
}
