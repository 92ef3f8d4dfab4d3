//! What the controller does, scenario by scenario, and what it declares.

use coxswain_sdk::endpoints::address::Family;
use coxswain_sdk::endpoints::subsets::{Address, Subset};
use coxswain_sdk::manifest_of;

use crate::EndpointSliceMirroringController;
use crate::desired::desired;

#[test]
fn scenarios() {
    let scenarios = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    coxswain_sdk::testing::scenarios::<EndpointSliceMirroringController>(scenarios);
}

#[test]
fn it_reads_no_more_than_it_uses() {
    let manifest = manifest_of::<EndpointSliceMirroringController>();
    let fields: Vec<_> =
        manifest.reads.iter().map(|read| (read.resource.resource.as_str(), read.fields.join(" "))).collect();
    let expected = [
        ("endpoints", "metadata.annotations subsets"),
        ("services", "spec.selector"),
        ("endpointslices", "addressType endpoints metadata.annotations ports"),
    ];
    assert_eq!(fields, expected.map(|(resource, fields)| (resource, fields.to_owned())));
}

/// The limit is one for both families together, and what is no address does not
/// count.
#[test]
fn a_subset_gives_no_more_than_the_limit() {
    let address = |ip: &str| Address { ip: ip.to_owned(), ..Address::default() };
    for (ips, limit, v4, v6, invalid, skipped) in [
        (vec![], 3, 0, 0, 0, 0),
        (vec!["10.0.0.1", "10.0.0.2"], 3, 2, 0, 0, 0),
        (vec!["10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"], 3, 2, 1, 0, 1),
        (vec!["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"], 2, 2, 0, 0, 2),
        (vec!["!", "10.0.0.1", "10.0.0.2"], 2, 2, 0, 1, 1),
        (vec!["!", "!!"], 2, 0, 0, 2, 2),
        (vec!["010.0.0.1", "10.0.0.1"], 3, 1, 0, 0, 0),
    ] {
        let subset = Subset { addresses: ips.iter().map(|ip| address(ip)).collect(), ..Subset::default() };
        let desired = desired(&[subset], limit);
        let count = |family: Family| -> usize {
            desired.groups.iter().filter(|group| group.family == family).map(|group| group.wanted.len()).sum()
        };
        let counts = (count(Family::V4), count(Family::V6), desired.invalid, desired.skipped);
        assert_eq!(counts, (v4, v6, invalid, skipped), "{ips:?}");
    }
}
