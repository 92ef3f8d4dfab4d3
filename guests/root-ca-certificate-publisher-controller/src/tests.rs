//! The scenarios, and what the controller declares.

use coxswain_sdk::contract::OptionKind;
use coxswain_sdk::manifest_of;

use crate::RootCaCertificatePublisher;

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<RootCaCertificatePublisher>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}

#[test]
fn it_takes_the_content_of_a_file() {
    let manifest = manifest_of::<RootCaCertificatePublisher>();
    let [_, option] = manifest.options.as_slice() else { panic!("{:?}", manifest.options) };
    assert_eq!(
        (option.name.as_str(), option.kind, option.default.as_str()),
        ("root-ca-file", OptionKind::File, "")
    );
    assert_eq!(manifest.aliases, ["root-ca-cert-publisher"]);
}

#[test]
fn it_reads_no_more_than_it_uses() {
    let manifest = manifest_of::<RootCaCertificatePublisher>();
    let fields: Vec<_> =
        manifest.reads.iter().map(|read| (read.resource.resource.as_str(), read.fields.join(" "))).collect();
    let expected = [
        ("namespaces", "status.phase"),
        ("configmaps", "data metadata.annotations.\"kubernetes.io/description\""),
    ];
    assert_eq!(fields, expected.map(|(resource, fields)| (resource, fields.to_owned())));
}
