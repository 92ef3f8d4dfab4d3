//! The objects of one resource, ordered by the bytes of their keys, with their recent history.
//!
//! In: drafts with the version they expect to replace. Out: stored versions, lists at a version, events after a version.
//! Invariant: under the table's lock the store's version covers every change of this table up to it.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::watch;

use super::Shared;
use super::history::{Compacted, Event, History};
use super::object::{Change, Draft, Stored};
use super::persist::Record;

type Objects = BTreeMap<Arc<str>, Arc<Stored>>;

struct Inner {
    objects: Objects,
    history: History,
}

/// One resource. Handed out by [`super::Store::table`].
pub struct Table {
    id: u32,
    type_meta: Box<str>,
    shared: Arc<Shared>,
    inner: RwLock<Inner>,
    changed: watch::Sender<u64>,
}

/// A part of a table, in order.
#[derive(Clone, Debug, Default)]
pub struct Range<'a> {
    /// Only keys that start with this (`namespace/`).
    pub prefix: &'a str,
    /// Only keys from this one on.
    pub start: Option<&'a str>,
    /// At most so many matching objects; 0 means all.
    pub limit: usize,
    /// The state at this version instead of the present.
    pub at: Option<u64>,
}

/// What a list found.
#[derive(Debug, Default)]
pub struct Listing {
    /// Keys and objects.
    pub items: Vec<(Arc<str>, Arc<Stored>)>,
    /// Version of the list.
    pub rv: u64,
    /// Objects of the range behind the last one; they need not match.
    pub behind: usize,
}

/// Why a write did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// The key is taken.
    Exists,
    /// There is no such key.
    Missing,
    /// The object is at another version than expected.
    Moved,
}

/// Events for a watcher.
#[derive(Debug, Default)]
pub struct Batch {
    /// In order of version.
    pub events: Vec<Arc<Event>>,
    /// The watcher has seen everything up to here once it has taken these.
    pub reached: u64,
}

impl Table {
    pub(super) fn new(id: u32, type_meta: Box<str>, shared: Arc<Shared>) -> Self {
        let floor = shared.version();
        let history = History::new(floor, shared.limits);
        Self {
            id,
            type_meta,
            shared,
            inner: RwLock::new(Inner { objects: Objects::new(), history }),
            changed: watch::Sender::new(floor),
        }
    }

    /// `"apiVersion":"v1","kind":"Pod",` of the stored form.
    pub fn type_meta(&self) -> &str {
        &self.type_meta
    }

    /// The object of a key.
    pub fn get(&self, key: &str) -> Option<Arc<Stored>> {
        self.inner.read().objects.get(key).cloned()
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.inner.read().objects.len()
    }

    /// No objects at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an object.
    pub fn create(&self, key: &str, draft: Draft) -> Result<Arc<Stored>, WriteError> {
        self.write(key, None, Change::Added, draft)
    }

    /// Replaces the version `expected` of an object.
    pub fn update(&self, key: &str, expected: u64, draft: Draft) -> Result<Arc<Stored>, WriteError> {
        self.write(key, Some(expected), Change::Modified, draft)
    }

    /// Removes the version `expected` of an object; `draft` is its last state. The answer has the deletion's version.
    pub fn delete(&self, key: &str, expected: u64, draft: Draft) -> Result<Arc<Stored>, WriteError> {
        self.write(key, Some(expected), Change::Deleted, draft)
    }

    fn write(
        &self,
        key: &str,
        expected: Option<u64>,
        change: Change,
        draft: Draft,
    ) -> Result<Arc<Stored>, WriteError> {
        let mut commit = self.shared.commit.lock();
        let mut inner = self.inner.write();
        let (key, previous) = match (inner.objects.get_key_value(key), expected) {
            (Some(_), None) => return Err(WriteError::Exists),
            (None, Some(_)) => return Err(WriteError::Missing),
            (Some((_, old)), Some(rv)) if old.rv != rv => return Err(WriteError::Moved),
            (Some((key, old)), Some(_)) => (key.clone(), Some(old.clone())),
            (None, None) => (Arc::from(key), None),
        };
        let rv = self.shared.version() + 1;
        let stored = Arc::new(draft.store(change, &self.type_meta, rv));
        if change == Change::Deleted {
            inner.objects.remove(&key);
        } else {
            inner.objects.insert(key.clone(), stored.clone());
        }
        if let Some(log) = &mut commit.log {
            let deleted = change == Change::Deleted;
            log.push(&Record { table: self.id, key: key.clone(), object: stored.clone(), deleted });
        }
        inner.history.push(Event { rv, change, key, object: stored.clone(), previous });
        // Before the table's lock goes: whoever reads the version under it sees all of this table's changes up to it.
        self.shared.set_version(rv);
        drop(inner);
        drop(commit);
        self.changed.send_replace(rv);
        Ok(stored)
    }

    /// Lists a part of the table, now or as it was at a version that history still reaches.
    pub fn list(
        &self,
        range: &Range<'_>,
        matches: &dyn Fn(&str, &Stored) -> bool,
    ) -> Result<Listing, Compacted> {
        let inner = self.inner.read();
        let now = self.shared.version();
        let rv = range.at.unwrap_or(now).min(now);
        let undone = undo(&inner.history, rv, range.prefix)?;
        let first = match range.start {
            Some(start) if start > range.prefix => start,
            _ => range.prefix,
        };
        let mut listing = Listing { rv, ..Listing::default() };
        let live = inner
            .objects
            .range::<str, _>((Bound::Included(first), Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(range.prefix));
        let mut take = |key: &Arc<str>, object: &Arc<Stored>| {
            if range.limit > 0 && listing.items.len() >= range.limit {
                listing.behind += 1;
            } else if matches(key, object) {
                listing.items.push((key.clone(), object.clone()));
            }
        };
        if undone.is_empty() {
            live.for_each(|(key, object)| take(key, object));
        } else {
            // The past differs from the present in few keys: overlay them.
            let mut past: Objects = live.map(|(k, o)| (k.clone(), o.clone())).collect();
            for (key, object) in undone.into_iter().filter(|(key, _)| **key >= *first) {
                match object {
                    Some(object) => past.insert(key, object),
                    None => past.remove(&key),
                };
            }
            past.iter().for_each(|(key, object)| take(key, object));
        }
        Ok(listing)
    }

    /// Up to `max` events after `rv`.
    pub fn events_after(&self, rv: u64, max: usize) -> Result<Batch, Compacted> {
        let inner = self.inner.read();
        let now = self.shared.version();
        let events = inner.history.after(rv)?;
        let all = events.len() <= max;
        let events: Vec<_> = events.take(max).cloned().collect();
        let reached = match events.last() {
            Some(event) if !all => event.rv,
            _ => now.max(rv),
        };
        Ok(Batch { events, reached })
    }

    /// Forgets history up to a version.
    pub fn compact(&self, rv: u64) {
        self.inner.write().history.compact(rv);
    }

    /// Version of the last change of this table.
    pub fn last_change(&self) -> u64 {
        *self.changed.borrow()
    }

    /// Wakes at every change of this table.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Version of the whole store.
    pub fn version(&self) -> u64 {
        self.shared.version()
    }

    pub(super) fn restore(&self, key: &str, object: Option<Stored>) {
        let mut inner = self.inner.write();
        match object {
            Some(object) => inner.objects.insert(Arc::from(key), Arc::new(object)),
            None => inner.objects.remove(key),
        };
    }

    pub(super) fn reset_floor(&self, rv: u64) {
        self.inner.write().history = History::new(rv, self.shared.limits);
    }

    pub(super) fn all(&self) -> Vec<(Arc<str>, Arc<Stored>)> {
        self.inner.read().objects.iter().map(|(k, o)| (k.clone(), o.clone())).collect()
    }
}

/// What each key changed since `rv` held at `rv`.
fn undo(
    history: &History,
    rv: u64,
    prefix: &str,
) -> Result<HashMap<Arc<str>, Option<Arc<Stored>>>, Compacted> {
    let mut undone = HashMap::new();
    for event in history.after(rv)?.filter(|event| event.key.starts_with(prefix)) {
        undone.entry(event.key.clone()).or_insert_with(|| event.previous.clone());
    }
    Ok(undone)
}
