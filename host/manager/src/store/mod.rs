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

mod explain;
mod fields;
mod history;
mod intake;
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
    collections::{BTreeSet, btree_map::Entry},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::RwLock;
use tokio::sync::watch;

use crate::{contract::SyncState, registry::Registry};

pub use explain::{ReadNow, ReadsNow};
pub use fields::{fields_read, project_json};
pub use module::ModuleView;
pub use object::{Labels, Meta, Object, Owner, ResourceVersion};
pub use path::{FieldTree, Part, Path, PathError, parse as parse_path};
pub use plan::StoreError;
pub use prune::{PruneError, PruneSpec};
pub use selector::{Selector, SelectorError};
pub use snapshot::{Reads, Snapshot};

use history::History;
use intake::Wakes;
use intern::Interner;
use module::Module;
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
    /// Generations of specs so far.
    specs: AtomicU64,
}

#[derive(Default)]
struct Inner {
    objects: Objects,
    modules: Vec<Arc<Module>>,
    /// Moves with each change that a view shows.
    generation: u64,
    last_module: u64,
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
            specs: AtomicU64::new(0),
        })
    }

    /// The registry whose numbers this store goes by.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Numbers of the resources that are to be cached, absent ones included.
    pub fn wanted(&self) -> Vec<u32> {
        let inner = self.inner.read();
        let mut wanted = BTreeSet::new();
        for module in &inner.modules {
            wanted.extend(module.numbers().filter(|number| module.is_granted(&self.registry, *number)));
        }
        if inner.modules.iter().any(|module| module.wildcard.is_some()) {
            let all = self.registry.all();
            let readers: Vec<_> = inner.modules.iter().filter(|module| module.wildcard.is_some()).collect();
            let granted =
                |number: u32| readers.iter().any(|module| module.is_granted(&self.registry, number));
            wanted.extend(
                all.iter()
                    .map(|info| info.number)
                    .filter(|number| self.registry.in_wildcard(*number) && granted(*number)),
            );
        }
        wanted.into_iter().collect()
    }

    /// Takes note that modules are granted other things than before. Whoever
    /// changed that wakes their keys.
    pub fn grants_changed(&self) {
        let inner = self.inner.read();
        for module in &inner.modules {
            let ready = module.missing(&inner, &self.registry).next().is_none();
            module.ready.store(ready, Ordering::Release);
        }
        drop(inner);
        self.wanted.send_modify(|tick| *tick += 1);
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
        let blank = || Table::new(resource, self.spec(FieldTree::new([]), self.next_spec()));
        if let Entry::Vacant(place) = inner.objects.tables.entry(resource) {
            place.insert(blank());
            self.widen(inner, resource);
        }
        let table = inner.objects.tables.entry(resource).or_insert_with(blank);
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

    fn spec(&self, tree: FieldTree, generation: u64) -> Arc<PruneSpec> {
        Arc::new(PruneSpec::new(tree, generation, self.interner.clone()))
    }

    /// A generation that no spec of any resource had before: an informer that did not notice that a resource was let go
    /// of and wanted again must see that its table is another.
    fn next_spec(&self) -> u64 {
        self.specs.fetch_add(1, Ordering::Relaxed)
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
            let generation = if more { self.next_spec() } else { table.spec.generation() };
            table.spec = self.spec(union, generation);
            self.wanted.send_modify(|tick| *tick += 1);
        }
    }

    /// The highest resourceVersion that a resource's informer has passed.
    pub fn observed(&self, resource: u32) -> Option<u64> {
        self.inner.read().objects.tables.get(&resource)?.observed
    }

    /// How many objects of a resource are cached.
    pub fn count(&self, resource: u32) -> usize {
        self.inner.read().objects.tables.get(&resource).map_or(0, |table| table.all.len())
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
