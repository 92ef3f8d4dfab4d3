//! The cache: what informers put in, what snapshots show, whom a change wakes.
//!
//! ```text
//! informer ── PruneSpec::prune ──► Store::{replace,upsert,remove}
//!                                     │ table: slots, indexes, versions a view
//!                                     │ history: what pinned snapshots still need
//!                                     ├─ sources + subscriptions ──► Wake
//!                                     ▼
//!                    ModuleView::snapshot ── reads ──► ModuleView::commit
//! ```
//!
//! In: objects, one writer a resource. Out: snapshots, and keys to wake. One
//! lock guards the objects; it is held for one change or one read, never across
//! a call of a guest, and wakes are delivered after it is released. Invariants:
//! a change wakes a module only if its view changed; a reconcile sees one
//! generation; what it missed while it ran is made up for at its commit.

mod history;
mod intern;
mod module;
mod object;
mod path;
mod plan;
mod prune;
mod selector;
mod snapshot;
mod sources;
mod subscriptions;
mod table;
#[cfg(test)]
mod tests;
mod words;

use std::{
    collections::{BTreeSet, HashSet},
    sync::{Arc, atomic::Ordering},
};

use parking_lot::RwLock;
use tokio::sync::watch;

use crate::{
    contract::SyncState,
    key::{Cause, Key},
    registry::Registry,
};

pub use module::ModuleView;
pub use object::{Labels, Meta, Object, Owner, ResourceVersion};
pub use path::{FieldTree, PathError, parse as parse_path};
pub use plan::StoreError;
pub use prune::{PruneError, PruneSpec};
pub use selector::{Selector, SelectorError};
pub use snapshot::{Reads, Snapshot};

use history::{Change, History};
use intern::Interner;
use module::Module;
use subscriptions::Point;
use table::{Objects, Table};

/// What the cache holds of an object of a certain uid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UidState {
    /// It is there.
    Live,
    /// It is there and has a deletionTimestamp.
    Deleting,
    /// Its name is free, or another's.
    Gone,
}

/// An object as the cache has it now, for preconditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Namespace; empty if there is none.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Uid.
    pub uid: Arc<str>,
    /// The current resourceVersion.
    pub resource_version: String,
}

impl From<&Meta> for Seen {
    fn from(meta: &Meta) -> Self {
        Self {
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.to_string(),
        }
    }
}

/// What the cache of one resource takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceStats {
    /// Number of the resource.
    pub resource: u32,
    /// Number of its objects.
    pub objects: usize,
    /// Bytes of its objects, without what they share.
    pub bytes: usize,
}

/// The cache. Shared by informers, controllers and the executor.
pub struct Store {
    registry: Arc<Registry>,
    interner: Arc<Interner>,
    inner: RwLock<Inner>,
    history: Arc<History>,
    progress: watch::Sender<u64>,
    wanted: watch::Sender<u64>,
}

#[derive(Default)]
struct Inner {
    objects: Objects,
    modules: Vec<Arc<Module>>,
    /// Moves with each change that a view shows.
    generation: u64,
    last_module: u64,
}

/// Keys to wake once the lock is released.
#[derive(Default)]
struct Wakes(Vec<(Arc<Module>, Key, Cause)>);

impl Wakes {
    fn add(&mut self, module: &Arc<Module>, key: Key, cause: Cause) {
        self.0.push((module.clone(), key, cause));
    }

    fn deliver(self) {
        for (module, key, cause) in self.0 {
            module.wake.wake(&key, cause);
        }
    }
}

impl Store {
    /// An empty cache.
    pub fn new(registry: Arc<Registry>) -> Arc<Self> {
        Arc::new(Self {
            registry,
            interner: Arc::default(),
            inner: RwLock::default(),
            history: Arc::default(),
            progress: watch::Sender::new(0),
            wanted: watch::Sender::new(0),
        })
    }

    /// The registry whose numbers this store goes by.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Numbers of the resources that are to be cached, absent ones included.
    pub fn wanted(&self) -> Vec<u32> {
        let inner = self.inner.read();
        let mut wanted: BTreeSet<u32> = inner.modules.iter().flat_map(|module| module.numbers()).collect();
        if inner.modules.iter().any(|module| module.wildcard.is_some()) {
            let all = self.registry.all();
            wanted.extend(
                all.iter().map(|info| info.number).filter(|number| self.registry.in_wildcard(*number)),
            );
        }
        wanted.into_iter().collect()
    }

    /// Ticks when [`Store::wanted`] or the generation of a [`PruneSpec`] may
    /// have changed.
    pub fn wanted_changes(&self) -> watch::Receiver<u64> {
        self.wanted.subscribe()
    }

    /// What is to be kept of a resource's objects.
    pub fn prune_spec(&self, resource: u32) -> Arc<PruneSpec> {
        if let Some(table) = self.inner.read().objects.tables.get(&resource) {
            return table.spec.clone();
        }
        let mut inner = self.inner.write();
        let inner = &mut *inner;
        self.table(inner, resource);
        inner.objects.tables[&resource].spec.clone()
    }

    /// Makes sure that there is a table, and that wildcard readers read it.
    fn table<'a>(&self, inner: &'a mut Inner, resource: u32) -> &'a mut Table {
        if !inner.objects.tables.contains_key(&resource) {
            let spec = Arc::new(PruneSpec::new(FieldTree::new([]), 0, self.interner.clone()));
            inner.objects.tables.insert(resource, Table::new(resource, spec));
            self.widen(inner, resource);
        }
        let table = inner.objects.tables.entry(resource).or_insert_with(|| {
            Table::new(resource, Arc::new(PruneSpec::new(FieldTree::new([]), 0, self.interner.clone())))
        });
        if table.header.is_empty()
            && let Some((api_version, kind)) = self.registry.kind_of(resource)
        {
            let mut header = b"\"apiVersion\":".to_vec();
            object::text(&mut header, &api_version);
            header.extend_from_slice(b",\"kind\":");
            object::text(&mut header, &kind);
            header.push(b',');
            table.header = String::from_utf8_lossy(&header).into();
        }
        table
    }

    /// Lets those who read every resource read this one as well.
    fn widen(&self, inner: &mut Inner, resource: u32) {
        if !self.registry.in_wildcard(resource) {
            return;
        }
        let mut added = false;
        for module in inner.modules.clone() {
            added |= module::read_by_wildcard(&mut inner.objects, &module, resource, inner.generation);
        }
        if added {
            self.refresh_spec(&mut inner.objects, resource);
        }
    }

    /// Brings the union of fields up to date.
    fn refresh_spec(&self, objects: &mut Objects, resource: u32) {
        let Some(table) = objects.tables.get_mut(&resource) else { return };
        let mut union = FieldTree::new([]);
        for view in table.views.iter().flatten() {
            union.join(&view.tree);
        }
        if union != table.spec.tree {
            let more = !table.spec.tree.covers(&union);
            let generation = table.spec.generation() + u64::from(more);
            table.spec = Arc::new(PruneSpec::new(union, generation, self.interner.clone()));
            self.wanted.send_modify(|tick| *tick += 1);
        }
    }

    /// Takes a whole list, at once, in place of what was there. Wakes only for
    /// what differs.
    pub fn replace(&self, resource: u32, objects: Vec<Object>, resource_version: &str) {
        let mut wakes = Wakes::default();
        let mut guard = self.inner.write();
        let inner = &mut *guard;
        self.table(inner, resource);
        // What was declared before it was served may have become one of them.
        self.widen(inner, resource);
        let table = self.table(inner, resource);
        let first = table.loaded.is_none();
        let mut held: Option<FieldTree> = None;
        let mut last: Option<&Arc<PruneSpec>> = None;
        for object in &objects {
            if last.is_none_or(|last| !Arc::ptr_eq(last, &object.spec)) {
                held.get_or_insert_default().join(&object.spec.tree);
                last = Some(&object.spec);
            }
        }
        let held = held.unwrap_or_else(|| table.spec.tree.clone());
        table.held.get_or_insert_default().join(&held);
        table.refresh_exact();

        inner.generation += 1;
        let generation = inner.generation;
        let mut listed = HashSet::with_capacity(objects.len());
        for object in objects {
            listed.extend(self.put(inner, resource, object, first, &mut wakes));
        }
        let ids =
            inner.objects.tables.get(&resource).map_or_else(Default::default, |table| table.all.clone());
        for id in ids.into_iter().filter(|id| !listed.contains(id)) {
            self.take(inner, id, &mut wakes);
        }
        if let Some(table) = inner.objects.tables.get_mut(&resource) {
            for view in table.views.iter_mut().flatten() {
                view.complete =
                    if held.covers(&view.tree) { view.complete.or(Some(generation)) } else { None };
            }
            table.held = Some(held);
            table.refresh_exact();
            table.loaded = table.loaded.or(Some(generation));
            table.observed = ResourceVersion::new(resource_version).number();
        }
        self.resource_moved(inner, resource, &mut wakes);
        drop(guard);
        self.finish(wakes);
    }

    /// Takes an object that was added or modified.
    pub fn upsert(&self, resource: u32, object: Object) {
        let mut wakes = Wakes::default();
        let mut guard = self.inner.write();
        let inner = &mut *guard;
        let version = object.meta.resource_version.number();
        let table = self.table(inner, resource);
        let first = table.loaded.is_none();
        if !Arc::ptr_eq(&table.spec, &object.spec) {
            // Pruned before the fields changed. Whoever needs more waits for the
            // relist that is under way.
            table.held.get_or_insert_default().join(&object.spec.tree);
            for view in table.views.iter_mut().flatten() {
                view.complete = view.complete.filter(|_| object.spec.tree.covers(&view.tree));
            }
            table.refresh_exact();
        }
        table.observed = table.observed.max(version);
        inner.generation += 1;
        self.put(inner, resource, object, first, &mut wakes);
        drop(guard);
        self.finish(wakes);
    }

    /// Takes a deletion, with the object as the event carries it.
    pub fn remove(&self, resource: u32, object: &Object) {
        let mut wakes = Wakes::default();
        let mut guard = self.inner.write();
        let inner = &mut *guard;
        let table = self.table(inner, resource);
        table.observed = table.observed.max(object.meta.resource_version.number());
        let cached = inner.objects.by_name(resource, object.namespace(), object.name());
        if let Some(id) = cached.filter(|record| *record.meta.uid == *object.uid()).map(|record| record.id) {
            inner.generation += 1;
            self.take(inner, id, &mut wakes);
        }
        drop(guard);
        self.finish(wakes);
    }

    /// Notes that a resource's watch has got this far.
    pub fn bookmark(&self, resource: u32, resource_version: &str) {
        {
            let mut inner = self.inner.write();
            let table = self.table(&mut inner, resource);
            table.observed = table.observed.max(ResourceVersion::new(resource_version).number());
        }
        self.tick();
    }

    /// Forgets a resource that the cluster no longer serves.
    pub fn drop_resource(&self, resource: u32) {
        let mut wakes = Wakes::default();
        let mut guard = self.inner.write();
        let inner = &mut *guard;
        let Some(table) = inner.objects.tables.get(&resource) else { return };
        let ids = table.all.clone();
        inner.generation += 1;
        for id in ids {
            self.take(inner, id, &mut wakes);
        }
        if let Some(table) = inner.objects.tables.get_mut(&resource) {
            table.loaded = None;
            table.observed = None;
            table.held = None;
            table.header = "".into();
            table.views.iter_mut().flatten().for_each(|view| view.complete = None);
        }
        self.resource_moved(inner, resource, &mut wakes);
        drop(guard);
        self.finish(wakes);
    }

    /// To be called after the registry's state of a resource was set: wakes who
    /// looked at the list of resources or waited for this one, and all keys of a
    /// module that has become ready.
    pub fn sync_changed(&self, resource: u32) {
        let mut wakes = Wakes::default();
        {
            let inner = self.inner.read();
            self.resource_moved(&inner, resource, &mut wakes);
        }
        wakes.deliver();
        self.tick();
    }

    /// To be called after discovery changed the registry.
    pub fn resources_changed(&self) {
        self.sync_changed(subscriptions::ANY);
        self.wanted.send_modify(|tick| *tick += 1);
    }

    fn resource_moved(&self, inner: &Inner, resource: u32, wakes: &mut Wakes) {
        for module in &inner.modules {
            let ready = module.missing(inner, &self.registry).next().is_none();
            if ready && !module.ready.swap(ready, Ordering::AcqRel) {
                module.all_keys(inner, |key| wakes.add(module, key, Cause::Bulk));
                continue;
            }
            module.ready.store(ready, Ordering::Release);
            if ready {
                let subscriptions = module.subscriptions.lock();
                subscriptions.watching(&Point::Resources, |key| wakes.add(module, key.clone(), Cause::Bulk));
                subscriptions.watching(&Point::Refused { resource }, |key| {
                    wakes.add(module, key.clone(), Cause::Bulk)
                });
            }
        }
    }

    /// Puts one object in its place. Answers its id.
    fn put(
        &self,
        inner: &mut Inner,
        resource: u32,
        object: Object,
        first: bool,
        wakes: &mut Wakes,
    ) -> Option<u32> {
        let cached = inner.objects.by_name(resource, object.namespace(), object.name());
        let cached = cached.map(|record| (record.id, *record.meta.uid == *object.uid()));
        match cached {
            Some((id, true)) => {
                if let Some((old, new)) = inner.objects.update(id, object.meta, object.content) {
                    self.changed(inner, Some(old), Some(new), first, wakes);
                }
                return Some(id);
            }
            // Another object of the same name: the old one went unseen.
            Some((id, false)) => self.take(inner, id, wakes),
            None => {}
        }
        let record = inner.objects.insert(resource, object.meta, object.content)?;
        let id = record.id;
        self.changed(inner, None, Some(record), first, wakes);
        Some(id)
    }

    fn take(&self, inner: &mut Inner, id: u32, wakes: &mut Wakes) {
        if let Some(old) = inner.objects.remove(id) {
            self.changed(inner, Some(old), None, false, wakes);
        }
    }

    /// Notes a change that was made, and finds whom it wakes.
    fn changed(
        &self,
        inner: &Inner,
        old: Option<Arc<object::Record>>,
        new: Option<Arc<object::Record>>,
        first: bool,
        wakes: &mut Wakes,
    ) {
        let change = Change { generation: inner.generation, old, new };
        self.history.record(&change);
        let Some(table) = change.record().and_then(|record| inner.objects.tables.get(&record.resource))
        else {
            return;
        };
        let mut declared = None;
        for reader in &table.readers {
            let module = &reader.module;
            if !change.is_seen_by(reader.view) || !module.ready.load(Ordering::Acquire) {
                continue;
            }
            let (old, new) = (change.old.as_deref(), change.new.as_deref());
            sources::wakes(reader, &inner.objects, old, new, first, |key, cause| {
                wakes.add(module, key, cause)
            });
            let declared: &Vec<_> = declared
                .get_or_insert_with(|| change.states().map(|record| table.declared_values(record)).collect());
            let cause = if first { Cause::Bulk } else { Cause::Read };
            let subscriptions = module.subscriptions.lock();
            for (record, values) in change.states().zip(declared) {
                subscriptions.touched(record, values, |key| wakes.add(module, key.clone(), cause));
            }
        }
    }

    fn tick(&self) {
        self.progress.send_modify(|tick| *tick += 1);
    }

    fn finish(&self, wakes: Wakes) {
        wakes.deliver();
        self.tick();
    }

    /// The highest resourceVersion that a resource's informer has passed.
    pub fn observed(&self, resource: u32) -> Option<u64> {
        self.inner.read().objects.tables.get(&resource)?.observed
    }

    /// Ticks whenever anything was taken in, be it only a bookmark.
    pub fn progress(&self) -> watch::Receiver<u64> {
        self.progress.subscribe()
    }

    /// What the cache holds under a name of a certain uid.
    pub fn uid_state(&self, resource: u32, namespace: &str, name: &str, uid: &str) -> UidState {
        let inner = self.inner.read();
        match inner.objects.by_name(resource, namespace, name) {
            Some(record) if *record.meta.uid == *uid => {
                if record.meta.deleting {
                    UidState::Deleting
                } else {
                    UidState::Live
                }
            }
            _ => UidState::Gone,
        }
    }

    /// The object that has a name now.
    pub fn current_for_name(&self, resource: u32, namespace: &str, name: &str) -> Option<Seen> {
        let inner = self.inner.read();
        inner.objects.by_name(resource, namespace, name).map(|record| Seen::from(&record.meta))
    }

    /// What the cache takes, by resource.
    pub fn stats(&self) -> Vec<ResourceStats> {
        let inner = self.inner.read();
        let stats = |table: &Table| ResourceStats {
            resource: table.resource,
            objects: table.all.len(),
            bytes: table.bytes,
        };
        inner.objects.tables.values().map(stats).collect()
    }

    fn is_readable(&self, inner: &Inner, resource: u32, view: usize, at: u64) -> bool {
        let complete =
            inner.objects.tables.get(&resource).and_then(|table| table.views.get(view)?.as_ref()?.complete);
        complete.is_some_and(|since| since <= at) && self.registry.state(resource) == SyncState::Synced
    }
}
