//! One generation of the store, as one reconcile sees it.
//!
//! In: reads of a guest. Out: refs and JSON, and the list of what was read. A
//! query looks at the store as it is now and then puts right, by the history,
//! whatever changed since the pin; so reading holds no lock between calls, and
//! in the usual case, in which nothing changed, costs no more than a look-up.

mod listing;

use std::{any::Any, collections::HashMap, hash::BuildHasher, sync::Arc};

use super::{
    Inner,
    history::Pin,
    intern::Hasher,
    module::ModuleView,
    object::Record,
    sources::Reader,
    subscriptions::{Interest, Point},
};
use crate::{
    contract::{ObjectRef, Query, ResourceInfo, SyncState},
    engine::SnapshotHost,
    grants::Place,
    key::Key,
};

/// What one round read; to be handed to [`ModuleView::commit`].
pub struct Reads {
    pub(super) interests: Vec<Interest>,
    pub(super) pin: Pin,
    /// Version of the list of resources, if that was read.
    pub(super) resources: Option<u32>,
    /// Declared resources that could not be read yet.
    pub(super) refused: Vec<u32>,
    /// Whether the operator does not grant something that was read.
    pub(super) denied: bool,
}

impl Reads {
    /// Whether a read was refused for no fault of the module: it has not synced
    /// yet, or the operator does not grant it.
    pub fn waits(&self) -> bool {
        self.denied || !self.refused.is_empty()
    }

    /// Reads that were made: names, lists, index values.
    pub fn count(&self) -> usize {
        self.interests.len()
    }
}

/// What a pinned generation looked like, as one round sees it.
pub struct Snapshot {
    view: Arc<ModuleView>,
    pin: Pin,
    primary: Option<ObjectRef>,
    interests: Vec<Interest>,
    resources: Option<(u32, Arc<[ResourceInfo]>)>,
    refused: Vec<u32>,
    denied: bool,
    past: Past,
}

/// States at the pin of what has changed since.
#[derive(Default)]
struct Past {
    /// Up to which generation the history has been followed.
    until: u64,
    slots: HashMap<u32, Option<Arc<Record>>, Hasher>,
    /// Ids by the hash of the name they had.
    names: HashMap<u64, u32, Hasher>,
}

/// Whether a resource may be read.
enum Access<'a> {
    Readable(&'a Reader),
    /// It is optional, and there is none.
    Empty,
    Refused(String),
    /// The operator does not grant it.
    Denied(String),
}

impl Past {
    fn follow(&mut self, inner: &Inner, view: &ModuleView, pin: &Pin) {
        if self.until == inner.generation {
            return;
        }
        let Self { until, slots, names } = self;
        view.store.history.since(*until.max(&mut pin.generation.clone()), |change| {
            let Some(record) = change.record() else { return };
            let new = !slots.contains_key(&record.id);
            if new {
                slots.insert(record.id, change.old.clone());
                if let Some(old) = &change.old {
                    names.insert(name_hash(old.resource, &old.meta.namespace, &old.meta.name), old.id);
                }
            }
        });
        *until = inner.generation;
    }

    fn get<'a>(&'a self, inner: &'a Inner, id: u32) -> Option<&'a Arc<Record>> {
        match self.slots.get(&id) {
            Some(then) => then.as_ref(),
            None => inner.objects.get(id),
        }
    }

    fn by_name<'a>(
        &'a self,
        inner: &'a Inner,
        resource: u32,
        namespace: &str,
        name: &str,
    ) -> Option<&'a Arc<Record>> {
        let now = inner.objects.by_name(resource, namespace, name);
        if self.slots.is_empty() {
            return now;
        }
        if let Some(now) = now.filter(|record| !self.slots.contains_key(&record.id)) {
            return Some(now);
        }
        let id = self.names.get(&name_hash(resource, namespace, name))?;
        self.slots.get(id)?.as_ref().filter(|record| record.order() == (resource, namespace, name))
    }
}

fn name_hash(resource: u32, namespace: &str, name: &str) -> u64 {
    Hasher::default().hash_one((resource, namespace, name))
}

impl Snapshot {
    pub(super) fn new(view: Arc<ModuleView>, key: &Key) -> Self {
        let store = view.store.clone();
        let inner = store.inner.read();
        let pin = store.history.pin(inner.generation);
        let past = Past { until: inner.generation, ..Past::default() };
        Self::of(view, key, &inner, pin, past)
    }

    /// The state that another snapshot shows, through this view. It stays
    /// readable for as long as either is there.
    pub(super) fn beside(view: Arc<ModuleView>, key: &Key, other: &Self) -> Self {
        let store = view.store.clone();
        let inner = store.inner.read();
        let pin = store.history.pin(other.pin.generation);
        let mut past = Past { until: pin.generation, ..Past::default() };
        past.follow(&inner, &view, &pin);
        Self::of(view, key, &inner, pin, past)
    }

    fn of(view: Arc<ModuleView>, key: &Key, inner: &Inner, pin: Pin, past: Past) -> Self {
        let mut snapshot = Self {
            view,
            pin,
            primary: None,
            interests: Vec::with_capacity(4),
            resources: None,
            refused: Vec::new(),
            denied: false,
            past,
        };
        if key.resource != 0 {
            // A refusal is noted, and the key comes again for it.
            snapshot.primary =
                snapshot.look_up(inner, key.resource, &key.namespace, &key.name).unwrap_or_default();
        }
        snapshot
    }

    /// The key's own object.
    pub fn primary(&self) -> Option<ObjectRef> {
        self.primary
    }

    /// Ends the round.
    pub fn into_reads(self) -> Reads {
        let Self { pin, interests, resources, refused, denied, .. } = self;
        Reads { interests, pin, resources: resources.map(|(version, _)| version), refused, denied }
    }

    /// Where objects of a resource are, in the words of grants.
    fn place<'n>(&self, resource: u32, namespace: Option<&'n str>) -> Place<'n> {
        match namespace.filter(|namespace| !namespace.is_empty()) {
            Some(namespace) => Place::Namespace(namespace),
            None if self.view.store.registry.namespaced(resource) => Place::Everywhere,
            None => Place::Cluster,
        }
    }

    /// Why the operator does not let the module read there; none if he does.
    fn denied(&self, resource: u32, namespace: Option<&str>) -> Option<String> {
        let grants = &self.view.module.grants;
        if grants.is_open() {
            return None;
        }
        let name = self.view.store.registry.name(resource)?;
        let place = self.place(resource, namespace);
        (!grants.allow_read(&name, place)).then(|| grants.no_read(&name, place))
    }

    fn access<'a>(&self, inner: &'a Inner, resource: u32, namespace: Option<&str>) -> Access<'a> {
        let store = &self.view.store;
        let module = &self.view.module;
        let name = || match store.registry.name(resource) {
            Some(name) if name.group.is_empty() => name.resource,
            Some(name) => format!("{}.{}", name.resource, name.group),
            None => format!("resource number {resource}"),
        };
        let state = store.registry.state(resource);
        if module.declares(resource)
            && let Some(reason) = self.denied(resource, namespace)
        {
            return Access::Denied(reason);
        }
        let Some(reader) = module.reader(&inner.objects, resource) else {
            if module.wildcard.is_none() || store.registry.info(resource).is_none() {
                return Access::Refused(format!(
                    "{} is not among the reads of the module's manifest",
                    name()
                ));
            }
            return match state {
                SyncState::Absent | SyncState::Failed => Access::Empty,
                _ => Access::Refused(format!("{} has not synced yet", name())),
            };
        };
        match state {
            SyncState::Synced if store.is_readable(inner, resource, reader.view, self.pin.generation) => {
                Access::Readable(reader)
            }
            SyncState::Absent | SyncState::Failed if reader.optional => Access::Empty,
            SyncState::Absent => Access::Refused(format!("the cluster does not serve {}", name())),
            SyncState::Failed => Access::Refused(format!("{} cannot be listed at present", name())),
            _ => Access::Refused(format!("{} has not synced yet", name())),
        }
    }

    fn refuse<T>(&mut self, resource: u32, reason: String) -> Result<T, String> {
        if self.view.module.declares(resource) {
            self.refused.push(resource);
        } else {
            let grants = &self.view.module.grants;
            grants.refuse("a read that the manifest does not declare was", &grants.refusals.reads, &reason);
        }
        self.interests.push(Interest::new(&Point::Refused { resource }));
        Err(reason)
    }

    fn deny<T>(&mut self, reason: String) -> Result<T, String> {
        self.denied = true;
        let grants = &self.view.module.grants;
        grants.refuse("a read was", &grants.refusals.reads, &reason);
        Err(reason)
    }

    fn look_up(
        &mut self,
        inner: &Inner,
        resource: u32,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ObjectRef>, String> {
        let view = match self.access(inner, resource, Some(namespace)) {
            Access::Readable(reader) => Some(reader.view),
            Access::Empty => None,
            Access::Denied(reason) => return self.deny(reason),
            Access::Refused(reason) => return self.refuse(resource, reason),
        };
        self.interests.push(Interest::new(&Point::Name { resource, namespace, name }));
        Ok(view.and_then(|view| {
            self.past.by_name(inner, resource, namespace, name).map(|record| object_ref(record, view))
        }))
    }
}

fn object_ref(record: &Record, view: usize) -> ObjectRef {
    ObjectRef {
        resource: record.resource,
        id: record.id,
        version: record.versions.get(view).copied().unwrap_or_default(),
    }
}

impl SnapshotHost for Snapshot {
    fn resources(&mut self) -> Vec<ResourceInfo> {
        self.resources_version();
        self.resources.as_ref().map_or_else(Vec::new, |(_, all)| all.to_vec())
    }

    fn resources_version(&mut self) -> u32 {
        let registry = &self.view.store.registry;
        if self.resources.is_none() {
            self.interests.push(Interest::new(&Point::Resources));
        }
        // Version first: if the list moves on in between, the commit notices.
        self.resources.get_or_insert_with(|| (registry.version(), registry.all())).0
    }

    fn get(&mut self, resource: u32, namespace: &str, name: &str) -> Result<Option<ObjectRef>, String> {
        let store = self.view.store.clone();
        let inner = store.inner.read();
        self.past.follow(&inner, &self.view, &self.pin);
        self.look_up(&inner, resource, namespace, name)
    }

    fn list(&mut self, query: &Query) -> Result<Vec<ObjectRef>, String> {
        let store = self.view.store.clone();
        let inner = store.inner.read();
        self.past.follow(&inner, &self.view, &self.pin);
        self.list_locked(&inner, query)
    }

    fn read(&mut self, refs: &[ObjectRef]) -> Result<Vec<String>, String> {
        let mut found = Vec::with_capacity(refs.len());
        {
            let inner = self.view.store.inner.read();
            self.past.follow(&inner, &self.view, &self.pin);
            for object in refs {
                let record =
                    self.past.get(&inner, object.id).filter(|record| record.resource == object.resource);
                let table = inner.objects.tables.get(&object.resource);
                let place = table.and_then(|table| {
                    let view = self.view.module.reader(&inner.objects, object.resource)?.view;
                    Some((table.header.clone(), view, table.views.get(view)?.as_ref()?))
                });
                let (Some(record), Some((header, view, fields))) = (record, place) else {
                    return Err(format!("{object:?} is no object of this snapshot"));
                };
                if record.versions.get(view) != Some(&object.version) {
                    return Err(format!("{object:?} has another version in this snapshot"));
                }
                let exact = fields.exact && !self.past.slots.contains_key(&object.id);
                found.push((record.clone(), header, (!exact).then(|| fields.tree.clone())));
            }
        }
        // Putting JSON together needs no lock.
        Ok(found.iter().map(|(record, header, tree)| record.render(header, tree.as_deref())).collect())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}
