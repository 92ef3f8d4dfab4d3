//! What the controller does, scenario by scenario, and which addresses are in a
//! range.

use coxswain_sdk::manifest_of;

use crate::ServiceCidrController;
use crate::prefix::Prefix;

#[test]
fn scenarios() {
    let scenarios = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    coxswain_sdk::testing::scenarios::<ServiceCidrController>(scenarios);
}

#[test]
fn it_reads_no_more_than_it_uses() {
    let manifest = manifest_of::<ServiceCidrController>();
    let fields: Vec<_> =
        manifest.reads.iter().map(|read| (read.resource.resource.as_str(), read.fields.join(" "))).collect();
    let conditions =
        ["message", "reason", "status", "type"].map(|field| format!("status.conditions[*].{field}"));
    let expected =
        [("servicecidrs", format!("spec.cidrs {}", conditions.join(" "))), ("ipaddresses", String::new())];
    assert_eq!(fields, expected);
}

#[test]
fn what_is_no_range_is_refused() {
    for text in [
        "10.0.0.0",
        "10.0.0.0/33",
        "10.0.0.0/-1",
        "10.0.0.0/+8",
        "10.0.0.0/08",
        "10.0.0.0/",
        "/8",
        "a/8",
        "fd00::/129",
        "",
    ] {
        assert_eq!(Prefix::parse(text), None, "{text}");
    }
}

#[test]
fn a_range_covers_smaller_ones() {
    for (larger, smaller, covers) in [
        ("10.0.0.0/24", "10.0.0.0/24", true),
        ("10.0.0.0/16", "10.0.7.0/24", true),
        ("10.0.7.0/24", "10.0.0.0/16", false),
        ("10.0.0.0/16", "10.1.0.0/24", false),
        ("0.0.0.0/0", "10.1.0.0/24", true),
        ("::/0", "10.1.0.0/24", false),
        ("::/0", "fd00::/128", true),
        ("fd00::/112", "fd00::1:0/120", false),
    ] {
        let [larger, smaller] = [larger, smaller].map(|text| Prefix::parse(text).unwrap());
        assert_eq!(larger.covers(&smaller), covers, "{larger:?} {smaller:?}");
    }
}

#[test]
fn the_first_address_and_the_last_of_ipv4_serve_nobody() {
    for (range, address, serves) in [
        ("10.0.0.0/24", "10.0.0.0", false),
        ("10.0.0.0/24", "10.0.0.1", true),
        ("10.0.0.0/24", "10.0.0.254", true),
        ("10.0.0.0/24", "10.0.0.255", false),
        ("10.0.0.0/24", "10.0.1.1", false),
        ("10.0.0.0/24", "fd00::1", false),
        ("10.0.0.0/8", "10.0.0.255", true),
        ("0.0.0.0/0", "255.255.255.255", false),
        ("0.0.0.0/0", "10.0.0.1", true),
        ("10.0.0.1/32", "10.0.0.1", false),
        ("fd00::/112", "fd00::", false),
        ("fd00::/112", "fd00::ffff", true),
        ("::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", true),
        ("::/0", "::", false),
    ] {
        let prefix = Prefix::parse(range).unwrap();
        assert_eq!(prefix.serves(address.parse().unwrap()), serves, "{range} {address}");
    }
}
