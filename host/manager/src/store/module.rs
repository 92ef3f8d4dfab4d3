//! A module's view of the store: what it declared, and what its keys have read.
//!
//! In: a manifest. Out: snapshots for its keys, and wakes for its queue.
//! Invariant: everything that a module may read is checked here, when it is
//! attached, so that reading only has to look it up.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;

use super::{
    Inner, Seen, Store, Wakes,
    plan::{Plan, ReadPlan, StoreError, Wildcard},
    selector::{Selector, SelectorError},
    snapshot::{Reads, Snapshot},
    sources::{self, Feed, FeedKind, Reader},
    subscriptions::{Missed, Subscriptions},
    table::{Objects, Selected},
};
use crate::{
    contract::{GroupResource, Manifest, ObjectRef, SyncState},
    grants::{Grants, Place},
    key::{Cause, Key, Wake},
    registry::{Registry, is_wildcard},
};

/// What is shared of a module.
pub(super) struct Module {
    id: u64,
    pub(super) wake: Arc<dyn Wake>,
    /// Whether all it waits for had synced when that was last looked at. Until
    /// then its keys are not woken one by one: all are once it is.
    pub(super) ready: AtomicBool,
    pub(super) subscriptions: Mutex<Subscriptions>,
    /// Fields of a read of every resource, and the sources that it feeds.
    pub(super) wildcard: Option<Wildcard>,
    /// Numbers of the reads, and whether each may be lacking.
    reads: Vec<(u32, bool)>,
    singles: Vec<(u32, Arc<str>)>,
    source_names: Vec<String>,
    selectors: Mutex<HashMap<String, Arc<Selector>>>,
    pub(super) grants: Arc<Grants>,
}

impl Module {
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.reads.iter().map(|(number, _)| *number)
    }

    /// Whether the operator lets it read a resource at all.
    pub(super) fn is_granted(&self, registry: &Registry, resource: u32) -> bool {
        self.grants.is_open()
            || registry.name(resource).is_none_or(|name| self.grants.allow_read(&name, Place::Somewhere))
    }

    /// Whether the manifest names a resource, or every one.
    pub(super) fn declares(&self, resource: u32) -> bool {
        self.wildcard.is_some() || self.numbers().any(|number| number == resource)
    }

    /// Resources that keep the module from being ready.
    pub(super) fn missing<'a>(
        &'a self,
        inner: &'a Inner,
        registry: &'a Registry,
    ) -> impl Iterator<Item = u32> + 'a {
        let synced = move |number: &u32| {
            let view = self.reader(&inner.objects, *number).map(|reader| reader.view);
            let table = inner.objects.tables.get(number);
            let complete = view.and_then(|view| table?.views.get(view)?.as_ref()?.complete).is_some();
            complete && registry.state(*number) == SyncState::Synced
        };
        self.reads
            .iter()
            .filter(|(_, optional)| !optional)
            .map(|(number, _)| *number)
            .filter(move |number| !synced(number))
            // What is not granted never comes; reading it says so.
            .filter(move |number| self.is_granted(registry, *number))
    }

    /// How it reads a resource.
    pub(super) fn reader<'a>(&self, objects: &'a Objects, resource: u32) -> Option<&'a Reader> {
        objects.tables.get(&resource)?.readers.iter().find(|reader| reader.module.id == self.id)
    }

    /// All keys of all sources.
    pub(super) fn all_keys(&self, inner: &Inner, mut each: impl FnMut(Key)) {
        for (source, name) in &self.singles {
            each(Key { source: *source, resource: 0, namespace: "".into(), name: name.clone() });
        }
        for (resource, table) in &inner.objects.tables {
            if let Some(reader) = table.readers.iter().find(|reader| reader.module.id == self.id) {
                sources::all_keys(reader, &inner.objects, *resource, &mut each);
            }
        }
    }

    fn yields(&self, objects: &Objects, key: &Key) -> bool {
        if key.resource != 0 {
            return self
                .reader(objects, key.resource)
                .is_some_and(|reader| sources::makes(reader, objects, key.resource, key));
        }
        self.singles.iter().any(|(source, name)| *source == key.source && *name == key.name)
            || objects.tables.keys().any(|resource| {
                self.reader(objects, *resource)
                    .is_some_and(|reader| sources::makes(reader, objects, *resource, key))
            })
    }

    /// A selector, parsed once. Guests use the same few over and over.
    pub(super) fn selector(&self, text: &str) -> Result<Arc<Selector>, SelectorError> {
        let mut selectors = self.selectors.lock();
        if let Some(selector) = selectors.get(text) {
            return Ok(selector.clone());
        }
        let selector = Arc::new(Selector::parse(text)?);
        if selectors.len() >= 4096 {
            selectors.clear();
        }
        selectors.insert(text.to_owned(), selector.clone());
        Ok(selector)
    }
}

/// Lets a module with a read of every resource read a table. Says whether it
/// did not before.
pub(super) fn read_by_wildcard(
    objects: &mut Objects,
    module: &Arc<Module>,
    resource: u32,
    generation: u64,
) -> bool {
    let Some(wildcard) = &module.wildcard else { return false };
    if module.reader(objects, resource).is_some() {
        return false;
    }
    let Some(view) = objects.add_view(resource, wildcard.tree.clone(), generation) else { return false };
    let reader = Reader {
        module: module.clone(),
        view,
        indexes: Vec::new(),
        widths: Vec::new(),
        sources: wildcard
            .feeds
            .iter()
            .map(|(source, indexes, indexed)| feed(*source, indexes.clone(), *indexed))
            .collect(),
        optional: true,
    };
    if let Some(table) = objects.tables.get_mut(&resource) {
        table.readers.push(reader);
    }
    true
}

fn feed(source: u32, indexes: Vec<Selected>, indexed: bool) -> Feed {
    Feed { source, kind: if indexed { FeedKind::Indexed(indexes) } else { FeedKind::Objects } }
}

/// A module's access to the store.
pub struct ModuleView {
    pub(super) store: Arc<Store>,
    pub(super) module: Arc<Module>,
    /// Names of the reads, then of the writes; none for every resource.
    names: Vec<Option<GroupResource>>,
    /// Their numbers, as of a version of the registry.
    numbers: Mutex<(Option<u32>, Vec<u32>)>,
}

impl Store {
    /// Attaches a module. `wake` is told about its keys from the moment it is
    /// ready; whoever attaches one that is ready already calls
    /// [`ModuleView::rekey`].
    pub fn attach(
        self: &Arc<Self>,
        manifest: &Manifest,
        wake: Arc<dyn Wake>,
    ) -> Result<Arc<ModuleView>, StoreError> {
        self.attach_granted(manifest, wake, Grants::everything(&manifest.name))
    }

    /// Attaches a module that may read only what it is granted.
    pub fn attach_granted(
        self: &Arc<Self>,
        manifest: &Manifest,
        wake: Arc<dyn Wake>,
        grants: Arc<Grants>,
    ) -> Result<Arc<ModuleView>, StoreError> {
        let plan = Plan::new(manifest, &self.registry)?;
        let mut guard = self.inner.write();
        let inner = &mut *guard;
        inner.last_module += 1;
        let module = Arc::new(Module {
            id: inner.last_module,
            wake,
            ready: AtomicBool::new(false),
            subscriptions: Mutex::default(),
            wildcard: plan.wildcard,
            reads: plan.reads.iter().map(|read| (read.number, read.optional)).collect(),
            singles: plan.singles,
            source_names: manifest.sources.iter().map(|source| source.name.clone()).collect(),
            selectors: Mutex::default(),
            grants,
        });
        for read in plan.reads {
            let number = read.number;
            self.table(inner, number);
            self.read_by_name(inner, &module, read, &plan.values);
            self.refresh_spec(&mut inner.objects, number);
        }
        inner.modules.push(module.clone());
        let numbers: Vec<u32> = inner.objects.tables.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.widen(inner, number));
        module.ready.store(module.missing(inner, &self.registry).next().is_none(), Ordering::Release);
        drop(guard);
        self.wanted.send_modify(|tick| *tick += 1);

        let named = |resource: &GroupResource| (!is_wildcard(resource)).then(|| resource.clone());
        let reads = manifest.reads.iter().map(|read| named(&read.resource));
        let names = reads.chain(manifest.writes.iter().map(|write| named(&write.resource))).collect();
        Ok(Arc::new(ModuleView {
            store: self.clone(),
            module,
            names,
            numbers: Mutex::new((None, Vec::new())),
        }))
    }

    /// Attaches the next version of a module beside the one that runs. Fields
    /// and indexes that both declare are shared, versions included; the
    /// subscriptions follow with [`ModuleView::adopt`].
    pub fn attach_successor(
        self: &Arc<Self>,
        old: &ModuleView,
        manifest: &Manifest,
        wake: Arc<dyn Wake>,
    ) -> Result<Arc<ModuleView>, StoreError> {
        let view = self.attach_granted(manifest, wake, old.module.grants.clone())?;
        view.adopt(old);
        Ok(view)
    }

    fn read_by_name(
        &self,
        inner: &mut Inner,
        module: &Arc<Module>,
        read: ReadPlan,
        values: &[(u32, u32, String)],
    ) {
        let Some(view) = inner.objects.add_view(read.number, read.tree, inner.generation) else { return };
        let widths = read.indexes.iter().map(|(_, paths)| paths.len()).collect();
        let mut indexes = Vec::new();
        for (name, paths) in read.indexes {
            indexes.extend(inner.objects.add_index(read.number, paths).map(|at| (name, at)));
        }
        let mut reader = Reader {
            module: module.clone(),
            view,
            indexes,
            widths,
            sources: Vec::new(),
            optional: read.optional,
        };
        for (source, names, indexed) in read.feeds {
            let selected =
                names.iter().filter_map(|name| reader.index(name)).map(|(index, _)| index).collect();
            reader.sources.push(feed(source, selected, indexed));
        }
        for (source, number, index) in values {
            if *number == read.number
                && let Some((index, _)) = reader.index(index)
            {
                reader.sources.push(Feed { source: *source, kind: FeedKind::Values(index) });
            }
        }
        if let Some(table) = inner.objects.tables.get_mut(&read.number) {
            table.readers.push(reader);
        }
    }
}

impl ModuleView {
    /// Whether every resource that the manifest names, and does not call
    /// optional, has synced with all declared fields.
    pub fn is_ready(&self) -> bool {
        self.module.missing(&self.store.inner.read(), &self.store.registry).next().is_none()
    }

    /// What the module is granted.
    pub fn grants(&self) -> &Arc<Grants> {
        &self.module.grants
    }

    /// Whether the operator leaves the module a key. Keys that are no objects
    /// belong to nobody's namespace.
    pub fn may_reconcile(&self, key: &Key) -> bool {
        let grants = &self.module.grants;
        if grants.is_open() || key.resource == 0 {
            return true;
        }
        let place = if key.namespace.is_empty() { Place::Cluster } else { Place::Namespace(&key.namespace) };
        self.store.registry.name(key.resource).is_none_or(|name| grants.allow_read(&name, place))
    }

    /// Numbers of the resources that keep the module from being ready.
    pub fn waiting_for(&self) -> Vec<u32> {
        self.module.missing(&self.store.inner.read(), &self.store.registry).collect()
    }

    /// Numbers of the resources that it reads, those of a read of every resource
    /// included.
    pub fn reads(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.module.numbers().collect();
        if self.module.wildcard.is_some() {
            let registry = &self.store.registry;
            let all = registry.all();
            numbers.extend(all.iter().map(|info| info.number).filter(|number| registry.in_wildcard(*number)));
        }
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Numbers of the resources of the reads, then of the writes; 0 where the
    /// cluster lacks one, and for every resource.
    pub fn resources(&self) -> Vec<u32> {
        let registry = &self.store.registry;
        let version = registry.version();
        let mut numbers = self.numbers.lock();
        if numbers.0 != Some(version) {
            let number = |name: &Option<GroupResource>| {
                name.as_ref().and_then(|name| registry.resolve(name)).unwrap_or(0)
            };
            *numbers = (Some(version), self.names.iter().map(number).collect());
        }
        numbers.1.clone()
    }

    /// Pins the current generation and shows it. The key's own object is looked
    /// up and counts as read.
    pub fn snapshot(self: &Arc<Self>, key: &Key) -> Snapshot {
        Snapshot::new(self.clone(), key)
    }

    /// Shows the state of the store that another snapshot shows, of this view or
    /// of another module's.
    pub fn snapshot_beside(self: &Arc<Self>, key: &Key, other: &Snapshot) -> Snapshot {
        Snapshot::beside(self.clone(), key, other)
    }

    /// Installs what a key read as its subscriptions. What changed in the
    /// meantime wakes it at once. Unless `finished`, the reads of its last
    /// finished reconcile stay as well.
    pub fn commit(&self, key: &Key, reads: Reads, finished: bool) {
        let Reads { interests, pin, resources, refused, denied: _ } = reads;
        let registry = &self.store.registry;
        let mut wake = false;
        {
            let inner = self.store.inner.read();
            let new = self.module.subscriptions.lock().install(key, interests, finished);
            if !new.is_empty() && pin.generation < inner.generation {
                let missed = Missed::new(&new);
                self.store.history.since(pin.generation, |change| {
                    let resource = change.record().map_or(0, |record| record.resource);
                    let seen = self
                        .module
                        .reader(&inner.objects, resource)
                        .is_some_and(|reader| change.is_seen_by(reader.view));
                    wake =
                        wake || seen && change.states().any(|record| missed.touches(record, &inner.objects));
                });
            }
            wake |= resources.is_some_and(|version| version != registry.version());
            wake |= refused.iter().any(|resource| {
                let reader = self.module.reader(&inner.objects, *resource);
                reader.is_some_and(|reader| {
                    self.store.is_readable(&inner, *resource, reader.view, inner.generation)
                })
            });
        }
        if wake {
            self.module.wake.wake(key, Cause::Read);
        }
    }

    /// Drops the subscriptions of a key.
    pub fn forget(&self, key: &Key) {
        self.module.subscriptions.lock().forget(key);
    }

    /// Whether the key's source still makes it.
    pub fn yields(&self, key: &Key) -> bool {
        self.module.yields(&self.store.inner.read().objects, key)
    }

    /// Wakes all keys of all sources, and those that are only remembered for
    /// what they read.
    pub fn rekey(&self, cause: Cause) {
        let mut wakes = Wakes::default();
        {
            let inner = self.store.inner.read();
            self.module.all_keys(&inner, |key| wakes.add(&self.module, key, cause));
            for key in self.module.subscriptions.lock().keys() {
                if !self.module.yields(&inner.objects, key) {
                    wakes.add(&self.module, key.clone(), cause);
                }
            }
        }
        wakes.deliver();
    }

    /// All keys that the sources make now.
    pub fn keys(&self) -> Vec<Key> {
        let mut keys = Vec::new();
        self.module.all_keys(&self.store.inner.read(), |key| keys.push(key));
        keys
    }

    /// Uid of the object that has the key's name now.
    pub fn primary_identity(&self, key: &Key) -> Option<Arc<str>> {
        let inner = self.store.inner.read();
        Some(inner.objects.by_name(key.resource, &key.namespace, &key.name)?.meta.uid.clone())
    }

    /// The object behind a ref, if this module's view of it is still that one.
    pub fn current(&self, object: &ObjectRef) -> Option<Seen> {
        let inner = self.store.inner.read();
        let record = inner.objects.get(object.id).filter(|record| record.resource == object.resource)?;
        let view = self.module.reader(&inner.objects, object.resource)?.view;
        (record.versions.get(view) == Some(&object.version)).then(|| Seen::from(&record.meta))
    }

    /// Path of an array within a merge patch of which this module sees only
    /// part of each element, so that the patch would lose the rest.
    pub fn pruned_array(&self, resource: u32, patch: &serde_json::Value) -> Option<String> {
        let inner = self.store.inner.read();
        let view = self.module.reader(&inner.objects, resource)?.view;
        inner.objects.tables.get(&resource)?.views.get(view)?.as_ref()?.tree.pruned_array(patch)
    }

    /// Takes over the subscriptions of the version before, where a source of
    /// the same name still makes such keys. Keys known here keep their own.
    pub fn adopt(&self, old: &ModuleView) {
        if Arc::ptr_eq(&self.module, &old.module) {
            return;
        }
        let source = |key: &Key| {
            let name = old.module.source_names.get(key.source as usize)?;
            let source = self.module.source_names.iter().position(|own| own == name)?;
            Some(Key { source: source as u32, ..key.clone() })
        };
        // Under the lock of the store no change can fall between the two. Theirs are let go of before ours are taken:
        // versions adopt from each other in either direction.
        let _inner = self.store.inner.read();
        let theirs = old.module.subscriptions.lock().under(source);
        self.module.subscriptions.lock().adopt(theirs);
    }

    /// Ends the module's part in the store. What only it needed is let go.
    pub fn detach(&self) {
        let mut guard = self.store.inner.write();
        let inner = &mut *guard;
        let before = inner.modules.len();
        inner.modules.retain(|module| module.id != self.module.id);
        if inner.modules.len() == before {
            return;
        }
        let numbers: Vec<u32> = inner.objects.tables.keys().copied().collect();
        for number in numbers {
            let Some(table) = inner.objects.tables.get_mut(&number) else { continue };
            let Some(at) = table.readers.iter().position(|reader| reader.module.id == self.module.id) else {
                continue;
            };
            let reader = table.readers.swap_remove(at);
            let unread = table.readers.is_empty();
            inner.objects.release(number, reader.view, reader.indexes.iter().map(|(_, at)| *at));
            if unread {
                inner.objects.drop_table(number);
            } else {
                self.store.refresh_spec(&mut inner.objects, number);
            }
        }
        drop(guard);
        self.store.wanted.send_modify(|tick| *tick += 1);
    }
}
