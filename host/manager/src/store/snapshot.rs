//! One generation of the store, as one reconcile sees it.
//!
//! In: reads of a guest. Out: refs and JSON, and the list of what was read. A
//! query looks at the store as it is now and then puts right, by the history,
//! whatever changed since the pin; so reading holds no lock between calls, and
//! in the usual case, in which nothing changed, costs no more than a look-up.

use std::{any::Any, collections::HashMap, hash::BuildHasher, sync::Arc};

use super::{
    Inner,
    history::Pin,
    intern::Hasher,
    module::ModuleView,
    object::Record,
    selector::Selector,
    sources::Reader,
    subscriptions::{ANY, Interest, Point},
    table::{JOINT, Selected},
};
use crate::{
    contract::{ObjectRef, Query, ResourceInfo, ResourceSet, SyncState},
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
        let interests = Vec::with_capacity(4);
        let mut snapshot = Self {
            view,
            pin,
            primary: None,
            interests,
            resources: None,
            refused: Vec::new(),
            denied: false,
            past,
        };
        if key.resource != 0 {
            // A refusal is noted, and the key comes again for it.
            snapshot.primary =
                snapshot.look_up(&inner, key.resource, &key.namespace, &key.name).unwrap_or_default();
        }
        snapshot
    }

    /// The state that another snapshot shows, through this view. It stays
    /// readable for as long as either is there.
    pub(super) fn beside(view: Arc<ModuleView>, key: &Key, other: &Self) -> Self {
        let store = view.store.clone();
        let inner = store.inner.read();
        let pin = store.history.pin(other.pin.generation);
        let mut past = Past { until: pin.generation, ..Past::default() };
        past.follow(&inner, &view, &pin);
        let interests = Vec::new();
        let mut snapshot = Self {
            view,
            pin,
            primary: None,
            interests,
            resources: None,
            refused: Vec::new(),
            denied: false,
            past,
        };
        if key.resource != 0 {
            snapshot.primary =
                snapshot.look_up(&inner, key.resource, &key.namespace, &key.name).unwrap_or_default();
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

    /// Adds what a query finds in one resource, in order.
    fn find(
        &self,
        inner: &Inner,
        resource: u32,
        view: usize,
        query: &Matcher<'_>,
        found: &mut Vec<ObjectRef>,
    ) {
        let start = found.len();
        let objects = &inner.objects;
        let ids = objects.candidates(Some(resource), query.namespace, query.index);
        found.reserve(ids.len());
        if self.past.slots.is_empty() && query.selector.is_none() {
            found.extend(ids.iter().filter_map(|id| objects.get(*id)).map(|record| object_ref(record, view)));
            return;
        }
        let mut labels = LabelTest::new(query.selector);
        for record in
            ids.iter().filter(|id| !self.past.slots.contains_key(id)).filter_map(|id| objects.get(*id))
        {
            if labels.admits(record) {
                found.push(object_ref(record, view));
            }
        }
        let kept = found.len();
        for record in self.past.slots.values().flatten().filter(|record| record.resource == resource) {
            let namespace = query.namespace.is_none_or(|namespace| *record.meta.namespace == *namespace);
            let index = query.index.is_none_or(|(index, value)| objects.has_value(record, index, value));
            if namespace && index && labels.admits(record) {
                found.push(object_ref(record, view));
            }
        }
        if found.len() > kept {
            let order = |found: &ObjectRef| self.past.get(inner, found.id).map(|record| record.order());
            found[start..].sort_by(|a, b| order(a).cmp(&order(b)));
        }
    }

    /// Adds what an index over all resources finds for one value.
    fn find_everywhere(
        &self,
        inner: &Inner,
        views: &[(u32, usize)],
        query: &Matcher<'_>,
        found: &mut Vec<ObjectRef>,
    ) {
        let view_of =
            |resource| views.binary_search_by_key(&resource, |(own, _)| *own).ok().map(|at| views[at].1);
        let mut labels = LabelTest::new(query.selector);
        let mut fits = |record: &Record| {
            query.namespace.is_none_or(|namespace| *record.meta.namespace == *namespace)
                && labels.admits(record)
        };
        let ids = inner.objects.candidates(None, None, query.index);
        let now =
            ids.iter().filter(|id| !self.past.slots.contains_key(id)).filter_map(|id| inner.objects.get(*id));
        let then = self.past.slots.values().flatten();
        let then = then.filter(|record| {
            query.index.is_some_and(|(index, value)| inner.objects.has_value(record, index, value))
        });
        let mut records: Vec<&Arc<Record>> = now.collect();
        let kept = records.len();
        records.extend(then);
        if records.len() > kept {
            records.sort_by(|a, b| a.order().cmp(&b.order()));
        }
        for record in records {
            if fits(record)
                && let Some(view) = view_of(record.resource)
            {
                found.push(object_ref(record, view));
            }
        }
    }

    fn subscribe(&mut self, resource: u32, query: &Matcher<'_>) {
        let namespace = query.namespace;
        let pair = query.selector.and_then(|selector| selector.required_pair());
        let point = match (query.index, pair) {
            (Some((index, value)), _) => Point::Value { resource, index, namespace, value },
            (None, Some((key, value))) => Point::Label { resource, namespace, key, value },
            (None, None) => Point::Everything { resource, namespace },
        };
        self.interests.push(match query.selector {
            Some(selector) => {
                Interest::filtered(&point, selector.clone(), Hasher::default().hash_one(selector))
            }
            None => Interest::new(&point),
        });
    }

    fn list_locked(&mut self, inner: &Inner, query: &Query) -> Result<Vec<ObjectRef>, String> {
        let selector = match query.labels.as_deref() {
            None | Some("") => None,
            Some(text) => Some(self.view.module.selector(text).map_err(|error| error.to_string())?),
        };
        let mut namespace = query.namespace.as_deref();
        let mut wanted =
            query.index.as_ref().map(|index| (&*index.index, index.value.join(JOINT), index.value.len()));
        if let Some((name, value, width)) = &wanted {
            if Selected::built_in(name).is_some() && *width != 1 {
                return Err(format!("a value of index `{name}` has one part, not {width}"));
            }
            if *name == "namespace" {
                if namespace.is_some_and(|namespace| namespace != value) {
                    return Ok(Vec::new());
                }
                namespace = query.index.as_ref().and_then(|index| index.value.first()).map(String::as_str);
                wanted = None;
            }
        }
        let matcher = |index| Matcher { namespace, index, selector: selector.as_ref() };
        let wanted = wanted.as_ref();
        let select = |reader: &Reader| -> Result<Option<(Selected, &str)>, String> {
            let Some((name, value, width)) = wanted else { return Ok(None) };
            match reader.index(name) {
                Some((index, parts)) if parts == *width => Ok(Some((index, value))),
                Some((_, parts)) => Err(format!("a value of index `{name}` has {parts} parts, not {width}")),
                None => Err(format!("index `{name}` is not declared by the module's manifest")),
            }
        };
        let mut found = Vec::new();
        let one;
        let numbers: &[u32] = match &query.resources {
            ResourceSet::One(number) => {
                one = [*number];
                &one
            }
            ResourceSet::Several(numbers) => numbers,
            ResourceSet::All => {
                let index = match wanted {
                    None => None,
                    Some((name, value, _)) => {
                        let index = Selected::built_in(name);
                        let index =
                            index.ok_or_else(|| format!("index `{name}` is not one over all resources"))?;
                        Some((index, value.as_str()))
                    }
                };
                let query = matcher(index);
                if let Some(reason) = self.denied_in_part(inner, namespace) {
                    return self.deny(reason);
                }
                self.list_all(inner, &query, &mut found);
                self.subscribe(ANY, &query);
                return Ok(found);
            }
        };
        let single = matches!(query.resources, ResourceSet::One(_));
        for &number in numbers {
            let reader = self.view.module.reader(&inner.objects, number);
            let view = match self.access(inner, number, namespace) {
                Access::Readable(reader) => Some(reader.view),
                Access::Empty => None,
                Access::Denied(reason) => return self.deny(reason),
                // Of several, those not synced are left out; an undeclared one is a mistake.
                Access::Refused(_) if !single && reader.is_some() => None,
                Access::Refused(reason) => return self.refuse(number, reason),
            };
            let Some(reader) = reader else { continue };
            let query = matcher(select(reader)?);
            self.subscribe(number, &query);
            if let Some(view) = view {
                self.find(inner, number, view, &query, &mut found);
            }
        }
        Ok(found)
    }

    /// Why a list over every resource would leave something out without a word:
    /// a resource that is granted in some namespaces, and not in all that the
    /// list is about. What is granted nowhere is none of the module's resources.
    fn denied_in_part(&self, inner: &Inner, namespace: Option<&str>) -> Option<String> {
        let module = &self.view.module;
        if module.grants.is_open() {
            return None;
        }
        let read =
            inner.objects.tables.keys().filter(|number| module.reader(&inner.objects, **number).is_some());
        read.filter(|number| module.is_granted(&self.view.store.registry, **number))
            // A namespace holds nothing that is outside of namespaces.
            .filter(|number| namespace.is_none() || self.view.store.registry.namespaced(**number))
            .find_map(|number| self.denied(*number, namespace))
    }

    fn list_all(&self, inner: &Inner, query: &Matcher<'_>, found: &mut Vec<ObjectRef>) {
        let module = &self.view.module;
        let readable = |(number, _): (&u32, &_)| match self.access(inner, *number, query.namespace) {
            Access::Readable(reader) => Some((*number, reader.view)),
            _ => None,
        };
        match query.index {
            Some((Selected::Uid | Selected::Owner | Selected::Controller, _)) => {
                let ids = inner.objects.candidates(None, None, query.index);
                if ids.is_empty() && self.past.slots.is_empty() {
                    return;
                }
                // Only the resources that were found have to be looked at.
                let now = ids.iter().filter_map(|id| inner.objects.get(*id));
                let mut numbers: Vec<u32> =
                    now.chain(self.past.slots.values().flatten()).map(|record| record.resource).collect();
                numbers.sort_unstable();
                numbers.dedup();
                let views: Vec<(u32, usize)> = numbers
                    .into_iter()
                    .filter(|number| module.reader(&inner.objects, *number).is_some())
                    .filter_map(|number| readable((&number, &())))
                    .collect();
                self.find_everywhere(inner, &views, query, found);
            }
            _ => {
                for number in inner.objects.tables.keys() {
                    if let Some((number, view)) = readable((number, &())) {
                        self.find(inner, number, view, query, found);
                    }
                }
            }
        }
    }
}

fn object_ref(record: &Record, view: usize) -> ObjectRef {
    ObjectRef {
        resource: record.resource,
        id: record.id,
        version: record.versions.get(view).copied().unwrap_or_default(),
    }
}

/// A query, with its words looked up.
#[derive(Clone, Copy)]
struct Matcher<'a> {
    namespace: Option<&'a str>,
    index: Option<(Selected, &'a str)>,
    selector: Option<&'a Arc<Selector>>,
}

/// Tests labels; objects in a row often share one set of them.
struct LabelTest<'a> {
    selector: Option<&'a Arc<Selector>>,
    last: Option<(*const super::object::Labels, bool)>,
}

impl<'a> LabelTest<'a> {
    fn new(selector: Option<&'a Arc<Selector>>) -> Self {
        Self { selector, last: None }
    }

    fn admits(&mut self, record: &Record) -> bool {
        let Some(selector) = self.selector else { return true };
        let labels = Arc::as_ptr(&record.meta.labels);
        if let Some((_, admitted)) = self.last.filter(|(last, _)| *last == labels) {
            return admitted;
        }
        let admitted = selector.matches(|key| record.meta.labels.get(key));
        self.last = Some((labels, admitted));
        admitted
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
