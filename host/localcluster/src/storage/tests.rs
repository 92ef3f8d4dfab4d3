use serde_json::{Value, json};

use super::*;

const META: &str = r#""apiVersion":"v1","kind":"ConfigMap","#;

fn id() -> StorageId {
    StorageId { group: String::new(), plural: "configmaps".into() }
}

fn draft(name: &str, data: u32) -> Draft {
    Draft::new(&json!({"metadata": {"name": name}, "data": data}), &[])
}

fn names(listing: &Listing) -> Vec<&str> {
    listing.items.iter().map(|(key, _)| &**key).collect()
}

#[test]
fn keys_are_ordered_by_their_bytes() {
    let store = Store::new(HistoryLimits::default());
    let table = store.table(&id(), META);
    for key in ["a/x", "a-b/x", "a/b", "a.b/x"] {
        table.create(key, draft(key, 0)).expect("new");
    }
    let all = table.list(&Range::default(), &|_, _| true).expect("list");
    assert_eq!(names(&all), ["a-b/x", "a.b/x", "a/b", "a/x"]);
    let one = table.list(&Range { prefix: "a/", ..Range::default() }, &|_, _| true).expect("list");
    assert_eq!(names(&one), ["a/b", "a/x"]);
}

#[test]
fn a_list_at_a_version_shows_the_past() {
    let store = Store::new(HistoryLimits::default());
    let table = store.table(&id(), META);
    let a = table.create("n/a", draft("a", 1)).expect("new");
    let b = table.create("n/b", draft("b", 1)).expect("new");
    let then = store.version();
    table.update("n/a", a.rv, draft("a", 2)).expect("same version");
    table.delete("n/b", b.rv, draft("b", 1)).expect("same version");
    table.create("n/c", draft("c", 1)).expect("new");
    let past = table
        .list(&Range { prefix: "n/", at: Some(then), ..Range::default() }, &|_, _| true)
        .expect("in history");
    assert_eq!(names(&past), ["n/a", "n/b"]);
    assert_eq!(past.items[0].1.value()["data"], 1);
    assert_eq!(past.rv, then);
    table.compact(store.version());
    let range = Range { at: Some(then), ..Range::default() };
    assert_eq!(
        table.list(&range, &|_, _| true).expect_err("compacted"),
        Compacted { floor: store.version() }
    );
}

#[test]
fn a_write_needs_the_version_it_replaces() {
    let store = Store::new(HistoryLimits::default());
    let table = store.table(&id(), META);
    let a = table.create("a", draft("a", 1)).expect("new");
    assert_eq!(table.create("a", draft("a", 1)).expect_err("taken"), WriteError::Exists);
    table.update("a", a.rv, draft("a", 2)).expect("same version");
    assert_eq!(table.update("a", a.rv, draft("a", 3)).expect_err("stale"), WriteError::Moved);
    assert_eq!(table.delete("b", 1, draft("b", 1)).expect_err("absent"), WriteError::Missing);
}

#[test]
fn events_replay_in_order_and_the_ring_is_bounded() {
    let store = Store::new(HistoryLimits { events: 3, bytes: usize::MAX });
    let table = store.table(&id(), META);
    let start = store.version();
    for name in ["a", "b", "c", "d"] {
        table.create(name, draft(name, 0)).expect("new");
    }
    assert!(table.events_after(start, 10).is_err(), "the first event was dropped");
    let batch = table.events_after(start + 1, 2).expect("kept");
    assert_eq!(batch.events.iter().map(|e| &*e.key).collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(batch.reached, batch.events[1].rv);
    let rest = table.events_after(batch.reached, 10).expect("kept");
    assert_eq!(rest.events.len(), 1);
    assert_eq!(rest.reached, store.version());
}

/// The thread that keeps a log may hold on to its store for a moment.
fn reopen(dir: &std::path::Path) -> std::sync::Arc<Store> {
    (0..100)
        .find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            Store::open(HistoryLimits::default(), dir).ok()
        })
        .expect("open again")
}

#[test]
fn a_restart_finds_what_was_written() {
    let dir = tempfile::tempdir().expect("dir");
    let rv = {
        let store = Store::open(HistoryLimits::default(), dir.path()).expect("open");
        let table = store.table(&id(), META);
        let a = table.create("n/a", draft("a", 1)).expect("new");
        table.update("n/a", a.rv, draft("a", 2)).expect("same version");
        let b = table.create("n/b", draft("b", 1)).expect("new");
        table.delete("n/b", b.rv, draft("b", 1)).expect("same version");
        // Not flushed: what was answered is with the system.
        store.version()
    };
    let store = reopen(dir.path());
    assert!(store.version() > rv + 1000, "versions of the past are not given again");
    let table = store.existing(&id()).expect("table");
    assert_eq!(table.len(), 1);
    let a = table.get("n/a").expect("kept");
    assert_eq!(a.value()["data"], 2);
    let whole: Value = serde_json::from_slice(&a.object()).expect("object");
    assert_eq!(whole["kind"], "ConfigMap");
    assert!(table.events_after(rv, 10).is_err(), "history begins with the restart");
}

#[test]
fn a_log_cut_short_keeps_what_came_before() {
    let dir = tempfile::tempdir().expect("dir");
    {
        let store = Store::open(HistoryLimits::default(), dir.path()).expect("open");
        let table = store.table(&id(), META);
        table.create("a", draft("a", 1)).expect("new");
        table.create("b", draft("b", 1)).expect("new");
        store.flush();
    }
    let log = dir.path().join("log");
    let text = std::fs::read(&log).expect("log");
    std::fs::write(&log, &text[..text.len() - 5]).expect("cut");
    let store = reopen(dir.path());
    let table = store.existing(&id()).expect("table");
    assert!(table.get("a").is_some());
    assert!(table.get("b").is_none());
}

/// What a killed process leaves: the files as they are at some moment between two writes.
#[test]
fn a_killed_process_loses_nothing_that_it_answered() {
    let dir = tempfile::tempdir().expect("dir");
    let store = Store::open(HistoryLimits::default(), dir.path()).expect("open");
    let table = store.table(&id(), META);
    let copy = tempfile::tempdir().expect("dir");
    for number in 0..500 {
        table.create(&format!("n/{number}"), draft("a", number)).expect("new");
    }
    for file in ["snapshot", "log"] {
        std::fs::copy(dir.path().join(file), copy.path().join(file)).expect("copy");
    }
    let again = Store::open(HistoryLimits::default(), copy.path()).expect("open");
    assert_eq!(again.existing(&id()).expect("table").len(), 500);
}
