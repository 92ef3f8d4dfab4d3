//! What snapshots show.

use serde_json::{Value, json};

use super::support::*;
use crate::{
    contract::{KeyKind, Query, ResourceSet, SyncState},
    engine::SnapshotHost,
    store::StoreError,
};

fn worker(bench: &Bench, reads: Vec<crate::contract::Read>) -> Worker {
    let worker = bench.attach(&manifest(reads, vec![KeyKind::Single("x".into())]));
    bench.all_synced();
    worker
}

#[test]
fn an_object_is_put_together_as_declared() {
    let bench = Bench::new();
    let worker = worker(&bench, vec![read("pods", &["status.phase", "metadata.annotations.keep"])]);
    let mut object = owned("a/p\"q", "s");
    object["metadata"]["annotations"] = json!({"keep": "1", "drop": "2"});
    object["metadata"]["generation"] = json!(4);
    object["metadata"]["finalizers"] = json!(["f"]);
    object["metadata"]["labels"] = json!({"l": "ü\n"});
    bench.put(PODS, &object);
    let expected = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "p\"q", "namespace": "a", "uid": "uid-a-p\"q", "annotations": {"keep": "1"}, "generation": 4,
            "finalizers": ["f"], "labels": {"l": "ü\n"}, "ownerReferences": object["metadata"]["ownerReferences"],
        },
        "status": {"phase": "Running"},
    });
    assert_eq!(worker.shows(&all(PODS)), [expected]);
}

#[test]
fn lists_are_ordered_by_namespace_and_name() {
    let bench = Bench::new();
    let worker = worker(&bench, vec![read("pods", &[]), read("sets", &[])]);
    for name in ["b/1", "a/2", "a-x/1", "a/10", "a/1", "b/0"] {
        bench.put(PODS, &pod(name, json!({"l": "1"})));
    }
    bench.put(SETS, &pod("a/0", json!({})));
    let order = ["a/1", "a/10", "a/2", "a-x/1", "b/0", "b/1"];
    assert_eq!(names(&worker.shows(&all(PODS))), order);
    assert_eq!(names(&worker.shows(&selecting(PODS, None, "l=1"))), order);
    assert_eq!(names(&worker.shows(&selecting(PODS, Some("a"), ""))), ["a/1", "a/10", "a/2"]);
    assert_eq!(names(&worker.shows(&by(PODS, "namespace", &["b"]))), ["b/0", "b/1"]);
    let several =
        Query { resources: ResourceSet::Several(vec![SETS, PODS]), ..selecting(PODS, Some("a"), "") };
    assert_eq!(names(&worker.shows(&several)), ["a/0", "a/1", "a/10", "a/2"]);
}

#[test]
fn a_pinned_snapshot_shows_what_was() {
    let bench = Bench::new();
    let pods = indexed(read("pods", &["status.phase"]), "node", &["spec.nodeName"]);
    let worker = worker(&bench, vec![pods]);
    let (p, q, r) = (pod("a/p", json!({"app": "web"})), owned("a/q", "s"), pod("b/r", json!({"app": "web"})));
    [&p, &q, &r].iter().for_each(|object| bench.put(PODS, object));
    let queries = [
        all(PODS),
        selecting(PODS, Some("a"), ""),
        selecting(PODS, None, "app=web"),
        by(PODS, "owner", &["uid-s"]),
        by(PODS, "node", &["n1"]),
        by(PODS, "uid", &["uid-b-r"]),
        by(PODS, "orphan", &["true"]),
    ];
    let mut before = worker.view.snapshot(&single("x"));
    let look = |snapshot: &mut crate::store::Snapshot| {
        let lists: Vec<_> = queries.iter().map(|query| snapshot.list(query).unwrap()).collect();
        let content: Vec<_> = lists.iter().map(|refs| snapshot.read(refs).unwrap()).collect();
        let gets = ["p", "q", "new"].map(|name| snapshot.get(PODS, "a", name).unwrap());
        (lists, content, gets)
    };
    let seen = look(&mut before);
    bench.delete(PODS, &p);
    bench.put(PODS, &pod("a/new", json!({"app": "web"})));
    bench.put(PODS, &with(pod("a/q", json!({"app": "web"})), "/spec/nodeName", json!("n2")));
    bench.relist(PODS, &[with(q, "/status/phase", json!("Failed")), pod("a/p", json!({}))]);
    assert_eq!(look(&mut before), seen);
    let mut after = worker.view.snapshot(&single("x"));
    assert_ne!(look(&mut after), seen);
    let stale = seen.0[0][0];
    assert!(after.read(&[stale]).is_err(), "a ref of another round");
    drop((before, after));
    assert_eq!(bench.store.history.kept(), 0);
}

#[test]
fn a_snapshot_beside_another_shows_the_same_state_by_its_own_fields() {
    let bench = Bench::new();
    let live = worker(&bench, vec![read("pods", &["status.phase"])]);
    let reads = vec![read("pods", &["status.phase", "spec.nodeName"])];
    let candidate = bench.attach(&manifest(reads, vec![KeyKind::Objects(vec![resource("pods")])]));
    bench.all_synced();
    let (first, second) = (pod("a/p", json!({})), pod("a/q", json!({})));
    bench.put(PODS, &first);
    let seen = live.view.snapshot(&key(PODS, "a/p"));
    bench.put(PODS, &with(first.clone(), "/status/phase", json!("Failed")));
    bench.put(PODS, &second);
    let mut beside = candidate.view.snapshot_beside(&key(PODS, "a/p"), &seen);
    let shown = |snapshot: &mut crate::store::Snapshot| {
        let refs = snapshot.list(&all(PODS)).unwrap();
        assert_eq!(snapshot.primary(), Some(refs[0]));
        let content: Value = serde_json::from_str(&snapshot.read(&refs[..1]).unwrap()[0]).unwrap();
        (refs.len(), content["status"]["phase"].clone(), content["spec"]["nodeName"].clone())
    };
    assert_eq!(shown(&mut beside), (1, json!("Running"), json!("n1")));
    // It holds on to that state by itself, and hands it on.
    drop(seen);
    bench.delete(PODS, &first);
    let mut third = candidate.view.snapshot_beside(&key(PODS, "a/p"), &beside);
    drop(beside);
    bench.put(PODS, &pod("a/new", json!({})));
    assert_eq!(shown(&mut third), (1, json!("Running"), json!("n1")));
    drop(third);
    assert_eq!(bench.store.history.kept(), 0);
}

#[test]
fn a_slot_that_is_used_again_never_repeats_a_version() {
    let bench = Bench::new();
    let first = worker(&bench, vec![read("pods", &["status"]), read("sets", &[])]);
    let second =
        bench.attach(&manifest(vec![read("pods", &["status.phase"])], vec![KeyKind::Single("x".into())]));
    let mut seen = std::collections::HashSet::new();
    for n in 0..50 {
        let (number, object) = if n % 3 == 0 {
            (SETS, pod("a/s", json!({})))
        } else {
            (PODS, pod(&format!("a/{n}"), json!({})))
        };
        bench.put(number, &object);
        for round in 0..3 {
            bench.put(number, &with(object.clone(), "/status/phase", json!(round)));
            for worker in [&first, &second] {
                let mut snapshot = worker.view.snapshot(&single("x"));
                let refs = snapshot.list(&Query { resources: ResourceSet::All, ..all(0) }).unwrap();
                for (object, content) in refs.iter().zip(snapshot.read(&refs).unwrap()) {
                    seen.insert((object.id, object.version, std::ptr::from_ref(worker) as usize, content));
                }
            }
        }
        bench.delete(number, &object);
    }
    let pairs: std::collections::HashSet<_> =
        seen.iter().map(|(id, version, worker, _)| (id, version, worker)).collect();
    assert_eq!(pairs.len(), seen.len(), "a pair named two contents");
    assert!(seen.iter().all(|(id, ..)| *id < 2), "slots are dense");
}

#[test]
fn composite_and_array_indexes_find_every_combination() {
    let bench = Bench::new();
    let pods = indexed(read("pods", &[]), "port", &["spec.containers[*].{name,alias}", "spec.ports[*]"]);
    let worker = worker(&bench, vec![pods]);
    let spec = json!({"containers": [{"name": "a"}, {"name": "b", "alias": "c"}], "ports": [80, true]});
    bench.put(PODS, &with(pod("a/p", json!({})), "/spec", spec));
    bench.put(PODS, &with(pod("a/q", json!({})), "/spec", json!({"containers": [{"name": "a"}]})));
    for (value, found) in
        [(["a", "80"], 1), (["c", "true"], 1), (["b", "80"], 1), (["a", "81"], 0), (["80", "a"], 0)]
    {
        assert_eq!(worker.shows(&by(PODS, "port", &value)).len(), found, "{value:?}");
    }
    let mut snapshot = worker.view.snapshot(&single("x"));
    assert!(snapshot.list(&by(PODS, "port", &["a"])).unwrap_err().contains("2 parts"));
    assert!(snapshot.list(&by(PODS, "gone", &["a"])).unwrap_err().contains("not declared"));
    assert!(snapshot.list(&selecting(PODS, None, "a b")).unwrap_err().contains("label selector"));
}

#[test]
fn a_wildcard_reads_metadata_of_every_resource_by_one_look_up() {
    let bench = Bench::new();
    let other = bench.attach(&manifest(vec![read("pods", &["status"])], vec![]));
    let reads = [read("*", &[])];
    let everything = crate::contract::Read { resource: every_resource(), ..reads[0].clone() };
    let source = KeyKind::Objects(vec![every_resource()]);
    let worker = bench.attach(&manifest(vec![everything], vec![source]));
    assert_eq!(bench.store.wanted(), [PODS, SETS, NODES]);
    assert!(bench.store.prune_spec(SETS).metadata_only() && !bench.store.prune_spec(PODS).metadata_only());
    bench.synced(PODS, &[owned("a/p", "s")]);
    bench.synced(SETS, &[owned("a/t", "s"), pod("a/s", json!({}))]);
    assert_eq!(worker.woken(), ["a/p", "a/s", "a/t"]);
    assert_eq!(worker.view.resources(), [0]);

    let found = worker.shows(&everywhere("owner", "uid-s"));
    assert_eq!(names(&found), ["a/p", "a/t"]);
    assert_eq!((found[0].get("status"), found[0]["kind"].as_str()), (None, Some("Pod")));
    assert_eq!(names(&worker.shows(&everywhere("uid", "uid-a-s"))), ["a/s"]);
    assert_eq!(names(&worker.shows(&everywhere("orphan", "true"))), ["a/s"]);

    let x = key(SETS, "a/s");
    worker.reads(&x, |snapshot| assert_eq!(snapshot.list(&everywhere("owner", "uid-a-s")).unwrap(), []));
    worker.woken();
    bench.put(PODS, &with(owned("a/z", "s"), "/metadata/ownerReferences/0/uid", json!("uid-a-s")));
    assert_eq!(worker.woken(), ["a/s", "a/z"]);
    worker.woken();
    bench.put(PODS, &with(owned("a/p", "s"), "/status/phase", json!("Failed")));
    assert_eq!(worker.woken(), [""; 0], "no status in its view");

    // One resource that is still syncing, or syncs late, does not stop it.
    let mut snapshot = worker.view.snapshot(&single("x"));
    assert!(snapshot.list(&all(NODES)).is_err());
    bench.synced(
        NODES,
        &[with(
            json!({"metadata": {"name": "n", "uid": "u"}}),
            "/metadata/ownerReferences",
            json!([{"apiVersion": "v1", "kind": "Set", "name": "s", "uid": "uid-a-s"}]),
        )],
    );
    assert!(worker.woken().contains(&"a/s".to_owned()), "it came with a new resource");
    assert_eq!(names(&worker.shows(&everywhere("owner", "uid-a-s"))), ["a/z", "/n"]);
    drop(other);
}

#[test]
fn reads_that_were_not_declared_are_refused() {
    let bench = Bench::new();
    let worker = worker(&bench, vec![read("pods", &[])]);
    let mut snapshot = worker.view.snapshot(&single("x"));
    for number in [SETS, 77] {
        assert!(snapshot.get(number, "a", "b").unwrap_err().contains("not among the reads"));
        let several = Query { resources: ResourceSet::Several(vec![PODS, number]), ..all(0) };
        assert!(snapshot.list(&several).unwrap_err().contains("not among the reads"));
    }
    let refs = [crate::contract::ObjectRef { resource: PODS, id: 1234, version: 1 }];
    assert!(snapshot.read(&refs).unwrap_err().contains("no object of this snapshot"));
    assert!(snapshot.list(&everywhere("node", "n")).unwrap_err().contains("over all resources"));
}

#[test]
fn an_optional_resource_that_fails_is_empty_and_another_is_refused() {
    let bench = Bench::new();
    let optional = crate::contract::Read { optional: true, ..read("nodes", &[]) };
    let worker = worker(&bench, vec![optional, read("sets", &[])]);
    for number in [NODES, SETS] {
        bench.registry.set_state(number, SyncState::Failed);
        bench.store.sync_changed(number);
    }
    let mut snapshot = worker.view.snapshot(&single("x"));
    assert_eq!(snapshot.list(&all(NODES)), Ok(vec![]));
    assert_eq!(snapshot.get(NODES, "", "n"), Ok(None));
    assert!(snapshot.list(&all(SETS)).unwrap_err().contains("cannot be listed"));
    assert!(!worker.view.is_ready());
}

#[test]
fn manifests_that_cannot_be_served_are_refused() {
    let bench = Bench::new();
    let refused = |reads, sources| match bench
        .store
        .attach(&manifest(reads, sources), std::sync::Arc::new(Woken::default()))
    {
        Ok(_) => panic!("accepted"),
        Err(error) => error,
    };
    assert!(matches!(refused(vec![read("pods", &["a..b"])], vec![]), StoreError::Path { .. }));
    assert!(matches!(
        refused(vec![indexed(read("pods", &[]), "owner", &["a"])], vec![]),
        StoreError::Index { .. }
    ));
    assert!(matches!(refused(vec![indexed(read("pods", &[]), "x", &[])], vec![]), StoreError::Index { .. }));
    let twice = indexed(indexed(read("pods", &[]), "x", &["a"]), "x", &["b"]);
    assert!(matches!(refused(vec![twice], vec![]), StoreError::Index { .. }));
    let source = |resource| vec![KeyKind::Objects(vec![resource])];
    assert!(matches!(refused(vec![read("pods", &[])], source(resource("sets"))), StoreError::Source { .. }));
    assert!(matches!(refused(vec![read("pods", &[])], source(every_resource())), StoreError::Source { .. }));
    let unknown =
        crate::contract::IndexedObjects { resources: vec![resource("pods")], indexes: vec!["x".into()] };
    let error = refused(vec![read("pods", &[])], vec![KeyKind::IndexedObjects(unknown)]);
    assert_eq!(
        error.to_string(),
        "key source `source-0` needs index `x` of pods; declare it among the reads"
    );
    assert_eq!(bench.store.wanted(), [0; 0], "nothing stays behind");
}
