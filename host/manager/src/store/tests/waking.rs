//! Whom a change wakes, and whom it leaves alone.

use serde_json::json;

use super::support::*;
use crate::{
    contract::{IndexValues, IndexedObjects, KeyKind, SyncState},
    engine::SnapshotHost,
    key::{Cause, Key},
    store::UidState,
};

fn one_key(reads: Vec<crate::contract::Read>) -> (Bench, Worker) {
    let bench = Bench::new();
    let worker = bench.attach(&manifest(reads, vec![KeyKind::Single("x".into())]));
    bench.all_synced();
    worker.woken();
    (bench, worker)
}

#[test]
fn coming_into_and_leaving_a_selector_wakes() {
    for labels in ["app=web", "app in (web,x)", "app", "app=web,!old"] {
        let (bench, worker) = one_key(vec![read("pods", &[])]);
        worker.reads(&single("x"), |snapshot| snapshot.list(&selecting(PODS, Some("a"), labels)).unwrap());
        bench.put(PODS, &pod("a/p", json!({"app": "web"})));
        assert_eq!(worker.woken(), ["x"], "{labels}: came");
        bench.put(PODS, &pod("a/p", json!({"old": "1"})));
        assert_eq!(worker.woken(), ["x"], "{labels}: left");
        bench.put(PODS, &pod("a/p", json!({"old": "2"})));
        bench.put(PODS, &pod("b/p", json!({"app": "web"})));
        assert_eq!(worker.woken(), [""; 0], "{labels}: never matched");
    }
}

#[test]
fn a_change_of_a_field_that_was_not_declared_wakes_nobody() {
    let (bench, worker) =
        one_key(vec![read("nodes", &["spec.unschedulable"]), read("pods", &["status.phase"])]);
    let node = json!({"metadata": {"name": "n", "uid": "u"}, "spec": {"unschedulable": true}, "status": {"beat": 1}});
    bench.put(NODES, &node);
    bench.put(PODS, &pod("a/p", json!({})));
    let before = worker.reads(&single("x"), |snapshot| {
        (snapshot.get(NODES, "", "n").unwrap().unwrap(), snapshot.list(&all(PODS)).unwrap())
    });
    worker.woken();
    let seen = worker.view.current(&before.0).unwrap();
    bench.put(NODES, &with(node.clone(), "/status/beat", json!(2)));
    bench.put(PODS, &with(pod("a/p", json!({})), "/spec/nodeName", json!("n2")));
    assert_eq!(worker.woken(), [""; 0]);
    let after = worker.reads(&single("x"), |snapshot| {
        (snapshot.get(NODES, "", "n").unwrap().unwrap(), snapshot.list(&all(PODS)).unwrap())
    });
    assert_eq!(after, before, "no version moved");
    let now = worker.view.current(&before.0).unwrap();
    assert_ne!(now.resource_version, seen.resource_version, "the resourceVersion did");
    bench.put(NODES, &with(node, "/spec/unschedulable", json!(false)));
    assert_eq!(worker.woken(), ["x"]);
    assert_eq!(worker.view.current(&before.0), None, "another version");
}

#[test]
fn names_indexes_and_owners_are_watched_before_they_exist() {
    let pods = indexed(read("pods", &[]), "node", &["spec.nodeName"]);
    let (bench, worker) = one_key(vec![pods]);
    let wakes = |query: crate::contract::Query, object: serde_json::Value| {
        worker.reads(&single("x"), |snapshot| snapshot.list(&query).unwrap());
        worker.woken();
        bench.put(PODS, &object);
        let woken = worker.woken();
        bench.delete(PODS, &object);
        assert_eq!(worker.woken(), woken, "going wakes as coming does: {query:?}");
        !woken.is_empty()
    };
    assert!(wakes(by(PODS, "node", &["n1"]), pod("a/p", json!({}))));
    assert!(!wakes(by(PODS, "node", &["n2"]), pod("a/p", json!({}))));
    assert!(wakes(by(PODS, "owner", &["uid-s"]), owned("a/p", "s")));
    assert!(!wakes(by(PODS, "owner", &["uid-t"]), owned("a/p", "s")));
    assert!(wakes(by(PODS, "controller", &["uid-s"]), owned("a/p", "s")));
    assert!(wakes(by(PODS, "orphan", &["true"]), pod("a/p", json!({}))));
    assert!(!wakes(by(PODS, "orphan", &["true"]), owned("a/p", "s")));
    assert!(wakes(by(PODS, "uid", &["uid-a-p"]), pod("a/p", json!({}))));
    assert!(wakes(by(PODS, "namespace", &["a"]), pod("a/p", json!({}))));
    assert!(!wakes(by(PODS, "namespace", &["b"]), pod("a/p", json!({}))));

    worker.reads(&single("x"), |snapshot| assert_eq!(snapshot.get(PODS, "a", "q").unwrap(), None));
    bench.put(PODS, &pod("a/other", json!({})));
    assert_eq!(worker.woken(), [""; 0]);
    bench.put(PODS, &pod("a/q", json!({})));
    assert_eq!(worker.woken(), ["x"]);
}

#[test]
fn moving_from_one_index_value_to_another_wakes_both() {
    let pods = indexed(read("pods", &[]), "node", &["spec.nodeName"]);
    let bench = Bench::new();
    let worker = bench
        .attach(&manifest(vec![pods, read("sets", &[])], vec![KeyKind::Objects(vec![resource("sets")])]));
    bench.all_synced();
    for node in ["n1", "n2", "n3"] {
        worker.reads(&key(SETS, &format!("a/{node}")), |snapshot| {
            snapshot.list(&by(PODS, "node", &[node])).unwrap()
        });
    }
    bench.put(PODS, &pod("a/p", json!({})));
    assert_eq!(worker.woken(), ["a/n1"]);
    bench.put(PODS, &with(pod("a/p", json!({})), "/spec/nodeName", json!("n2")));
    assert_eq!(worker.woken(), ["a/n1", "a/n2"]);
}

#[test]
fn what_changed_while_a_reconcile_ran_wakes_it_at_its_commit() {
    let (bench, worker) = one_key(vec![read("pods", &["status.phase"])]);
    bench.put(PODS, &pod("a/p", json!({"app": "web"})));
    let mut snapshot = worker.view.snapshot(&single("x"));
    let refs = snapshot.list(&selecting(PODS, None, "app=web")).unwrap();
    assert_eq!(refs.len(), 1);
    bench.put(PODS, &pod("a/p", json!({})));
    assert_eq!(worker.woken(), [""; 0], "nothing subscribes yet");
    worker.view.commit(&single("x"), snapshot.into_reads(), true);
    assert_eq!(worker.woken(), ["x"]);

    // What does not touch the reads, or shows in no view, does not.
    worker.view.forget(&single("x"));
    let mut snapshot = worker.view.snapshot(&single("y"));
    snapshot.list(&selecting(PODS, None, "app=db")).unwrap();
    bench.put(PODS, &pod("a/q", json!({"app": "web"})));
    bench.put(PODS, &with(pod("a/q", json!({"app": "web"})), "/spec/nodeName", json!("n9")));
    worker.view.commit(&single("y"), snapshot.into_reads(), true);
    assert_eq!(worker.woken(), [""; 0]);
    assert_eq!(worker.view.store.history.kept(), 0, "no pin, no history");
}

#[test]
fn an_unfinished_reconcile_keeps_the_reads_of_the_last_finished_one() {
    let (bench, worker) = one_key(vec![read("pods", &[])]);
    let get = |name: &'static str, finished| {
        let mut snapshot = worker.view.snapshot(&single("x"));
        snapshot.get(PODS, "a", name).unwrap();
        worker.view.commit(&single("x"), snapshot.into_reads(), finished);
    };
    get("one", true);
    get("two", false);
    for name in ["a/one", "a/two"] {
        bench.put(PODS, &pod(name, json!({})));
        assert_eq!(worker.woken(), ["x"], "{name}");
    }
    get("three", true);
    bench.delete(PODS, &pod("a/one", json!({})));
    bench.delete(PODS, &pod("a/two", json!({})));
    assert_eq!(worker.woken(), [""; 0]);
    worker.view.forget(&single("x"));
    bench.put(PODS, &pod("a/three", json!({})));
    assert_eq!(worker.woken(), [""; 0]);
}

#[test]
fn a_relist_wakes_only_for_what_differs() {
    let bench = Bench::new();
    let worker = bench
        .attach(&manifest(vec![read("pods", &["status"])], vec![KeyKind::Objects(vec![resource("pods")])]));
    let pods = [pod("a/1", json!({})), pod("a/2", json!({})), pod("a/3", json!({}))];
    bench.synced(PODS, &pods);
    assert!(worker.causes().iter().all(|(_, cause)| *cause == Cause::Bulk));
    let before = worker.reads(&key(PODS, "a/1"), |snapshot| snapshot.list(&all(PODS)).unwrap());
    worker.view.forget(&key(PODS, "a/1"));
    bench.relist(
        PODS,
        &[pods[0].clone(), with(pods[1].clone(), "/status/phase", json!("Failed")), pod("a/4", json!({}))],
    );
    let causes = worker.causes();
    assert!(
        matches!(causes.as_slice(), [
        (two, Cause::Primary { .. }), (four, Cause::Primary { .. }), (three, Cause::PrimaryGone),
    ] if two == "a/2" && four == "a/4" && three == "a/3"),
        "{causes:?}"
    );
    let after = worker.reads(&key(PODS, "a/1"), |snapshot| snapshot.list(&all(PODS)).unwrap());
    assert_eq!(after[0], before[0]);
    assert_ne!(after[1], before[1]);
}

#[test]
fn a_name_with_another_uid_is_another_object() {
    let bench = Bench::new();
    let worker =
        bench.attach(&manifest(vec![read("pods", &[])], vec![KeyKind::Objects(vec![resource("pods")])]));
    bench.synced(PODS, &[pod("a/p", json!({}))]);
    let old = worker.view.snapshot(&key(PODS, "a/p")).primary().unwrap();
    worker.woken();
    let again = with(pod("a/p", json!({})), "/metadata/uid", json!("another"));
    bench.put(PODS, &again);
    let causes: Vec<Cause> = worker.causes().into_iter().map(|(_, cause)| cause).collect();
    assert!(matches!(causes.as_slice(), [Cause::PrimaryGone, Cause::Primary { .. }]), "{causes:?}");
    let new = worker.view.snapshot(&key(PODS, "a/p")).primary().unwrap();
    assert_ne!((old.id, old.version), (new.id, new.version));
    assert_eq!(worker.view.primary_identity(&key(PODS, "a/p")).as_deref(), Some("another"));
    assert_eq!(worker.view.current(&old), None);
    assert_eq!(bench.store.uid_state(PODS, "a", "p", "uid-a-p"), UidState::Gone);
    assert_eq!(bench.store.uid_state(PODS, "a", "p", "another"), UidState::Live);
    bench.delete(PODS, &pod("a/p", json!({})));
    assert_eq!(
        bench.store.uid_state(PODS, "a", "p", "another"),
        UidState::Live,
        "a late event about the old one"
    );
    bench.put(PODS, &with(again, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")));
    assert_eq!(bench.store.uid_state(PODS, "a", "p", "another"), UidState::Deleting);
}

#[test]
fn index_values_are_keys_while_an_object_has_them() {
    let values = KeyKind::IndexValues(IndexValues { resource: resource("pods"), index: "node".into() });
    let composite = KeyKind::IndexValues(IndexValues { resource: resource("pods"), index: "both".into() });
    let pods = indexed(read("pods", &[]), "node", &["spec.nodeName"]);
    let pods = indexed(pods, "both", &["metadata.namespace", "spec.nodeName"]);
    let bench = Bench::new();
    let worker = bench.attach(&manifest(vec![pods], vec![values, composite]));
    bench.synced(PODS, &[]);
    let node = |name: &str, node: &str| with(pod(name, json!({})), "/spec/nodeName", json!(node));
    let key = |source, name: &str| Key { source, ..single(name) };

    bench.put(PODS, &node("a/1", "n1"));
    assert_eq!(worker.woken(), ["a/n1", "n1"]);
    assert!(
        worker.view.yields(&key(0, "n1"))
            && worker.view.yields(&key(1, "a/n1"))
            && !worker.view.yields(&key(1, "n1"))
    );
    bench.put(PODS, &node("a/2", "n1"));
    assert_eq!(worker.woken(), [""; 0], "known already");
    bench.put(PODS, &node("a/1", "n2"));
    assert_eq!(worker.woken(), ["a/n2", "n2"], "n1 has one left");
    bench.delete(PODS, &node("a/2", "n1"));
    assert_eq!(worker.causes(), [("n1".into(), Cause::PrimaryGone), ("a/n1".into(), Cause::PrimaryGone)]);
    assert!(!worker.view.yields(&key(0, "n1")) && !worker.view.yields(&key(1, "a/n1")));
    worker.view.rekey(Cause::Bulk);
    assert_eq!(worker.woken(), ["a/n2", "n2"]);
}

#[test]
fn indexed_objects_are_keys_while_they_have_a_value() {
    let pods = indexed(read("pods", &[]), "tracked", &["metadata.finalizers[*]"]);
    let source = IndexedObjects { resources: vec![resource("pods")], indexes: vec!["tracked".into()] };
    let bench = Bench::new();
    let worker = bench.attach(&manifest(vec![pods], vec![KeyKind::IndexedObjects(source)]));
    bench.synced(PODS, &[]);
    let tracked = with(pod("a/p", json!({})), "/metadata/finalizers", json!(["f"]));
    bench.put(PODS, &pod("a/p", json!({})));
    assert_eq!(worker.woken(), [""; 0]);
    bench.put(PODS, &tracked);
    assert_eq!(worker.woken(), ["a/p"]);
    assert!(worker.view.yields(&key(PODS, "a/p")));
    bench.put(PODS, &pod("a/p", json!({})));
    assert_eq!(worker.causes(), [("a/p".into(), Cause::PrimaryGone)]);
    assert!(!worker.view.yields(&key(PODS, "a/p")));
}

#[test]
fn a_module_becomes_ready_with_its_last_resource_and_all_its_keys_wake() {
    let bench = Bench::new();
    let optional = crate::contract::Read { optional: true, ..read("nodes", &[]) };
    let reads = vec![read("pods", &[]), read("sets", &[]), optional];
    let worker = bench.attach(&manifest(
        reads,
        vec![KeyKind::Objects(vec![resource("pods")]), KeyKind::Single("x".into())],
    ));
    bench.synced(PODS, &[pod("a/p", json!({}))]);
    assert!(!worker.view.is_ready());
    assert_eq!(worker.view.waiting_for(), [SETS]);
    assert_eq!(worker.woken(), [""; 0]);
    bench.synced(SETS, &[]);
    assert!(worker.view.is_ready());
    assert_eq!(worker.woken(), ["a/p", "x"]);

    // An unsynced read is refused, and the key comes again for it.
    let mut snapshot = worker.view.snapshot(&single("x"));
    assert!(snapshot.list(&all(NODES)).unwrap_err().contains("nodes has not synced"));
    worker.view.commit(&single("x"), snapshot.into_reads(), false);
    bench.synced(NODES, &[]);
    assert_eq!(worker.woken(), ["x"]);
}

#[test]
fn a_resource_that_synced_between_refusal_and_commit_is_not_missed() {
    let bench = Bench::new();
    let optional = crate::contract::Read { optional: true, ..read("nodes", &[]) };
    let worker = bench.attach(&manifest(vec![optional], vec![KeyKind::Single("x".into())]));
    bench.registry.set_state(NODES, SyncState::Syncing);
    let mut snapshot = worker.view.snapshot(&single("x"));
    assert!(snapshot.get(NODES, "", "n").is_err());
    bench.synced(NODES, &[]);
    assert!(snapshot.get(NODES, "", "n").is_err(), "this snapshot is older than the list");
    worker.view.commit(&single("x"), snapshot.into_reads(), false);
    assert_eq!(worker.woken(), ["x"]);
    assert!(worker.view.snapshot(&single("x")).get(NODES, "", "n").is_ok());
}

#[test]
fn the_list_of_resources_is_subscribed_to() {
    let (bench, worker) = one_key(vec![read("pods", &[])]);
    let version = worker.reads(&single("x"), |snapshot| {
        assert_eq!(snapshot.resources().len(), 3);
        snapshot.resources_version()
    });
    bench.registry.set_state(NODES, SyncState::Failed);
    bench.store.sync_changed(NODES);
    assert_eq!(worker.woken(), ["x"]);
    let mut snapshot = worker.view.snapshot(&single("y"));
    assert_ne!(snapshot.resources_version(), version);
    bench.registry.set_state(NODES, SyncState::Synced);
    worker.view.commit(&single("y"), snapshot.into_reads(), true);
    assert_eq!(worker.woken(), ["y"], "it moved while the reconcile ran");
}

#[test]
fn a_resource_that_vanishes_takes_its_objects_along() {
    let bench = Bench::new();
    let worker =
        bench.attach(&manifest(vec![read("pods", &[])], vec![KeyKind::Objects(vec![resource("pods")])]));
    bench.synced(PODS, &[pod("a/p", json!({}))]);
    worker.woken();
    assert!(bench.store.observed(PODS).is_some());
    bench.store.drop_resource(PODS);
    assert_eq!(worker.causes(), [("a/p".into(), Cause::PrimaryGone)]);
    assert!(!worker.view.is_ready());
    assert_eq!(bench.store.observed(PODS), None);
}

#[test]
fn a_successor_takes_over_subscriptions_and_versions() {
    let bench = Bench::new();
    let sources = || vec![KeyKind::Single("x".into())];
    let old = bench.attach(&manifest(vec![read("pods", &["status.phase"])], sources()));
    bench.synced(PODS, &[pod("a/p", json!({}))]);
    let before = old.reads(&single("x"), |snapshot| snapshot.list(&all(PODS)).unwrap());

    let woken = std::sync::Arc::new(Woken::default());
    let same = manifest(vec![read("pods", &["status.phase"])], sources());
    let view = bench.store.attach_successor(&old.view, &same, woken.clone()).unwrap();
    let new = Worker { view, woken };
    old.view.detach();
    old.woken();
    assert!(new.view.is_ready(), "the fields are there already");
    bench.put(PODS, &pod("a/q", json!({})));
    assert_eq!(new.woken(), ["x"], "without having read anything itself");
    let after = new.reads(&single("x"), |snapshot| snapshot.list(&all(PODS)).unwrap());
    assert_eq!(versions(&after)[0], versions(&before)[0]);
    assert_eq!(old.woken(), [""; 0]);
}

#[test]
fn versions_may_adopt_from_each_other_at_once() {
    let bench = Bench::new();
    let version =
        || bench.attach(&manifest(vec![read("pods", &["status.phase"])], vec![KeyKind::Single("x".into())]));
    let (one, other) = (version(), version());
    bench.synced(PODS, &[pod("a/p", json!({}))]);
    one.reads(&single("x"), |snapshot| snapshot.list(&all(PODS)).unwrap());
    let (done, ended) = std::sync::mpsc::channel();
    for (to, from) in [(&one, &other), (&other, &one)] {
        let (to, from, done) = (to.view.clone(), from.view.clone(), done.clone());
        std::thread::spawn(move || {
            (0..20_000).for_each(|_| to.adopt(&from));
            done.send(())
        });
    }
    for _ in 0..2 {
        let waits = ended.recv_timeout(std::time::Duration::from_secs(60));
        assert!(waits.is_ok(), "each waits for what the other holds");
    }
    bench.put(PODS, &pod("a/q", json!({})));
    assert_eq!((one.woken(), other.woken()), (vec!["x".to_owned()], vec!["x".to_owned()]));
}

#[test]
fn more_fields_need_a_relist_of_that_resource_and_disturb_nobody() {
    let bench = Bench::new();
    let pods = [pod("a/p", json!({}))];
    let narrow =
        bench.attach(&manifest(vec![read("pods", &["status.phase"])], vec![KeyKind::Single("x".into())]));
    bench.synced(PODS, &pods);
    let before = narrow.reads(&single("x"), |snapshot| snapshot.list(&all(PODS)).unwrap());
    narrow.woken();
    let generation = bench.store.prune_spec(PODS).generation();
    let mut wanted = bench.store.wanted_changes();
    wanted.mark_unchanged();

    let wide =
        bench.attach(&manifest(vec![read("pods", &["spec.nodeName"])], vec![KeyKind::Single("x".into())]));
    assert!(wanted.has_changed().unwrap());
    assert!(bench.store.prune_spec(PODS).generation() > generation);
    assert!(!wide.view.is_ready() && narrow.view.is_ready());
    bench.relist(PODS, &pods);
    assert!(wide.view.is_ready());
    assert_eq!((wide.woken(), narrow.woken()), (vec!["x".to_owned()], vec![]));
    assert_eq!(narrow.reads(&single("x"), |snapshot| snapshot.list(&all(PODS)).unwrap()), before);
    assert_eq!(narrow.shows(&all(PODS))[0].get("spec"), None, "each sees its own fields");
    assert_eq!(wide.shows(&all(PODS))[0]["spec"]["nodeName"], "n1");

    let generation = bench.store.prune_spec(PODS).generation();
    wide.view.detach();
    assert_eq!(bench.store.prune_spec(PODS).generation(), generation, "fewer fields need no relist");
    bench.put(PODS, &with(pods[0].clone(), "/spec/nodeName", json!("n2")));
    assert_eq!(narrow.reads(&single("x"), |snapshot| snapshot.list(&all(PODS)).unwrap()), before);
}

#[test]
fn bookmarks_and_events_move_what_was_observed() {
    let (bench, _worker) = one_key(vec![read("pods", &[])]);
    let progress = bench.store.progress();
    let ticks = *progress.borrow();
    bench.store.bookmark(PODS, "900");
    assert_eq!(bench.store.observed(PODS), Some(900));
    bench.store.bookmark(PODS, "800");
    assert_eq!(bench.store.observed(PODS), Some(900));
    bench.put(PODS, &pod("a/p", json!({})));
    assert_eq!(bench.store.observed(PODS), Some(900));
    assert_eq!(*progress.borrow(), ticks + 3);
    bench.relist(PODS, &[]);
    assert!(bench.store.observed(PODS) < Some(900), "a restored cluster counts from lower");
}
