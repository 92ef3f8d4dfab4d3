use std::time::Duration;

use coxswain_sdk::{About, Plan, StringMap, Time};
use serde_json::{Value, json};

use crate::DaemonSetController;
use crate::backoff::Memory;
use crate::counts::{Way, allows_surge, way};
use crate::manage::Work;
use crate::pods::by_node;
use crate::view::{DaemonSet, Pod, UpdateStrategy};
use crate::writes::{BURST, carry_out};

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<DaemonSetController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}

fn at(seconds: i64) -> Time {
    Time::from_unix(seconds)
}

#[test]
fn updates_go_about_as_the_strategy_says() {
    let rolling = |unavailable: Value, surge: Value| json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}});
    for (strategy, nodes, wanted, two) in [
        (json!({"type": "OnDelete"}), 5, Some(Way::Not), false),
        (json!({"type": "OnDelete", "rollingUpdate": {"maxSurge": 1}}), 5, Some(Way::Not), false),
        (json!({}), 5, Some(Way::Not), false),
        (json!({"type": "RollingUpdate"}), 5, Some(Way::Unavailable(1)), false),
        (rolling(json!(2), json!(0)), 5, Some(Way::Unavailable(2)), false),
        (rolling(json!(2), json!(0)), 0, Some(Way::Unavailable(2)), false),
        (rolling(json!("40%"), json!(null)), 4, Some(Way::Unavailable(2)), false),
        (rolling(json!("0%"), json!("0%")), 4, Some(Way::Unavailable(1)), false),
        (rolling(json!(0), json!(3)), 5, Some(Way::Surge(3)), true),
        (rolling(json!(0), json!("1%")), 5, Some(Way::Surge(1)), true),
        (rolling(json!("200%"), json!(0)), 5, Some(Way::Unavailable(10)), false),
        (rolling(json!(-3), json!(-1)), 5, Some(Way::Unavailable(1)), false),
        (rolling(json!("many"), json!(0)), 5, None, false),
        (rolling(json!(0), json!("many")), 5, None, false),
    ] {
        let parsed: UpdateStrategy = serde_json::from_value(strategy.clone()).unwrap();
        assert_eq!(way(&parsed, nodes).ok(), wanted, "{strategy} {nodes}");
        assert_eq!(allows_surge(&parsed), two, "{strategy}");
    }
}

#[test]
fn waits_double_up_to_a_quarter_of_an_hour_and_are_forgotten() {
    let mut memory = Memory::read("", 3, at(0));
    let mut now = at(1000);
    for wait in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900] {
        assert_eq!(memory.waits_until("a", now), None);
        memory.replaced("a", now);
        assert_eq!(memory.waits_until("a", now), Some(now + Duration::from_secs(wait)));
        assert_eq!(memory.waits_until("b", now), None);
        assert_eq!(Memory::read(&memory.write(), 3, now), memory, "after a restart with its state");
        now = now + Duration::from_secs(wait);
    }
    let text = memory.write();
    assert_eq!(Memory::read(&text, 4, now).write(), "", "another generation");
    assert_eq!(Memory::read(&text, 3, now + Duration::from_secs(900)), memory);
    assert_eq!(Memory::read(&text, 3, now + Duration::from_secs(901)).write(), "", "long ago");
    memory.namespace_terminating = true;
    assert!(Memory::read(&memory.write(), 4, now).namespace_terminating);
    let nonsense = "generation 3\nfailed a\nfailed b x y\nfailed c 1000 999999999999\n\nfailed";
    let read = Memory::read(nonsense, 3, at(1));
    assert_eq!(read.waits_until("c", at(1)), Some(at(901)), "no longer than ever");
    assert_eq!(read.waits_until("b", at(1)), None);
}

fn pod(change: Value) -> Pod {
    let mut pod = json!({"metadata": {"name": "p", "uid": "p"}});
    coxswain_sdk::merge::apply(&mut pod, &change);
    serde_json::from_value(pod).unwrap()
}

fn for_node(terms: Value) -> Value {
    json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}})
}

#[test]
fn the_node_of_a_pod_is_where_it_is_bound_or_where_it_is_to_be() {
    let field = |key: &str, operator: &str, values: Value| json!({"key": key, "operator": operator, "values": values});
    let named = field("metadata.name", "In", json!(["b"]));
    let mut bound = for_node(json!([{"matchFields": [named]}]));
    bound["spec"]["nodeName"] = json!("a");
    for (pod_json, node) in [
        (json!({}), None),
        (json!({"spec": {"nodeName": "a"}}), Some("a")),
        (json!({"spec": {"affinity": null}}), None),
        (json!({"spec": {"affinity": {"podAffinity": {}}}}), None),
        (for_node(json!(null)), None),
        (for_node(json!([])), None),
        (for_node(json!([{"matchFields": [named]}])), Some("b")),
        (for_node(json!([{"matchExpressions": [named]}])), None),
        (for_node(json!([{}, {"matchFields": [field("x", "In", json!(["c"])), named]}])), Some("b")),
        (for_node(json!([{"matchFields": [field("metadata.name", "NotIn", json!(["b"]))]}])), None),
        (for_node(json!([{"matchFields": [field("metadata.name", "In", json!(["b", "c"])), named]}])), None),
        (bound, Some("a")),
    ] {
        assert_eq!(pod(pod_json.clone()).node(), node, "{pod_json}");
    }
    assert!(by_node(&[]).is_empty());
}

#[test]
fn pods_are_of_a_revision_or_of_a_generation() {
    let labels = |hash: &str, generation: &str| {
        pod(
            json!({"metadata": {"labels": {"controller-revision-hash": hash, "pod-template-generation": generation}}}),
        )
    };
    for (pod, hash, generation, wanted) in [
        (labels("h", "1"), "h", None, true),
        (labels("h", "1"), "h", Some(2), true),
        (labels("g", "1"), "h", Some(1), true),
        (labels("g", "1"), "h", Some(2), false),
        (labels("g", "1"), "h", None, false),
        (labels("", "1"), "", None, false),
        (labels("", "x"), "h", Some(1), false),
    ] {
        assert_eq!(pod.is_of(hash, generation), wanted, "{pod:?} {hash} {generation:?}");
    }
}

#[test]
fn availability_waits_for_the_whole_time() {
    let ready = |since: Value| {
        pod(
            json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]}}),
        )
    };
    for (pod, seconds, wanted) in [
        (ready(json!(at(100))), 0, true),
        (ready(json!(at(100))), 10, true),
        (ready(json!(at(100))), 11, false),
        (ready(json!(at(100))), -5, true),
        (ready(json!(at(100))), i32::MAX, false),
        (ready(Value::Null), 0, true),
        (ready(Value::Null), 1, false),
        (pod(json!({})), 0, false),
    ] {
        assert_eq!(pod.is_available(seconds, at(110)), wanted, "{pod:?} {seconds}");
    }
}

#[test]
fn generations_that_make_no_sense_are_none() {
    for (text, generation) in
        [("1", Some(1)), ("-1", Some(-1)), ("x", None), ("", None), ("9223372036854775808", None)]
    {
        let annotations: StringMap =
            [("deprecated.daemonset.template.generation".to_owned(), text.to_owned())].into();
        let mut set = DaemonSet::default();
        set.metadata.annotations = annotations;
        assert_eq!(set.template_generation(), generation, "{text}");
    }
    assert_eq!(DaemonSet::default().template_generation(), None);
}

#[test]
fn one_plan_makes_no_more_than_a_burst() {
    let set: DaemonSet = serde_json::from_value(
        json!({"metadata": {"name": "agent", "namespace": "default"}, "spec": {"template": {}}}),
    )
    .unwrap();
    let names: Vec<String> = (0..BURST + 7).map(|i| format!("n{i}")).collect();
    let about = About::of::<DaemonSet, _>(&set.metadata);
    let work = || Work { create: names.iter().map(String::as_str).collect(), ..Work::default() };
    let mut plan = Plan::new();
    carry_out(&set, "h", &about, &Memory::default(), work(), &mut plan).unwrap();
    assert_eq!(plan.steps()[0].actions().len(), BURST);
    let going = Memory::read("namespace-terminating", 0, at(0));
    let mut plan = Plan::new();
    carry_out(&set, "h", &about, &going, work(), &mut plan).unwrap();
    assert!(!plan.writes());
}

#[test]
fn it_reads_no_more_than_it_uses_so_no_heartbeat_wakes_it() {
    let manifest = coxswain_sdk::manifest_of::<DaemonSetController>();
    let read = |plural: &str| {
        let read = manifest.reads.iter().find(|read| read.resource.resource == plural).unwrap();
        read.fields.clone()
    };
    assert_eq!(read("nodes"), ["spec.taints"]);
    let terms = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let fields = ["key", "operator", "values"].map(|field| [terms, "[*].matchFields[*].", field].concat());
    let mut pods: Vec<String> = fields.to_vec();
    pods.extend(
        ["spec.nodeName", "status.conditions[*].lastTransitionTime", "status.conditions[*].status"]
            .map(str::to_owned),
    );
    pods.extend(["status.conditions[*].type", "status.phase"].map(str::to_owned));
    assert_eq!(read("pods"), pods);
    assert!(read("daemonsets").contains(&"spec.template".to_owned()));
    assert_eq!(read("controllerrevisions"), ["data", "revision"]);
}
