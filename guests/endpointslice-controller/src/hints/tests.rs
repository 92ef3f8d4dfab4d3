//! Shares, allocations and exchanges of endpoints among zones.

use coxswain_sdk::endpoints::slice::{EndpointSlice, Trigger};
use coxswain_sdk::from_json;
use serde_json::{Value, json};

use super::zones::{Share, Zones, shares};
use crate::view::Node;

/// Nodes as `zone cpu ready role`.
fn nodes(of: &[(&str, &str, &str, &str)]) -> Vec<Node> {
    let node = |(zone, cpu, ready, role): &(&str, &str, &str, &str)| {
        let mut labels = json!({});
        if !zone.is_empty() {
            labels["topology.kubernetes.io/zone"] = json!(zone);
        }
        if !role.is_empty() {
            labels[format!("node-role.kubernetes.io/{role}")] = json!("");
        }
        let node = json!({
            "metadata": {"labels": labels},
            "status": {"allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": ready}]},
        });
        from_json(&node.to_string()).unwrap()
    };
    of.iter().map(node).collect()
}

fn shares_of(of: &[(&str, &str, &str, &str)]) -> Option<Vec<Share>> {
    shares(nodes(of).iter())
}

#[test]
fn zones_have_the_share_of_their_ready_nodes() {
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str, &'a str, &'a str)], Option<&'a str>);
    let cases: &[Case<'_>] = &[
        ("nothing", &[], None),
        ("one node", &[("a", "1", "True", "")], None),
        ("one zone", &[("a", "1", "True", ""), ("a", "1", "True", "")], None),
        ("two zones", &[("b", "1", "True", ""), ("a", "3000m", "True", "")], Some("a 0.75 b 0.25")),
        ("one of them not ready", &[("a", "1", "True", ""), ("b", "1", "False", "")], None),
        ("one of them unknown", &[("a", "1", "True", ""), ("b", "1", "Unknown", "")], None),
        (
            "one of them the control plane",
            &[("a", "1", "True", ""), ("b", "1", "True", "control-plane")],
            None,
        ),
        ("one of them an old control plane", &[("a", "1", "True", ""), ("b", "1", "True", "master")], None),
        (
            "what does not count needs no zone",
            &[
                ("a", "1", "True", ""),
                ("b", "1", "True", ""),
                ("", "1", "False", ""),
                ("", "", "True", "master"),
            ],
            Some("a 0.50 b 0.50"),
        ),
        ("no zone", &[("a", "1", "True", ""), ("b", "1", "True", ""), ("", "1", "True", "")], None),
        ("no processors", &[("a", "1", "True", ""), ("b", "0", "True", "")], None),
        ("processors below zero", &[("a", "1", "True", ""), ("b", "-1", "True", "")], None),
        ("nonsense", &[("a", "1", "True", ""), ("b", "many", "True", "")], None),
        (
            "more than there can be",
            &[("a", "1e30", "True", ""), ("b", "1", "True", "")],
            Some("a 1.00 b 0.00"),
        ),
        (
            "several nodes in a zone",
            &[("a", "1", "True", ""), ("b", "1", "True", ""), ("a", "1", "True", ""), ("c", "1", "True", "")],
            Some("a 0.50 b 0.25 c 0.25"),
        ),
    ];
    for (about, nodes, wanted) in cases {
        let shown = shares_of(nodes).map(|shares| {
            let shown: Vec<String> = shares.iter().map(Share::to_string).collect();
            shown.join(" ")
        });
        assert_eq!(shown.as_deref(), *wanted, "{about}");
    }
}

/// Zones `a`, `b`, ... with so many processors, and so many endpoints.
fn zones(cpus: &[&str], endpoints: usize) -> Result<Zones, String> {
    let names = ["a", "b", "c"];
    let of: Vec<_> = names.iter().zip(cpus).map(|(name, cpu)| (*name, *cpu, "True", "")).collect();
    Zones::allocate(&shares_of(&of).unwrap(), endpoints)
}

#[test]
fn allocations_keep_the_overload_below_a_fifth() {
    for (cpus, endpoints, maxima) in [
        (vec!["1", "1"], 2, Ok(vec![1, 1])),
        (vec!["1", "1"], 10, Ok(vec![5, 5])),
        (vec!["1", "1"], 12, Ok(vec![7, 7])),
        (vec!["3", "1"], 8, Ok(vec![6, 3])),
        (vec!["1", "1", "1"], 6, Ok(vec![2, 2, 2])),
        (vec!["1", "1"], 1, Err("Insufficient number of endpoints (1 endpoints, 2 zones)")),
        (
            vec!["1", "1000"],
            3,
            Err("Unable to allocate minimum required endpoints to each zone without exceeding overload \
                 threshold (3 endpoints, 2 zones)"),
        ),
    ] {
        let zones = zones(&cpus, endpoints);
        let found = zones.map(|zones| zones.zones.iter().map(|zone| zone.maximum).collect::<Vec<_>>());
        assert_eq!(found, maxima.map_err(str::to_owned), "{cpus:?} {endpoints}");
    }
}

#[test]
fn zones_exchange_endpoints_only_to_come_nearer_to_their_shares() {
    type Case<'a> = (&'a str, &'a [(f64, usize)], &'a [usize], &'a [usize]);
    let cases: &[Case<'_>] = &[
        ("none", &[], &[], &[]),
        ("just right", &[(4.0, 4), (2.0, 2)], &[0, 0], &[0, 0]),
        ("one each", &[(3.0, 4), (3.0, 2)], &[1, 0], &[0, 1]),
        ("not for less than half", &[(3.6, 4), (3.4, 3)], &[0, 0], &[0, 0]),
        ("nor where both are within one", &[(3.2, 4), (2.8, 2)], &[0, 0], &[0, 0]),
        ("to the one that lacks most", &[(2.0, 4), (2.1, 1), (1.9, 1)], &[2, 0, 0], &[0, 1, 1]),
        ("to that one alone", &[(2.5, 4), (2.3, 1), (1.2, 1)], &[1, 0, 0], &[0, 1, 0]),
        ("from the one that has most", &[(2.0, 4), (2.0, 3), (3.0, 0)], &[2, 1, 0], &[0, 0, 3]),
        ("more than all", &[(0.5, 9), (0.5, 0)], &[1, 0], &[0, 1]),
    ];
    for (about, amounts, gives, gets) in cases {
        let mut zones = zones(&vec!["1"; amounts.len().max(2)], 9).unwrap();
        zones.zones.truncate(amounts.len());
        for (zone, (desired, hinted)) in zones.zones.iter_mut().zip(*amounts) {
            (zone.desired, zone.hinted) = (*desired, *hinted);
        }
        let (given, got) = zones.exchange();
        assert_eq!((given.as_slice(), got.as_slice()), (*gives, *gets), "{about}");
    }
}

#[test]
fn hints_stay_while_they_leave_enough_for_each_zone() {
    let endpoint = |ready: Value, zones: &[&str]| {
        let zones: Vec<Value> = zones.iter().map(|name| json!({ "name": name })).collect();
        json!({"conditions": {"ready": ready}, "hints": {"forZones": zones}})
    };
    let ready = |zones: &[&str]| endpoint(json!(true), zones);
    for (about, endpoints, stay) in [
        ("no endpoints", json!([]), true),
        ("one", json!([ready(&["a"])]), true),
        ("several", json!([ready(&["a"]), ready(&["b"]), ready(&["a", "b"])]), true),
        (
            "those not ready do not count",
            json!([ready(&["a"]), endpoint(json!(false), &[]), endpoint(Value::Null, &["x"])]),
            true,
        ),
        ("none", json!([{"conditions": {"ready": true}}]), false),
        ("empty ones", json!([ready(&["a"]), ready(&[])]), false),
        ("a zone without a share", json!([ready(&["x"])]), false),
        ("just enough for the other", json!([ready(&["a"]), ready(&["a"])]), true),
        ("too many", json!([ready(&["a"]), ready(&["a"]), ready(&["a"])]), false),
    ] {
        let slice: EndpointSlice<Trigger> =
            from_json(&json!({ "endpoints": endpoints }).to_string()).unwrap();
        let mut zones = zones(&["1", "1"], 4).unwrap();
        assert_eq!(zones.zones[0].maximum, 2);
        assert_eq!(zones.accept(&slice), stay, "{about}");
        let counted: usize = zones.zones.iter().map(|zone| zone.hinted).sum();
        assert!(stay || counted == 0, "{about}: what is refused is not counted");
    }
}
