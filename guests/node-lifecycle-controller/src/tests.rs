use std::time::Duration;

use coxswain_sdk::sort::lite_map_of;
use coxswain_sdk::{StringMap, Time};
use litemap::LiteMap;
use serde_json::{Value, json};

use crate::health::Health;
use crate::memory::{Memory, Writer};
use crate::settings::Settings;
use crate::view::{Lease, Node};
use crate::zones::{self, Census, Condition, Limiter};
use crate::{NodeLifecycleController, labels};

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<NodeLifecycleController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}

fn at(seconds: i64) -> Time {
    Time::from_unix(seconds)
}

fn settings() -> Settings {
    Settings {
        period: Duration::from_secs(5),
        grace: Duration::from_secs(50),
        startup_grace: Duration::from_secs(60),
        rate: 0.1,
        secondary_rate: 0.01,
        large: 50,
        unhealthy: 0.55,
    }
}

fn node(heartbeat: Option<i64>) -> Node {
    let conditions = heartbeat
        .map(|seconds| json!([{"type": "Ready", "status": "True", "lastHeartbeatTime": at(seconds)}]))
        .unwrap_or(Value::Null);
    let node = json!({
        "metadata": {"name": "n", "creationTimestamp": at(10)},
        "status": {"conditions": conditions},
    });
    serde_json::from_value(node).unwrap()
}

fn lease(renewed: i64) -> Lease {
    serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": {"renewTime": at(renewed)}})).unwrap()
}

#[test]
fn signs_of_life_count_from_when_they_are_seen() {
    let seen = |alive, heartbeat: Option<i64>, renewed: Option<i64>| Health {
        alive: at(alive),
        heartbeat: heartbeat.map(at),
        renewed: renewed.map(at),
    };
    let cases = [
        ("never told, never seen", None, None, None, 10),
        ("told, never seen", None, Some(90), None, 100),
        ("never told, still", Some(seen(10, None, None)), None, None, 10),
        ("told for the first time", Some(seen(10, None, None)), Some(90), None, 100),
        ("the same heartbeat", Some(seen(50, Some(90), None)), Some(90), None, 50),
        ("another heartbeat", Some(seen(50, Some(90), None)), Some(91), None, 100),
        ("a heartbeat of the past", Some(seen(50, Some(90), None)), Some(20), None, 100),
        ("condition vanished", Some(seen(50, Some(90), None)), None, None, 50),
        ("first lease", Some(seen(50, Some(90), None)), Some(90), Some(1), 100),
        ("never told, but a lease", None, None, Some(1), 100),
        ("same lease", Some(seen(50, Some(90), Some(7))), Some(90), Some(7), 50),
        ("renewed lease", Some(seen(50, Some(90), Some(7))), Some(90), Some(8), 100),
        ("lease goes back", Some(seen(50, Some(90), Some(7))), Some(90), Some(6), 50),
        ("lease vanished", Some(seen(50, Some(90), Some(7))), Some(90), None, 50),
    ];
    for (what, before, heartbeat, renewed, alive) in cases {
        let lease = renewed.map(lease);
        let health = Health::observe(before, &node(heartbeat), lease.as_ref(), at(100));
        assert_eq!(health.alive, at(alive), "{what}");
        assert_eq!(health.heartbeat, heartbeat.map(at), "{what}");
    }
    let vanished = Health::observe(Some(seen(50, Some(90), Some(7))), &node(Some(90)), None, at(100));
    assert_eq!(vanished.renewed, Some(at(7)), "a lease that comes back unchanged is no sign of life");
}

#[test]
fn who_never_told_has_a_longer_grace() {
    let health = |heartbeat| Health { alive: at(100), heartbeat, renewed: None };
    assert_eq!(health(Some(at(1))).deadline(&settings()), at(150));
    assert_eq!(health(None).deadline(&settings()), at(160));
}

#[test]
fn zones_are_judged_by_numbers_and_shares() {
    for (ready, not_ready, condition, rate) in [
        (0, 0, Condition::Normal, 0.1),
        (1, 0, Condition::Normal, 0.1),
        (0, 1, Condition::Down, 0.1),
        (1, 2, Condition::Normal, 0.1),
        (1, 3, Condition::PartlyDown, 0.0),
        (9, 10, Condition::Normal, 0.1),
        (9, 11, Condition::PartlyDown, 0.0),
        (20, 30, Condition::PartlyDown, 0.0),
        (20, 31, Condition::PartlyDown, 0.01),
        (0, 60, Condition::Down, 0.1),
    ] {
        let census = Census { ready, not_ready };
        assert_eq!(census.condition(&settings()), condition, "{ready} {not_ready}");
        assert_eq!(zones::rate(Some(census), false, &settings()), rate, "{ready} {not_ready}");
        assert_eq!(zones::rate(Some(census), true, &settings()), 0.0);
    }
    assert_eq!(zones::rate(None, true, &settings()), 0.1);
    for nonsense in [-1.0, f64::NAN] {
        assert_eq!(zones::rate(None, false, &Settings { rate: nonsense, ..settings() }), 0.0);
    }
    let zones = |all: &[(usize, usize)]| -> LiteMap<String, Census> {
        let census = |(ready, not_ready): &(usize, usize)| Census { ready: *ready, not_ready: *not_ready };
        all.iter().enumerate().map(|(i, zone)| (i.to_string(), census(zone))).collect()
    };
    for (all, down) in
        [(vec![], false), (vec![(0, 1)], true), (vec![(0, 1), (1, 9)], false), (vec![(0, 1), (0, 2)], true)]
    {
        assert_eq!(zones::all_down(&zones(&all), &settings()), down, "{all:?}");
    }
}

#[test]
fn zones_are_named_by_region_and_zone_and_old_labels_go_first() {
    for (labels, name) in [
        (vec![], "-"),
        (vec![("topology.kubernetes.io/zone", "a")], ":a"),
        (vec![("topology.kubernetes.io/region", "r")], "r:"),
        (vec![("topology.kubernetes.io/region", "r"), ("topology.kubernetes.io/zone", "a")], "r:a"),
        (vec![("failure-domain.beta.kubernetes.io/zone", "b"), ("topology.kubernetes.io/zone", "a")], ":b"),
        (vec![("failure-domain.beta.kubernetes.io/zone", ""), ("topology.kubernetes.io/zone", "a")], "-"),
    ] {
        let map: StringMap = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        assert_eq!(zones::zone_of(&map), name, "{labels:?}");
    }
}

#[test]
fn one_passes_at_a_time() {
    let mut limiter = Limiter::new(0.1, at(0));
    assert!(limiter.pass(at(0)));
    assert!(!limiter.pass(at(9)));
    assert_eq!(limiter.next_chance(), Some(at(10)));
    assert!(limiter.pass(at(10)));
    // Another rate: who waits, waits anew.
    limiter.set_rate(1.0, at(11));
    assert_eq!(limiter.next_chance(), Some(at(12)));
    limiter.set_rate(0.0, at(20));
    assert!(!limiter.pass(at(100)));
    assert_eq!(limiter.next_chance(), None);
    limiter.set_rate(0.5, at(200));
    assert!(!limiter.pass(at(200)));
    assert!(limiter.pass(at(202)));
    // Who need not wait, need not then.
    limiter.set_rate(0.1, at(300));
    assert!(limiter.pass(at(300)));
    // Nonsense neither panics nor floods.
    for rate in [f64::MIN_POSITIVE, f64::INFINITY, 1e300] {
        let mut limiter = Limiter::new(rate, at(0));
        assert!(limiter.pass(at(0)), "{rate}");
        assert!(!limiter.pass(at(0)), "{rate}");
    }
}

#[test]
fn memory_is_read_as_it_was_written() {
    let precise = at(1_767_225_600) + Duration::from_micros(123_456);
    let healths = [
        Health { alive: precise, heartbeat: None, renewed: None },
        Health { alive: at(1), heartbeat: Some(at(0)), renewed: Some(precise) },
    ];
    let limiter = Limiter { rate: 0.1, next: precise };
    let mut writer = Writer::default();
    writer.all_down(true);
    writer.zone("r:z", &limiter);
    writer.node("a", "uid-a", &healths[0]);
    writer.node("b", "uid-b", &healths[1]);
    let text = writer.finish();
    let memory = Memory::read(&text);
    assert!(memory.all_down);
    assert_eq!(memory.zones, lite_map_of([("r:z", limiter)]));
    assert_eq!(memory.nodes, lite_map_of([("a", ("uid-a", healths[0])), ("b", ("uid-b", healths[1]))]));

    let broken = Memory::read("node a\nnode b uid x - -\nzone z\nzone z fast 1\n\n{}\nnode c uid 1 -");
    assert!(!broken.all_down && broken.zones.is_empty() && broken.nodes.is_empty());
}

#[test]
fn old_labels_follow_new_ones() {
    let labels: StringMap = [
        ("kubernetes.io/os".to_owned(), "linux".to_owned()),
        ("beta.kubernetes.io/arch".to_owned(), "x".to_owned()),
    ]
    .into();
    assert_eq!(Value::Object(labels::changes(&labels)), json!({"beta.kubernetes.io/os": "linux"}));
}

#[test]
fn it_reads_no_more_than_it_uses() {
    let manifest = coxswain_sdk::manifest_of::<NodeLifecycleController>();
    let read = |plural: &str| {
        let read = manifest.reads.iter().find(|read| read.resource.resource == plural).unwrap();
        read.fields.iter().map(String::as_str).collect::<Vec<_>>()
    };
    assert_eq!(read("leases"), ["spec.renewTime"]);
    assert_eq!(
        read("nodes"),
        [
            "spec.taints",
            "spec.unschedulable",
            "status.conditions[*].lastHeartbeatTime",
            "status.conditions[*].lastTransitionTime",
            "status.conditions[*].status",
            "status.conditions[*].type",
        ]
    );
    assert_eq!(read("pods"), ["spec.nodeName", "status.conditions[*].status", "status.conditions[*].type"]);
}

/// Two minutes of a cluster whose nodes renew their leases every ten
/// seconds: the monitor looks once a period and writes nothing.
#[test]
fn renewed_leases_cost_one_look_a_period() {
    let (count, period) = (200_u32, 5);
    let mut scenario = json!({
        "about": "leases are renewed",
        "keys": ["monitor"],
        "horizon": 0,
        "objects": (0..count)
            .flat_map(|i| [
                json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{i}"), "uid": format!("n{i}")},
                    "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]}}),
                json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                    "metadata": {"name": format!("n{i}"), "namespace": "kube-node-lease"}, "spec": {"renewTime": "2026-01-01T00:00:00Z"}}),
            ])
            .collect::<Vec<_>>(),
    });
    let renewals = (1..=12_i64).map(|tick| {
        let renewed = at(1_767_225_600 + 10 * tick);
        json!({"after": 2 * period, "apply": [
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": "n*", "namespace": "kube-node-lease"}, "spec": {"renewTime": renewed}}
        ]})
    });
    scenario["then"] = renewals.collect();
    let scenario = serde_json::from_value(scenario).unwrap();
    let golden = coxswain_sdk::testing::play(
        &scenario,
        &mut coxswain_sdk::testing::Native::<NodeLifecycleController>::new(),
    );
    let golden = golden.unwrap();
    assert!(!golden.contains("do: "), "a write: {golden}");
    assert!(golden.contains("quiet: 5000"), "wakes are not held back: {golden}");
}
