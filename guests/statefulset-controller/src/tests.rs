use coxswain_sdk::contract::ObjectRef;
use coxswain_sdk::{Object, OwnerReference, Time, from_json, manifest_of};
use serde_json::{Value, json};

use super::*;
use crate::members::{Members, name_of, ordinal_of};
use crate::ownership::Owners;
use crate::status::Status;
use crate::update::Update;
use crate::view::Retention;

#[test]
fn scenarios() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    coxswain_sdk::testing::scenarios::<StatefulSetController>(dir);
}

#[test]
fn it_is_who_kubernetes_users_know() {
    let manifest = manifest_of::<StatefulSetController>();
    assert_eq!(manifest.name, "statefulset-controller");
    assert_eq!(manifest.aliases, ["statefulset"]);
    assert_eq!(
        (manifest.concurrency, manifest.concurrency_flag.as_str()),
        (5, "concurrent-statefulset-syncs")
    );
}

/// What every pod of a cluster costs in the cache.
#[test]
fn it_reads_no_more_of_pods_and_claims_than_it_uses() {
    let manifest = manifest_of::<StatefulSetController>();
    let fields = |plural: &str| {
        let read = manifest.reads.iter().find(|read| read.resource.resource == plural);
        read.map(|read| (read.whole, read.fields.clone()))
    };
    assert_eq!(fields("persistentvolumeclaims"), Some((false, vec![])));
    let of_pods = [
        "spec.volumes[*].name",
        "spec.volumes[*].persistentVolumeClaim.claimName",
        "status.conditions[*].lastTransitionTime",
        "status.conditions[*].status",
        "status.conditions[*].type",
        "status.phase",
    ];
    assert_eq!(fields("pods"), Some((false, of_pods.map(str::to_owned).to_vec())));
    assert_eq!(fields("controllerrevisions"), Some((false, vec!["data".to_owned(), "revision".to_owned()])));
    let (_, of_sets) = fields("statefulsets").unwrap();
    assert!(of_sets.iter().any(|field| field == "spec.template"), "{of_sets:?}");
    assert!(of_sets.iter().any(|field| field == "spec.volumeClaimTemplates"), "{of_sets:?}");
}

#[test]
fn ordinals_are_read_as_they_are_written() {
    for (pod, ordinal) in [
        ("web-0", Some(0)),
        ("web-12", Some(12)),
        ("web-2147483647", Some(2_147_483_647)),
        ("web-2147483648", None),
        ("web-01", None),
        ("web--1", None),
        ("web-+1", None),
        ("web-", None),
        ("web", None),
        ("web-a", None),
        ("web-0-1", None),
        ("other-0", None),
        ("xweb-0", None),
    ] {
        assert_eq!(ordinal_of("web", pod), ordinal, "{pod}");
        assert!(ordinal.is_none_or(|ordinal| name_of("web", ordinal) == pod));
    }
    assert_eq!(ordinal_of("web-0", "web-0-1"), Some(1));
}

fn set(spec: Value) -> StatefulSet {
    from_json(&json!({"metadata": {"name": "web", "uid": "s"}, "spec": spec}).to_string()).unwrap()
}

#[test]
fn numbers_from_the_spec() {
    let with = |max: Value| {
        set(json!({"replicas": 10, "updateStrategy": {"rollingUpdate": {"maxUnavailable": max}}}))
    };
    for (max, number) in [
        (json!(null), 1),
        (json!(3), 3),
        (json!(0), 1),
        (json!(-5), 1),
        (json!("25%"), 2),
        (json!("1%"), 1),
        (json!("100%"), 10),
        (json!("many"), 1),
        (json!("99999999999999999999%"), 1),
    ] {
        assert_eq!(with(max.clone()).max_unavailable(), number, "{max}");
    }
    for (replicas, start, first, last) in [
        (json!(3), 0, 0, 2),
        (json!(null), 5, 5, 5),
        (json!(i32::MAX), i32::MAX, 2_147_483_647, 4_294_967_293),
    ] {
        let set = set(json!({"replicas": replicas, "ordinals": {"start": start}}));
        assert!(set.wants(first) && set.wants(last), "{replicas} from {start}");
        assert!(!set.wants(first - 1) && !set.wants(last + 1), "{replicas} from {start}");
    }
    assert!(!set(json!({"replicas": -1})).wants(0));
}

#[test]
fn policies_that_are_not_understood_keep_claims() {
    for (policy, with_set, with_pod) in [
        (json!(null), false, false),
        (json!({"whenDeleted": "Delete", "whenScaled": "Retain"}), true, false),
        (json!({"whenDeleted": "Retain", "whenScaled": "Delete"}), false, true),
        (json!({"whenDeleted": "Delete", "whenScaled": "Delete"}), true, true),
        (json!({"whenDeleted": "Delete"}), false, false),
        (json!({"whenDeleted": "Delete", "whenScaled": "Sometimes"}), false, false),
    ] {
        let retention = set(json!({"persistentVolumeClaimRetentionPolicy": policy})).retention();
        assert_eq!((retention.delete_with_set, retention.delete_with_pod), (with_set, with_pod), "{policy}");
    }
}

fn reference(text: &str) -> OwnerReference {
    let (kind, uid) = text.split_once('/').unwrap();
    let (api_version, kind, name) = match kind {
        "set" => ("apps/v1", "StatefulSet", "web"),
        "pod" => ("v1", "Pod", "web-0"),
        other => ("example.com/v1", other, "x"),
    };
    let (uid, controls) = uid.strip_suffix('*').map_or((uid, false), |uid| (uid, true));
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(controls),
        block_owner_deletion: Some(controls),
    }
}

/// References as `kind/uid`, with a star for the controller; the set is `s`,
/// the pod `p`.
#[test]
fn claims_are_owned_by_the_policy() {
    const RIGHT: &str = "right";
    for (policy, wanted, before, after) in [
        // Nobody, unless the policy says so.
        ("", true, "", RIGHT),
        ("", true, "set/s*", ""),
        ("", false, "pod/p*", ""),
        ("", true, "Vault/v*", RIGHT),
        ("", true, "Vault/v* set/s", "Vault/v*"),
        // The set.
        ("set", true, "", "set/s*"),
        ("set", true, "set/s*", RIGHT),
        ("set", true, "set/s", "set/s*"),
        ("set", false, "pod/p*", "set/s*"),
        ("set", true, "Note/n", "Note/n set/s*"),
        // The pod, once it is not wanted.
        ("pod", true, "", RIGHT),
        ("pod", true, "pod/p*", ""),
        ("pod", false, "", "pod/p*"),
        ("pod", false, "set/s*", "pod/p*"),
        ("pod", false, "pod/p*", RIGHT),
        // One or the other.
        ("set pod", true, "", "set/s*"),
        ("set pod", true, "pod/p*", "set/s*"),
        ("set pod", false, "set/s*", "pod/p*"),
        ("set pod", false, "pod/p*", RIGHT),
        // Those of earlier owners of the name are left to the garbage collector.
        ("set", true, "set/old*", RIGHT),
        ("pod", false, "pod/old*", RIGHT),
        ("set pod", true, "pod/old* set/s*", RIGHT),
        // Others control it.
        ("set", true, "Vault/v*", RIGHT),
        ("set", true, "Vault/v* set/s", "Vault/v*"),
        ("pod", false, "Vault/v* pod/p", "Vault/v*"),
    ] {
        let read = |text: &str| text.split_whitespace().map(reference).collect::<Vec<_>>();
        let owners = Owners {
            set: reference("set/s*"),
            pod: reference("pod/p*"),
            wanted,
            retention: Retention {
                delete_with_set: policy.contains("set"),
                delete_with_pod: policy.contains("pod"),
            },
        };
        let expected = (after != RIGHT).then(|| read(after));
        assert_eq!(owners.wanted(&read(before)), expected, "{policy:?} {wanted} {before:?}");
        if let Some(after) = expected {
            assert_eq!(owners.wanted(&after), None, "not settled: {policy:?} {wanted} {before:?}");
        }
    }
}

#[test]
fn only_claims_of_earlier_pods_hold_up_a_pod() {
    let owners = |delete_with_pod| Owners {
        set: reference("set/s*"),
        pod: OwnerReference { uid: String::new(), ..reference("pod/p*") },
        wanted: true,
        retention: Retention { delete_with_set: true, delete_with_pod },
    };
    assert!(owners(true).has_stale_pod(&[reference("pod/p*")]));
    assert!(!owners(true).has_stale_pod(&[reference("set/s*"), reference("Vault/v*")]));
    assert!(!owners(false).has_stale_pod(&[reference("pod/p*")]));
}

fn pod(name: &str, revision: &str, ready: bool) -> Object<Pod> {
    let pod = json!({
        "metadata": {"name": name, "uid": name, "labels": {"controller-revision-hash": revision}},
        "status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    });
    Object::new(ObjectRef { resource: 1, id: 1, version: 1 }, from_json(&pod.to_string()).unwrap())
}

/// Pods as `revision` and `!` if not ready, from ordinal 0; `-` for one that is
/// missing.
fn members(set: &StatefulSet, pods: &str) -> Members {
    let pods: Vec<_> = pods
        .split_whitespace()
        .enumerate()
        .filter(|(_, pod)| *pod != "-")
        .map(|(i, text)| pod(&format!("web-{i}"), text.trim_end_matches('!'), !text.ends_with('!')))
        .collect();
    Members::of(set, &pods)
}

#[test]
fn who_goes_for_an_update() {
    for (pods, partition, max, next, several) in [
        ("a a a", 0, 1, "web-2", "web-2"),
        ("a a b", 0, 1, "web-1", "web-1"),
        ("b b b", 0, 1, "", ""),
        ("a a b!", 0, 1, "", ""),
        ("a a a!", 0, 1, "web-2", "web-2"),
        // A broken old pod uses nobody's budget.
        ("a! a b", 0, 1, "web-1", "web-0"),
        ("a! a a", 0, 2, "web-2", "web-2 web-0"),
        ("a a a", 2, 3, "web-2", "web-2"),
        ("a a a", 3, 3, "", ""),
        ("a a a", 0, 5, "web-2", "web-2 web-1 web-0"),
        // One that is missing is unavailable.
        ("a a -", 0, 1, "", ""),
        ("a a -", 0, 2, "", "web-1"),
    ] {
        let set = set(json!({"replicas": 3, "updateStrategy": {"type": "RollingUpdate",
            "rollingUpdate": {"partition": partition, "maxUnavailable": max}}}));
        let now = Time::parse("2026-01-01T00:00:00Z").unwrap();
        let update = Update { set: &set, revision: "b", current: "a", now };
        let members = members(&set, pods);
        let name = |pod: &Object<Pod>| pod.metadata.name.clone();
        assert_eq!(update.next(&members).map(name).unwrap_or_default(), next, "{pods}, {partition}");
        let all: Vec<_> = update.several(&members).into_iter().map(name).collect();
        assert_eq!(all.join(" "), several, "{pods}, {partition}, {max}");
    }
}

#[test]
fn an_update_of_an_absurd_number_is_over_at_once() {
    let set = set(json!({"replicas": i32::MAX, "podManagementPolicy": "Parallel"}));
    let now = Time::parse("2026-01-01T00:00:00Z").unwrap();
    let update = Update { set: &set, revision: "b", current: "a", now };
    assert!(update.next(&members(&set, "a a")).is_none());
    assert!(update.several(&members(&set, "a a")).is_empty());
}

#[test]
fn what_counts_in_the_status() {
    let now = Time::parse("2026-01-01T00:00:30Z").unwrap();
    let mut status =
        Status { current_revision: "a".to_owned(), update_revision: "b".to_owned(), ..Status::default() };
    let set = set(json!({"replicas": 4}));
    let mut pods: Vec<_> = members(&set, "a b! b a").replicas.values().map(|pod| (**pod).clone()).collect();
    pods[3].metadata.deletion_timestamp = Some(now);
    pods[2].status.phase = "Succeeded".to_owned();
    status.count(&pods, 30, now);
    let counts = (status.replicas, status.ready_replicas, status.available_replicas);
    assert_eq!(counts, (4, 2, 2), "ended pods count, going ones that are ready too");
    assert_eq!((status.current_replicas, status.updated_replicas), (1, 2));

    let mut later = status.clone();
    later.count(&pods[..1], 31, now);
    assert_eq!((later.ready_replicas, later.available_replicas), (3, 2));
}

#[test]
fn an_update_is_complete_once_all_are_updated_and_ready() {
    let all = Status {
        replicas: 2,
        ready_replicas: 2,
        updated_replicas: 2,
        current_revision: "a".to_owned(),
        update_revision: "b".to_owned(),
        ..Status::default()
    };
    for (status, complete) in [
        (all.clone(), true),
        (Status { ready_replicas: 1, ..all.clone() }, false),
        (Status { replicas: 3, ..all.clone() }, false),
        (Status { updated_replicas: 1, ..all.clone() }, false),
    ] {
        let mut status = status;
        status.complete(2);
        assert_eq!((status.current_revision == "b", status.current_replicas == 2), (complete, complete));
    }
}

#[test]
fn no_status_is_written_for_a_count_of_collisions_alone() {
    let seen = Status { observed_generation: 3, replicas: 1, ..Status::default() };
    let wanted = Status { collision_count: Some(0), ..seen.clone() };
    assert_eq!(wanted.clone().over(&seen), seen);
    let more = Status { replicas: 2, ..wanted };
    assert_eq!(more.clone().over(&seen), more);
    // A generation that was observed stays so.
    let older = Status { observed_generation: 2, ..seen.clone() };
    assert_eq!(older.over(&seen), seen);
}
