use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::*;
use crate::store::Seen;

/// A cache of one object.
struct OneObject {
    observed: Mutex<Option<u64>>,
    object: Mutex<Option<(&'static str, u64, UidState)>>,
    absent: AtomicBool,
    ticks: watch::Sender<u64>,
}

impl OneObject {
    fn new(observed: Option<u64>, object: Option<(&'static str, u64, UidState)>) -> Self {
        Self {
            observed: Mutex::new(observed),
            object: Mutex::new(object),
            absent: false.into(),
            ticks: watch::Sender::new(0),
        }
    }
}

impl Cached for OneObject {
    fn observed(&self, _: u32) -> Option<u64> {
        *self.observed.lock()
    }
    fn uid_state(&self, _: u32, _: &str, _: &str, uid: &str) -> UidState {
        self.object.lock().filter(|(u, ..)| *u == uid).map_or(UidState::Gone, |(_, _, state)| state)
    }
    fn by_name(&self, _: u32, namespace: &str, name: &str) -> Option<Seen> {
        let seen = |(uid, version, _): (&str, u64, _)| Seen {
            namespace: namespace.into(),
            name: name.into(),
            uid: uid.into(),
            resource_version: version.to_string(),
        };
        self.object.lock().map(seen)
    }
    fn absent(&self, _: u32) -> bool {
        self.absent.load(Ordering::Relaxed)
    }
    fn show(&self, resource: u32) -> String {
        format!("things{resource}")
    }
    fn progress(&self) -> watch::Receiver<u64> {
        self.ticks.subscribe()
    }
}

fn gone(or_deleting: bool) -> Barrier {
    Barrier::Gone { resource: 1, namespace: "ns".into(), name: "a".into(), uid: "u".into(), or_deleting }
}

fn version(version: u64) -> Barrier {
    Barrier::Version { resource: 1, version }
}

fn moved(sent: &str) -> Barrier {
    Barrier::Moved { resource: 1, namespace: "ns".into(), name: "a".into(), sent: sent.into() }
}

fn key() -> Key {
    Key { source: 0, resource: 1, namespace: "ns".into(), name: "a".into() }
}

#[test]
fn barriers_pass_when_the_cache_is_there() {
    use UidState::*;
    let cases = [
        (version(9), None, None, false),
        (version(9), Some(8), None, false),
        (version(9), Some(9), None, true),
        (version(9), Some(10), None, true),
        (gone(true), None, Some(("u", 5, Live)), false),
        (gone(true), None, Some(("u", 5, Deleting)), true),
        (gone(false), None, Some(("u", 5, Deleting)), false),
        (gone(false), None, Some(("other", 5, Live)), true),
        (gone(false), None, None, true),
        (moved("7"), None, Some(("u", 7, Live)), false),
        (moved("7"), None, Some(("u", 8, Live)), true),
        // What was sent came from an earlier write of the plan.
        (moved("7"), None, Some(("u", 6, Live)), false),
        (moved("7"), None, None, true),
        (moved("no number"), None, Some(("u", 7, Live)), true),
    ];
    for (barrier, observed, object, passed) in cases {
        assert_eq!(
            barrier.passed(&OneObject::new(observed, object)),
            passed,
            "{barrier:?} {observed:?} {object:?}"
        );
    }
}

#[test]
fn versions_are_compared_as_numbers() {
    assert!(version(10).passed(&OneObject::new(Some(100), None)));
    assert!(!version(100).passed(&OneObject::new(Some(99), None)));
}

#[test]
fn an_absent_resource_holds_nothing() {
    let cache = OneObject::new(None, Some(("u", 7, UidState::Live)));
    cache.absent.store(true, Ordering::Relaxed);
    for barrier in [version(9), gone(false), moved("7")] {
        assert!(barrier.passed(&cache), "{barrier:?}");
    }
}

#[test]
fn merging_keeps_the_highest_version() {
    let mut barriers = Barriers::default();
    barriers.merge([version(5), gone(true), gone(true)]);
    barriers.merge([version(9), version(7), Barrier::Version { resource: 2, version: 1 }]);
    assert_eq!(barriers.versions, HashMap::from([(1, 9), (2, 1)]));
    assert_eq!(barriers.others, [gone(true)]);
    let cache = OneObject::new(Some(8), None);
    assert!(!barriers.settle(&cache));
    assert_eq!(barriers.describe(&cache), "things1 to reach resourceVersion 9");
    assert_eq!((barriers.versions.len(), barriers.others.len()), (1, 0));
    assert!(barriers.settle(&OneObject::new(Some(9), None)));
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_with_the_cache_and_never_before() {
    let cache = std::sync::Arc::new(OneObject::new(Some(1), None));
    let mut barriers = Barriers::default();
    barriers.merge([version(9)]);
    let started = Instant::now();
    let writer = cache.clone();
    tokio::spawn(async move {
        for seen in [5, 8, 9] {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            *writer.observed.lock() = Some(seen);
            writer.ticks.send_modify(|tick| *tick += 1);
        }
    });
    wait_passed(&mut barriers, &*cache, "test", &key()).await;
    assert_eq!(started.elapsed().as_secs(), 3 * 3600);
    assert!(barriers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_vanishes_ends_the_wait_by_itself() {
    let cache = std::sync::Arc::new(OneObject::new(None, None));
    let mut barriers = Barriers::default();
    barriers.merge([version(9)]);
    let other = cache.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(10)).await;
        other.absent.store(true, Ordering::Relaxed);
    });
    let started = Instant::now();
    wait_passed(&mut barriers, &*cache, "test", &key()).await;
    assert!(started.elapsed() <= Duration::from_secs(12));
}

#[tokio::test(start_paused = true)]
async fn a_conflict_about_an_object_that_never_moves_holds_for_a_moment_only() {
    let cache = OneObject::new(Some(5), Some(("u", 5, UidState::Live)));
    let mut barriers = Barriers::default();
    let moved = Barrier::Moved { resource: 1, namespace: "ns".into(), name: "a".into(), sent: "5".into() };
    barriers.merge([moved.clone()]);
    let key = Key { source: 0, resource: 1, namespace: "ns".into(), name: "a".into() };
    let start = Instant::now();
    wait_passed(&mut barriers, &cache, "c", &key).await;
    assert_eq!(start.elapsed(), CONFLICT_HOLD);
    // What was written is waited for all the same.
    barriers.merge([moved, version(9)]);
    let waiting = wait_passed(&mut barriers, &cache, "c", &key);
    assert!(tokio::time::timeout(Duration::from_secs(60), waiting).await.is_err());
}
