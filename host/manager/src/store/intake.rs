//! The informers' side: lists, events and bookmarks are taken in, and whom they wake is found.
//!
//! Invariant: keys are collected while the lock is held, and woken after it is released.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
};

use super::{
    FieldTree, Inner, Object, PruneSpec, ResourceVersion, Store,
    history::Change,
    module::Module,
    object, sources,
    subscriptions::{self, Point},
};
use crate::key::{Cause, Key};

/// Keys to wake once the lock is released.
#[derive(Default)]
pub(super) struct Wakes(Vec<(Arc<Module>, Key, Cause)>);

impl Wakes {
    pub(super) fn add(&mut self, module: &Arc<Module>, key: Key, cause: Cause) {
        self.0.push((module.clone(), key, cause));
    }

    pub(super) fn deliver(self) {
        for (module, key, cause) in self.0 {
            module.wake.wake(&key, cause);
        }
    }
}

impl Store {
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

    pub(super) fn resource_moved(&self, inner: &Inner, resource: u32, wakes: &mut Wakes) {
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

    pub(super) fn tick(&self) {
        self.progress.send_modify(|tick| *tick += 1);
    }

    pub(super) fn finish(&self, wakes: Wakes) {
        wakes.deliver();
        self.tick();
    }
}
