//! Tables of the pure parts, and what the controller does, scenario by scenario.

use std::time::Duration;

use coxswain_sdk::{Time, from_json};
use litemap::LiteMap;
use serde_json::{Value as Json, json};

use crate::calc::{self, Readiness, Target, Value, Values};
use crate::fetch;
use crate::memory::{Memory, Sample};
use crate::rules::{Behavior, Bounds, Tolerances, normalize};
use crate::view::Pod;

struct Shown(Pod);

impl AsRef<Pod> for Shown {
    fn as_ref(&self) -> &Pod {
        &self.0
    }
}

const NOW: &str = "2026-01-01T01:00:00Z";

fn time(text: &str) -> Time {
    Time::parse(text).expect("a time")
}

fn pod(name: &str, phase: &str, ready: &str) -> Shown {
    let text = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]},
        "status": {"phase": phase, "startTime": "2026-01-01T00:00:00Z", "conditions": [
            {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:10Z"}]},
    });
    Shown(from_json(&text.to_string()).expect("a pod"))
}

fn values(of: &[(&str, i64)]) -> Values {
    let value = |milli| Value { milli, at: Some(time(NOW)), window: Duration::from_secs(30) };
    of.iter().map(|(name, milli)| ((*name).to_owned(), value(*milli))).collect()
}

fn readiness() -> Readiness {
    let cpu_initialization = Duration::from_secs(300);
    Readiness { now: time(NOW), cpu_initialization, initial_delay: Duration::from_secs(30) }
}

const TOLERANCES: Tolerances = Tolerances { down: 0.1, up: 0.1 };

#[test]
fn what_values_of_pods_call_for() {
    let running = |names: &[&str]| names.iter().map(|name| pod(name, "Running", "True")).collect::<Vec<_>>();
    let mut with_pending = running(&["a", "b"]);
    with_pending.push(pod("p", "Pending", "False"));
    let mut with_failed = running(&["a", "b"]);
    with_failed.push(pod("f", "Failed", "False"));
    let table: Vec<(&str, Vec<Shown>, Values, i32, Result<i32, &str>)> = vec![
        ("double", running(&["a", "b"]), values(&[("a", 100), ("b", 100)]), 50, Ok(4)),
        ("half", running(&["a", "b"]), values(&[("a", 25), ("b", 25)]), 50, Ok(1)),
        ("close enough", running(&["a", "b"]), values(&[("a", 54), ("b", 54)]), 50, Ok(2)),
        ("a missing pod counts as idle upwards", running(&["a", "b"]), values(&[("a", 200)]), 50, Ok(4)),
        ("a missing pod counts as busy downwards", running(&["a", "b"]), values(&[("a", 10)]), 50, Ok(2)),
        ("a pending pod counts as idle upwards", with_pending, values(&[("a", 100), ("b", 100)]), 50, Ok(4)),
        (
            "a failed pod does not count",
            with_failed,
            values(&[("a", 100), ("b", 100), ("f", 900)]),
            50,
            Ok(4),
        ),
        (
            "no pods",
            Vec::new(),
            values(&[]),
            50,
            Err("no pods returned by selector while calculating replica count"),
        ),
        (
            "no values",
            running(&["a"]),
            values(&[]),
            50,
            Err("did not receive metrics for targeted pods (pods might be unready)"),
        ),
        ("negative", running(&["a"]), values(&[("a", -100)]), 50, Ok(-2)),
        ("huge", running(&["a"]), values(&[("a", i64::MAX)]), 1, Ok(i32::MAX)),
    ];
    for (what, pods, values, percent, want) in table {
        let requests = || calc::requests(&pods, "cpu", "");
        let found = calc::by_pods(
            2,
            values,
            &pods,
            Target::Utilization(percent),
            true,
            requests,
            (readiness(), TOLERANCES),
        );
        assert_eq!(found.map(|p| p.replicas), want.map_err(str::to_owned), "{what}");
    }
}

#[test]
fn a_pod_that_has_just_started_tells_nothing_of_its_work() {
    let mut young = pod("y", "Running", "True");
    young.0.status.start_time = Some(time("2026-01-01T00:59:00Z"));
    young.0.status.conditions[0].last_transition_time = Some(time("2026-01-01T00:59:50Z"));
    let pods = [pod("a", "Running", "True"), young];
    let found = calc::by_pods(
        2,
        values(&[("a", 100), ("y", 900)]),
        &pods,
        Target::Average(100),
        true,
        || Ok(LiteMap::new()),
        (readiness(), TOLERANCES),
    );
    assert_eq!(found.map(|p| (p.replicas, p.average)), Ok((2, 100)));
}

#[test]
fn requests_that_are_not_there_are_named() {
    let pods = [pod("a", "Running", "True")];
    assert_eq!(calc::requests(&pods, "cpu", "").map(|r| r.get("a").copied()), Ok(Some(100)));
    assert_eq!(
        calc::requests(&pods, "memory", "").expect_err("none"),
        "missing request for memory in container c of Pod a"
    );
    assert_eq!(calc::requests(&pods, "cpu", "x").expect_err("none"), "container x not found in Pod a");
}

#[test]
fn a_pod_may_request_as_a_whole() {
    let requests = |cpu: &str| if cpu.is_empty() { json!({}) } else { json!({"requests": {"cpu": cpu}}) };
    let container = |name: &str, cpu: &str| json!({"name": name, "resources": requests(cpu)});
    let init =
        |policy: &str, cpu: &str| json!({"name": cpu, "restartPolicy": policy, "resources": requests(cpu)});
    let memory = json!({"requests": {"memory": "1Gi"}});
    let missing = Err("missing pod-level request for cpu in Pod p".to_owned());
    for (spec, want) in [
        (
            json!({"containers": [container("c", "100m"), container("d", "50m")], "overhead": {"cpu": "7m"}}),
            Ok(150),
        ),
        (
            json!({"containers": [container("c", "100m")], "resources": requests("1"), "overhead": {"cpu": "7m"}}),
            Ok(1007),
        ),
        (json!({"containers": [container("c", "100m"), container("d", "")], "resources": memory}), Ok(100)),
        (
            json!({"containers": [container("c", "100m")], "resources": memory,
                   "initContainers": [init("Always", "30m"), init("", "20m"), init("Always", "9m")]}),
            Ok(139),
        ),
        (
            json!({"containers": [container("c", "100m")], "resources": memory,
                   "initContainers": [init("Always", "30m"), init("", "200m")]}),
            Ok(230),
        ),
        (json!({"containers": [container("c", "")], "resources": memory}), missing),
    ] {
        let pod = from_json::<Pod>(&json!({"metadata": {"name": "p"}, "spec": spec}).to_string());
        let found = calc::requests(&[Shown(pod.expect("a pod"))], "cpu", "")
            .map(|requests| requests.get("p").copied());
        assert_eq!(found, want.map(Some), "{spec}");
    }
}

#[test]
fn what_single_values_call_for() {
    let pods = [pod("a", "Running", "True"), pod("b", "Running", "False")];
    // A total is divided over the pods that are ready.
    assert_eq!(calc::by_total(2, 200, 100, &pods, TOLERANCES), Ok(2));
    assert_eq!(calc::by_total(2, 105, 100, &pods, TOLERANCES), Ok(2));
    assert_eq!(calc::by_total(2, 900, 100, &pods, TOLERANCES), Ok(9));
    assert_eq!(calc::by_total(0, 900, 100, &pods, TOLERANCES), Ok(9));
    assert_eq!(calc::by_share((4, 4), 60_000, 10_000, TOLERANCES), (6, 15_000));
    assert_eq!(calc::by_share((4, 4), 40_000, 10_000, TOLERANCES), (4, 10_000));
    assert_eq!(calc::by_share((0, 0), 40_000, 10_000, TOLERANCES), (4, 40_000));
    // One pod more in a rollout, or one fewer, is no reason to have as many.
    assert_eq!(calc::by_share((10, 11), 105_000, 10_000, TOLERANCES), (10, 9546));
    assert_eq!(calc::by_share((10, 9), 95_000, 10_000, TOLERANCES), (10, 10_556));
}

fn bounds(current: i32, now: i64) -> Bounds {
    Bounds { current, min: 1, max: 20, now, downscale: Duration::from_secs(300) }
}

#[test]
fn without_rules_a_size_at_most_doubles_and_shrinks_after_the_window() {
    let table = [
        (2, 9, 4, "ScaleUpLimit"),
        (3, 9, 6, "ScaleUpLimit"),
        (15, 90, 20, "TooManyReplicas"),
        (4, 0, 1, "TooFewReplicas"),
        (4, 5, 5, "DesiredWithinRange"),
    ];
    for (current, wanted, size, reason) in table {
        let found = normalize(wanted, bounds(current, 0), None, &mut Memory::default());
        assert_eq!((found.replicas, found.limited.reason), (size, reason), "{wanted} of {current}");
    }
    let mut memory = Memory::default();
    assert_eq!(normalize(8, bounds(8, 0), None, &mut memory).replicas, 8);
    let held = normalize(2, bounds(8, 299_000), None, &mut memory);
    assert_eq!((held.replicas, held.able.reason), (8, "ScaleDownStabilized"));
    assert_eq!(normalize(2, bounds(8, 301_000), None, &mut memory).replicas, 2);
    assert_eq!(
        memory.recommended,
        [Sample(2, 301_000)],
        "what no window reaches is forgotten, what repeats is kept once"
    );
}

#[test]
fn memory_is_no_longer_than_what_is_looked_back_on() {
    let mut memory = Memory::default();
    for at in (0..100).map(|at| at * 10_000) {
        memory.recommend(5, at);
        memory.scaled(4, 3, at, 30_000);
    }
    memory.scaled(3, 5, 1_000_000, 30_000);
    assert_eq!(memory.recommended, [Sample(5, 990_000)]);
    assert_eq!(memory.removed, [Sample(1, 970_000), Sample(1, 980_000), Sample(1, 990_000)]);
    assert_eq!(memory.added, [Sample(2, 1_000_000)]);
    memory.last = 1_000_000;
    memory.not_scaled();
    assert_eq!((memory.added.len(), memory.removed.len()), (0, 3), "only the last change is taken back");
}

fn behavior(value: Json) -> Behavior {
    Behavior::read(&value)
}

#[test]
fn policies_bound_the_change_in_a_period() {
    let pods = |n: i32| json!({"type": "Pods", "value": n, "periodSeconds": 60});
    let percent = |n: i32| json!({"type": "Percent", "value": n, "periodSeconds": 60});
    let rules = |select: &str, policies: Json| {
        let rules = json!({"selectPolicy": select, "policies": policies, "stabilizationWindowSeconds": 0});
        behavior(json!({"scaleUp": rules, "scaleDown": rules}))
    };
    for (select, policies, wanted, size) in [
        ("Max", json!([pods(4)]), 20, 14),
        ("Max", json!([pods(4), percent(50)]), 20, 15),
        ("Min", json!([pods(4), percent(50)]), 20, 14),
        ("Disabled", json!([pods(4)]), 20, 10),
        ("Max", json!([pods(4), percent(50)]), 1, 5),
        ("Min", json!([pods(4), percent(50)]), 1, 6),
        ("Disabled", json!([pods(4)]), 1, 10),
        ("Max", json!([percent(1)]), 20, 11),
    ] {
        let rules = rules(select, policies.clone());
        let found = normalize(wanted, bounds(10, 100_000), Some(&rules), &mut Memory::default());
        assert_eq!(found.replicas, size, "{select} {policies} to {wanted}");
    }
    // What was added in the period counts; what was added before it does not.
    let rules = rules("Max", json!([pods(4)]));
    let mut memory = Memory { added: vec![Sample(3, 90_000), Sample(9, 10_000)], ..Memory::default() };
    assert_eq!(normalize(20, bounds(10, 100_000), Some(&rules), &mut memory).replicas, 11);
}

#[test]
fn windows_hold_in_both_directions() {
    let window = |up: i32, down: i32| {
        let rules = |seconds: i32| {
            json!({"selectPolicy": "Max", "stabilizationWindowSeconds": seconds,
                   "policies": [{"type": "Percent", "value": 1000, "periodSeconds": 15}]})
        };
        behavior(json!({"scaleUp": rules(up), "scaleDown": rules(down)}))
    };
    let remembered = || Memory { recommended: vec![Sample(4, 50_000)], ..Memory::default() };
    let up = normalize(12, bounds(6, 100_000), Some(&window(60, 0)), &mut remembered());
    assert_eq!((up.replicas, up.able.reason), (6, "ScaleUpStabilized"));
    let up = normalize(12, bounds(6, 100_000), Some(&window(30, 0)), &mut remembered());
    assert_eq!((up.replicas, up.able.reason), (12, "ReadyForNewScale"));
    let down = normalize(2, bounds(6, 100_000), Some(&window(0, 60)), &mut remembered());
    assert_eq!((down.replicas, down.able.reason), (4, "ScaleDownStabilized"));
}

#[test]
fn tolerances_may_be_the_autoscalers_own() {
    let own = behavior(json!({"scaleUp": {"tolerance": "0"}, "scaleDown": {"tolerance": "50m"}}));
    let tolerances = Tolerances::of(Some(&own), 0.1);
    assert_eq!(tolerances, Tolerances { down: 0.05, up: 0.0 });
    assert!(!tolerances.holds(1.01) && tolerances.holds(0.96) && !tolerances.holds(0.94));
    assert!(!TOLERANCES.holds(f64::NAN), "no number is no reason to rest");
}

#[test]
fn answers_that_make_no_sense_are_no_values() {
    let resource = |answer: Json| fetch::resource_values(&Ok(answer.to_string()), "cpu", "");
    let item = |usage: Json| json!({"items": [{"metadata": {"name": "a"}, "containers": [{"name": "c", "usage": usage}]}]});
    assert_eq!(resource(json!({})).expect_err("none"), "no metrics returned from resource metrics API");
    assert_eq!(
        resource(item(json!({"cpu": "100m"}))).map(|v| v.get("a").map(|value| value.milli)),
        Ok(Some(100))
    );
    assert_eq!(resource(item(json!({"cpu": "NaN"}))).map(|v| v.len()), Ok(0));
    assert_eq!(resource(item(json!({"memory": "1"}))).map(|v| v.len()), Ok(0));
    assert!(fetch::resource_values(&Ok("no JSON".into()), "cpu", "").is_err());
    let two = json!({"items": [{"value": "1"}, {"value": "2"}]}).to_string();
    assert!(fetch::object_value(&Ok(two.clone())).expect_err("two").contains("returned 2 results"));
    assert_eq!(fetch::external_value(&Ok(two)), Ok(3000));
}

#[test]
fn paths_are_escaped() {
    assert_eq!(
        fetch::resource_path("default", "app in (a,b),!c"),
        "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods?labelSelector=app%20in%20%28a%2Cb%29%2C%21c"
    );
    assert_eq!(
        fetch::external_path("default", "queue/length", ""),
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue%2Flength"
    );
}

#[test]
fn only_what_counts_is_read() {
    let manifest = coxswain_sdk::manifest_of::<crate::HorizontalPodAutoscalerController>();
    let fields: Vec<String> = manifest.reads.iter().map(|read| read.fields.join(" ")).collect();
    assert_eq!(
        fields,
        [
            "spec.behavior spec.maxReplicas spec.metrics spec.minReplicas spec.scaleTargetRef.apiVersion \
             spec.scaleTargetRef.kind spec.scaleTargetRef.name status.conditions status.currentMetrics \
             status.currentReplicas status.desiredReplicas status.lastScaleTime",
            "spec.containers[*].name spec.containers[*].resources.requests spec.initContainers[*].name \
             spec.initContainers[*].resources.requests spec.initContainers[*].restartPolicy spec.overhead \
             spec.resources.requests status.conditions[*].lastTransitionTime status.conditions[*].status \
             status.conditions[*].type status.phase status.startTime",
        ]
    );
}

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<crate::HorizontalPodAutoscalerController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}
