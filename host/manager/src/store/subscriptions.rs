//! Who is woken by what: reads as points in a hash table.
//!
//! In: what a key's last reconcile read. Out: the keys that a change touches.
//! A read becomes one *point* (a name, an index value, a label pair, a
//! namespace), a change has the points of its old and of its new state, and
//! where they meet a key is woken. Points are kept as hashes of 64 bits: a
//! collision wakes one key too many. So are the selectors that a key has at one
//! point: were two alike, it would miss what only the second selects.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash},
    sync::Arc,
};

use indexmap::IndexMap;
use smallvec::SmallVec;

use super::{
    intern::Hasher,
    object::Record,
    selector::Selector,
    table::{Objects, Selected, Values},
};
use crate::key::Key;

/// Resource of points that mean any resource.
pub(super) const ANY: u32 = 0;

/// What is subscribed to.
#[derive(Hash)]
pub(super) enum Point<'a> {
    Name {
        resource: u32,
        namespace: &'a str,
        name: &'a str,
    },
    Value {
        resource: u32,
        index: Selected,
        namespace: Option<&'a str>,
        value: &'a str,
    },
    Label {
        resource: u32,
        namespace: Option<&'a str>,
        key: &'a str,
        value: &'a str,
    },
    Everything {
        resource: u32,
        namespace: Option<&'a str>,
    },
    /// The list of resources.
    Resources,
    /// A resource that could not be read yet.
    Refused {
        resource: u32,
    },
}

/// Kinds of point; a module that has none of a kind is not searched for it.
const KINDS: usize = 18;

impl Point<'_> {
    pub(super) fn hash(&self) -> u64 {
        Hasher::default().hash_one(self)
    }

    fn kind(&self) -> usize {
        let (kind, resource) = match self {
            Self::Name { resource, .. } => (0, resource),
            Self::Value { resource, index, .. } => {
                let kind = match index {
                    Selected::Uid => 1,
                    Selected::Owner => 2,
                    Selected::Controller => 3,
                    Selected::Orphan | Selected::Namespace | Selected::Deleting => 4,
                    Selected::Declared(_) => 5,
                };
                (kind, resource)
            }
            Self::Label { resource, .. } => (6, resource),
            Self::Everything { resource, .. } => (7, resource),
            Self::Resources => return 8,
            Self::Refused { .. } => return 17,
        };
        kind + if *resource == ANY { 9 } else { 0 }
    }
}

/// One read of a key.
#[derive(Clone)]
pub(super) struct Interest {
    point: u64,
    kind: u8,
    /// Hash of the selector, 0 without one.
    filter: u64,
    selector: Option<Arc<Selector>>,
}

impl Interest {
    pub(super) fn new(point: &Point<'_>) -> Self {
        Self { point: point.hash(), kind: point.kind() as u8, filter: 0, selector: None }
    }

    /// Only what a selector matches is of interest.
    pub(super) fn filtered(point: &Point<'_>, selector: Arc<Selector>, hash: u64) -> Self {
        Self { filter: hash | 1, selector: Some(selector), ..Self::new(point) }
    }

    /// What tells it from any other.
    pub(super) fn identity(&self) -> (u64, u64) {
        (self.point, self.filter)
    }

    /// Whether only what a selector matches is of interest.
    pub(super) fn is_filtered(&self) -> bool {
        self.selector.is_some()
    }
}

fn admits(selector: Option<&Selector>, record: Option<&Record>) -> bool {
    match (selector, record) {
        (Some(selector), Some(record)) => selector.matches(|key| record.meta.labels.get(key)),
        _ => true,
    }
}

#[derive(Clone)]
struct Watcher {
    key: u32,
    filter: u64,
    selector: Option<Arc<Selector>>,
}

/// Those who watch one point. Most points have one watcher, some very many.
enum Watchers {
    Few(SmallVec<[Watcher; 1]>),
    Many(IndexMap<(u32, u64), Watcher, Hasher>),
}

impl Watchers {
    fn add(&mut self, watcher: Watcher) {
        if let Self::Few(few) = self {
            if few.len() < 16 {
                few.push(watcher);
                return;
            }
            let many = few.drain(..).map(|watcher| ((watcher.key, watcher.filter), watcher)).collect();
            *self = Self::Many(many);
        }
        if let Self::Many(many) = self {
            many.insert((watcher.key, watcher.filter), watcher);
        }
    }

    /// Says whether none are left.
    fn remove(&mut self, key: u32, filter: u64) -> bool {
        match self {
            Self::Few(few) => {
                few.retain(|watcher| (watcher.key, watcher.filter) != (key, filter));
                few.is_empty()
            }
            Self::Many(many) => {
                many.swap_remove(&(key, filter));
                many.is_empty()
            }
        }
    }

    fn each(&self, mut each: impl FnMut(&Watcher)) {
        match self {
            Self::Few(few) => few.iter().for_each(&mut each),
            Self::Many(many) => many.values().for_each(&mut each),
        }
    }
}

struct Subscriber {
    key: Key,
    /// Reads of the last finished reconcile.
    finished: Box<[Interest]>,
    /// Reads of an unfinished one since.
    unfinished: Box<[Interest]>,
}

impl Subscriber {
    fn interests(&self) -> Vec<Interest> {
        let mut all: Vec<Interest> = self.finished.iter().chain(&self.unfinished).cloned().collect();
        all.sort_by_key(Interest::identity);
        all.dedup_by_key(|interest| interest.identity());
        all
    }
}

/// The subscriptions of one module.
#[derive(Default)]
pub(super) struct Subscriptions {
    keys: IndexMap<Key, u32, Hasher>,
    subscribers: Vec<Option<Subscriber>>,
    free: Vec<u32>,
    points: HashMap<u64, Watchers, Hasher>,
    kinds: [usize; KINDS],
}

impl Subscriptions {
    /// Notes what a key read. Answers the interests that were not there before.
    pub(super) fn install(&mut self, key: &Key, reads: Vec<Interest>, finished: bool) -> Vec<Interest> {
        let id = match self.keys.get(key) {
            Some(&id) => id,
            None if reads.is_empty() => return Vec::new(),
            None => {
                let id = self.free.pop().unwrap_or(self.subscribers.len() as u32);
                if id as usize == self.subscribers.len() {
                    self.subscribers.push(None);
                }
                let subscriber =
                    Subscriber { key: key.clone(), finished: Box::default(), unfinished: Box::default() };
                self.subscribers[id as usize] = Some(subscriber);
                self.keys.insert(key.clone(), id);
                id
            }
        };
        let Some(subscriber) = &mut self.subscribers[id as usize] else { return Vec::new() };
        let alike = |before: &[Interest]| {
            before.len() == reads.len()
                && before.iter().zip(&reads).all(|(a, b)| a.identity() == b.identity())
        };
        // A reconcile that read the same once more, as nearly all do.
        if subscriber.unfinished.is_empty() && alike(&subscriber.finished) {
            return Vec::new();
        }
        let before = subscriber.interests();
        if finished {
            subscriber.finished = reads.into_boxed_slice();
            subscriber.unfinished = Box::default();
        } else {
            subscriber.unfinished = reads.into_boxed_slice();
        }
        let after = subscriber.interests();
        self.exchange(id, &before, &after)
    }

    /// Walks both sorted lists.
    fn exchange(&mut self, id: u32, before: &[Interest], after: &[Interest]) -> Vec<Interest> {
        let has = |list: &[Interest], one: &Interest| {
            list.binary_search_by_key(&one.identity(), Interest::identity).is_ok()
        };
        for gone in before.iter().filter(|one| !has(after, one)) {
            self.unwatch(id, gone);
        }
        let new: Vec<Interest> = after.iter().filter(|one| !has(before, one)).cloned().collect();
        for interest in &new {
            let watcher = Watcher { key: id, filter: interest.filter, selector: interest.selector.clone() };
            self.points.entry(interest.point).or_insert_with(|| Watchers::Few(SmallVec::new())).add(watcher);
            self.kinds[usize::from(interest.kind)] += 1;
        }
        new
    }

    fn unwatch(&mut self, id: u32, interest: &Interest) {
        if let Some(watchers) = self.points.get_mut(&interest.point) {
            self.kinds[usize::from(interest.kind)] -= 1;
            if watchers.remove(id, interest.filter) {
                self.points.remove(&interest.point);
            }
        }
    }

    /// Drops all subscriptions of a key.
    pub(super) fn forget(&mut self, key: &Key) {
        let Some(id) = self.keys.swap_remove(key) else { return };
        if let Some(subscriber) = self.subscribers[id as usize].take() {
            for interest in subscriber.interests() {
                self.unwatch(id, &interest);
            }
            self.free.push(id);
        }
    }

    /// What a key is subscribed to.
    pub(super) fn interests(&self, key: &Key) -> Option<Vec<Interest>> {
        let id = *self.keys.get(key)?;
        Some(self.subscribers.get(id as usize)?.as_ref()?.interests())
    }

    /// The keys that have subscriptions.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.keys.keys()
    }

    /// What the keys read, under other keys.
    pub(super) fn under(&self, rename: impl Fn(&Key) -> Option<Key>) -> Vec<(Key, Vec<Interest>)> {
        let renamed = |one: &Subscriber| Some((rename(&one.key)?, one.interests()));
        self.subscribers.iter().flatten().filter_map(renamed).collect()
    }

    /// Takes over what another module's keys read. Keys known here keep their own.
    pub(super) fn adopt(&mut self, others: Vec<(Key, Vec<Interest>)>) {
        for (key, interests) in others {
            if !self.keys.contains_key(&key) {
                self.install(&key, interests, true);
            }
        }
    }

    /// Those who watch a point that is no object's.
    pub(super) fn watching(&self, point: &Point<'_>, mut wake: impl FnMut(&Key)) {
        if self.kinds[point.kind()] == 0 {
            return;
        }
        if let Some(watchers) = self.points.get(&point.hash()) {
            watchers.each(|watcher| {
                if let Some(Some(subscriber)) = self.subscribers.get(watcher.key as usize) {
                    wake(&subscriber.key);
                }
            });
        }
    }

    /// Those whose reads a state of an object touches.
    pub(super) fn touched(&self, record: &Record, declared: &[Values], mut wake: impl FnMut(&Key)) {
        points(record, declared, &self.kinds, |point| {
            let Some(watchers) = self.points.get(&point.hash()) else { return };
            watchers.each(|watcher| {
                if admits(watcher.selector.as_deref(), Some(record))
                    && let Some(Some(subscriber)) = self.subscribers.get(watcher.key as usize)
                {
                    wake(&subscriber.key);
                }
            });
        });
    }
}

/// Interests to compare with changes that were missed.
pub(super) struct Missed<'a> {
    kinds: [usize; KINDS],
    points: HashMap<u64, SmallVec<[&'a Interest; 1]>, Hasher>,
}

impl<'a> Missed<'a> {
    pub(super) fn new(interests: &'a [Interest]) -> Self {
        let mut missed = Self { kinds: [0; KINDS], points: HashMap::default() };
        for interest in interests {
            missed.kinds[usize::from(interest.kind)] += 1;
            missed.points.entry(interest.point).or_default().push(interest);
        }
        missed
    }

    /// Whether a state of an object touches one.
    pub(super) fn touches(&self, record: &Record, objects: &Objects) -> bool {
        let mut found = false;
        self.each_touched(record, objects, |_, _| found = true);
        found
    }

    /// Those that a state of an object touches, and where.
    pub(super) fn each_touched(
        &self,
        record: &Record,
        objects: &Objects,
        mut each: impl FnMut(&Point<'_>, &Interest),
    ) {
        let declared =
            objects.tables.get(&record.resource).map_or_else(Vec::new, |table| table.declared_values(record));
        points(record, &declared, &self.kinds, |point| {
            for interest in self.points.get(&point.hash()).into_iter().flatten() {
                if admits(interest.selector.as_deref(), Some(record)) {
                    each(point, interest);
                }
            }
        });
    }
}

/// All points of one state of an object, of the kinds that somebody watches.
fn points(record: &Record, declared: &[Values], kinds: &[usize; KINDS], mut each: impl FnMut(&Point<'_>)) {
    let meta = &record.meta;
    let (own, name): (&str, &str) = (&meta.namespace, &meta.name);
    let mut emit = |point: Point<'_>| {
        if kinds[point.kind()] > 0 {
            each(&point);
        }
    };
    emit(Point::Name { resource: record.resource, namespace: own, name });
    for resource in [record.resource, ANY] {
        for namespace in [None, Some(own)] {
            let mut value = |index, value| emit(Point::Value { resource, index, namespace, value });
            value(Selected::Uid, &meta.uid);
            meta.owners.iter().for_each(|owner| value(Selected::Owner, &owner.uid));
            match meta.controller() {
                Some(controller) => value(Selected::Controller, controller),
                None => value(Selected::Orphan, "true"),
            }
            if meta.deleting {
                value(Selected::Deleting, "true");
            }
            if resource != ANY {
                for (at, values) in declared.iter().enumerate() {
                    values.iter().for_each(|one| value(Selected::Declared(at), one));
                }
            }
            for (key, value) in meta.labels.iter() {
                emit(Point::Label { resource, namespace, key, value });
            }
            emit(Point::Everything { resource, namespace });
        }
    }
}
