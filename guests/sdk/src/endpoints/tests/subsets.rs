//! The canonical form of subsets, and when they mean the same.

use serde_json::{Value, json};

use super::read;
use crate::endpoints::subsets::{Subset, Subsets, mean_the_same};

fn canonical(subsets: &Value) -> Value {
    let subsets: Vec<Subset> = read(subsets.clone());
    json!(Subsets::of(&subsets).finish())
}

#[test]
fn subsets_have_one_canonical_form() {
    let p = |name: &str, number: i32| json!({"name": name, "port": number, "protocol": "TCP"});
    let a = |ip: &str| json!({"ip": ip});
    let (p1, p2) = (p("a", 1), p("b", 2));
    for (about, before, after) in [
        ("nothing", json!([]), json!([])),
        ("no address", json!([{"ports": [p1]}]), json!([])),
        (
            "addresses are sorted",
            json!([{"addresses": [a("2"), a("1")], "ports": [p1]}]),
            json!([{"addresses": [a("1"), a("2")], "ports": [p1]}]),
        ),
        (
            "the same ports are put together",
            json!([{"addresses": [a("1")], "ports": [p1]}, {"notReadyAddresses": [a("2")], "ports": [p1]}]),
            json!([{"addresses": [a("1")], "notReadyAddresses": [a("2")], "ports": [p1]}]),
        ),
        (
            "the same addresses are put together",
            json!([{"addresses": [a("1")], "ports": [p1]}, {"addresses": [a("1")], "ports": [p2]}]),
            json!([{"addresses": [a("1")], "ports": [p1, p2]}]),
        ),
        (
            "ready on one port and not on the other",
            json!([{"addresses": [a("1")], "ports": [p1]}, {"notReadyAddresses": [a("1")], "ports": [p2]}]),
            json!([{"addresses": [a("1")], "ports": [p1]}, {"notReadyAddresses": [a("1")], "ports": [p2]}]),
        ),
        (
            "what is not ready once is not ready",
            json!([{"addresses": [a("1")], "ports": [p1]}, {"notReadyAddresses": [a("1")], "ports": [p1]}]),
            json!([{"notReadyAddresses": [a("1")], "ports": [p1]}]),
        ),
        (
            "no ports at all",
            json!([{"addresses": [a("2")]}, {"addresses": [a("1")], "ports": []}]),
            json!([{"addresses": [a("1"), a("2")]}]),
        ),
        (
            "pods that share an address",
            json!([{"addresses": [{"ip": "1", "targetRef": {"uid": "v"}}, {"ip": "1", "targetRef": {"uid": "u"}}], "ports": [p1]}]),
            json!([{"addresses": [{"ip": "1", "targetRef": {"uid": "u"}}, {"ip": "1", "targetRef": {"uid": "v"}}], "ports": [p1]}]),
        ),
    ] {
        let mut formed = canonical(&before);
        for subset in formed.as_array_mut().unwrap() {
            // Their order is that of hashes, which another test is about.
            if let Some(ports) = subset.get_mut("ports").and_then(Value::as_array_mut) {
                ports.sort_by_key(|port| port["name"].to_string());
            }
        }
        assert_eq!(formed, after, "{about}");
        assert_eq!(canonical(&after), canonical(&canonical(&after)), "{about}");
    }
}

#[test]
fn subsets_are_compared_whatever_their_order_and_versions() {
    let p = json!([{"port": 1}]);
    let base = json!([{"addresses": [{"ip": "1", "targetRef": {"uid": "u", "resourceVersion": "1"}}, {"ip": "2"}], "ports": p}]);
    for (about, other, same) in [
        ("itself", base.clone(), true),
        ("none", json!([]), false),
        (
            "another order",
            json!([{"addresses": [{"ip": "2"}], "ports": p}, {"addresses": [{"ip": "1", "targetRef": {"uid": "u"}}], "ports": p}]),
            true,
        ),
        (
            "another address",
            json!([{"addresses": [{"ip": "1", "targetRef": {"uid": "u"}}, {"ip": "3"}], "ports": p}]),
            false,
        ),
        (
            "another pod",
            json!([{"addresses": [{"ip": "1", "targetRef": {"uid": "v"}}, {"ip": "2"}], "ports": p}]),
            false,
        ),
        (
            "another port",
            json!([{"addresses": [{"ip": "1", "targetRef": {"uid": "u"}}, {"ip": "2"}], "ports": [{"port": 2}]}]),
            false,
        ),
        (
            "another state",
            json!([{"addresses": [{"ip": "1", "targetRef": {"uid": "u"}}], "notReadyAddresses": [{"ip": "2"}], "ports": p}]),
            false,
        ),
    ] {
        let (one, two): (Vec<Subset>, Vec<Subset>) = (read(base.clone()), read(other));
        assert_eq!(mean_the_same(&one, &two), same, "{about}");
        assert_eq!(mean_the_same(&two, &one), same, "{about}");
    }
}
