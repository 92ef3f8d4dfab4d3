//! All objects: dense slots, one table a resource, and the indexes over them.
//!
//! Lists of ids are kept in the order that queries answer in (resource,
//! namespace, name), so a query is a look-up and a slice, and the objects of one
//! resource or one namespace are a contiguous part of it. `uid`, `owner` and
//! `controller` span all resources: whoever asks for every dependent of an owner
//! gets it with one look-up. Invariant: a slot's versions go on counting over
//! its occupants, so (id, version) never names two contents.

mod index;
mod slots;

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher, Hash},
    sync::Arc,
};

use hashbrown::HashTable;
use smallvec::SmallVec;

use super::{
    intern::Hasher,
    object::{Content, Meta, Record, Versions},
    path::FieldTree,
    prune::PruneSpec,
    sources::Reader,
};

pub(super) use index::{DeclaredIndex, JOINT, Selected, Values};
pub(super) use slots::Ids;
use slots::{Slot, Slots, add, drop_from};

/// One set of declared fields of a resource, shared by the modules that declare
/// the same.
pub(super) struct View {
    pub(super) tree: Arc<FieldTree>,
    pub(super) users: usize,
    /// Since which generation the objects hold all of it.
    pub(super) complete: Option<u64>,
    /// Whether the objects hold no more than it.
    pub(super) exact: bool,
}

/// The objects of one resource.
pub(super) struct Table {
    pub(super) resource: u32,
    /// `"apiVersion":…,"kind":…,`
    pub(super) header: Arc<str>,
    pub(super) all: Ids,
    names: HashTable<u32>,
    orphans: Ids,
    pub(super) indexes: Vec<Option<DeclaredIndex>>,
    pub(super) views: Vec<Option<View>>,
    pub(super) readers: Vec<Reader>,
    pub(super) spec: Arc<PruneSpec>,
    /// What the stored objects may hold; nothing before the first list.
    pub(super) held: Option<FieldTree>,
    pub(super) observed: Option<u64>,
    /// Since which generation the first list is in.
    pub(super) loaded: Option<u64>,
    pub(super) bytes: usize,
}

/// Everything that is cached.
#[derive(Default)]
pub(super) struct Objects {
    slots: Slots,
    hasher: Hasher,
    uids: HashTable<u32>,
    owners: HashMap<Box<str>, Ids, Hasher>,
    controllers: HashMap<Box<str>, Ids, Hasher>,
    pub(super) tables: BTreeMap<u32, Table>,
}

impl Table {
    pub(super) fn new(resource: u32, spec: Arc<PruneSpec>) -> Self {
        Self {
            resource,
            header: "".into(),
            all: Ids::new(),
            names: HashTable::new(),
            orphans: Ids::new(),
            indexes: Vec::new(),
            views: Vec::new(),
            readers: Vec::new(),
            spec,
            held: None,
            observed: None,
            loaded: None,
            bytes: 0,
        }
    }

    /// Values of a record in the declared indexes, by position.
    pub(super) fn declared_values(&self, record: &Record) -> Vec<Values> {
        if self.indexes.iter().all(Option::is_none) {
            return Vec::new();
        }
        let json = record.render(&self.header, None);
        let values = |index: &Option<DeclaredIndex>| {
            index.as_ref().map_or_else(Values::new, |index| index.values(&json))
        };
        self.indexes.iter().map(values).collect()
    }

    /// Works out anew which views the stored objects match exactly.
    pub(super) fn refresh_exact(&mut self) {
        let held = &self.held;
        for view in self.views.iter_mut().flatten() {
            view.exact = held.as_ref().is_none_or(|held| view.tree.covers(held));
        }
    }
}

impl Objects {
    /// The record in a slot.
    pub(super) fn get(&self, id: u32) -> Option<&Arc<Record>> {
        self.slots.get(id)
    }

    fn hash(&self, value: impl Hash) -> u64 {
        self.hasher.hash_one(value)
    }

    /// The record of a name.
    pub(super) fn by_name(&self, resource: u32, namespace: &str, name: &str) -> Option<&Arc<Record>> {
        let table = self.tables.get(&resource)?;
        let id = table
            .names
            .find(self.hash((namespace, name)), |id| self.slots.order(*id) == (resource, namespace, name))?;
        self.slots.get(*id)
    }

    /// Puts an object into a slot of its own.
    pub(super) fn insert(&mut self, resource: u32, meta: Meta, content: Content) -> Option<Arc<Record>> {
        let id = match self.slots.free.pop() {
            Some(id) => id,
            None => {
                self.slots.slots.push(Slot::default());
                u32::try_from(self.slots.slots.len() - 1).ok()?
            }
        };
        let views = self.tables.get(&resource)?.views.len();
        let slot = &mut self.slots.slots[id as usize];
        slot.high = slot.high.wrapping_add(1);
        let versions: Versions = std::iter::repeat_n(slot.high, views).collect();
        let record = Arc::new(Record { resource, id, meta, content, versions });
        slot.record = Some(record.clone());
        self.enter(&record);
        Some(record)
    }

    fn enter(&mut self, record: &Arc<Record>) {
        let (id, meta) = (record.id, &record.meta);
        let name_hash = self.hash((&*meta.namespace, &*meta.name));
        let uid_hash = self.hash(&*meta.uid);
        let Some(table) = self.tables.get_mut(&record.resource) else { return };
        let (slots, hasher) = (&self.slots, &self.hasher);
        table.names.insert_unique(name_hash, id, |other| {
            let (_, namespace, name) = slots.order(*other);
            hasher.hash_one((namespace, name))
        });
        table.bytes += record.size();
        slots.insert(&mut table.all, id);
        if meta.controller().is_none() {
            slots.insert(&mut table.orphans, id);
        }
        let values = table.declared_values(record);
        for (index, values) in table.indexes.iter_mut().zip(&values) {
            if let Some(index) = index {
                values.iter().for_each(|value| add(&mut index.map, slots, value, id));
            }
        }
        if !meta.uid.is_empty() {
            self.uids.insert_unique(uid_hash, id, |other| {
                hasher.hash_one(slots.get(*other).map_or("", |record| &*record.meta.uid))
            });
        }
        for owner in meta.owners.iter() {
            add(&mut self.owners, slots, &owner.uid, id);
        }
        if let Some(controller) = meta.controller() {
            add(&mut self.controllers, slots, controller, id);
        }
    }

    fn leave(&mut self, record: &Record) {
        let (id, meta) = (record.id, &record.meta);
        let name_hash = self.hash((&*meta.namespace, &*meta.name));
        let uid_hash = self.hash(&*meta.uid);
        let Some(table) = self.tables.get_mut(&record.resource) else { return };
        let slots = &self.slots;
        if let Ok(entry) = table.names.find_entry(name_hash, |other| *other == id) {
            entry.remove();
        }
        table.bytes = table.bytes.saturating_sub(record.size());
        slots.remove(&mut table.all, id);
        if meta.controller().is_none() {
            slots.remove(&mut table.orphans, id);
        }
        let values = table.declared_values(record);
        for (index, values) in table.indexes.iter_mut().zip(&values) {
            if let Some(index) = index {
                values.iter().for_each(|value| drop_from(&mut index.map, slots, value, id));
            }
        }
        if let Ok(entry) = self.uids.find_entry(uid_hash, |other| *other == id) {
            entry.remove();
        }
        for owner in meta.owners.iter() {
            drop_from(&mut self.owners, slots, &owner.uid, id);
        }
        if let Some(controller) = meta.controller() {
            drop_from(&mut self.controllers, slots, controller, id);
        }
    }

    /// Takes an object out; its slot is free for another.
    pub(super) fn remove(&mut self, id: u32) -> Option<Arc<Record>> {
        let record = self.slots.get(id)?.clone();
        self.leave(&record);
        self.slots.slots[id as usize].record = None;
        self.slots.free.push(id);
        Some(record)
    }

    /// Puts a new state of the same object (name and uid) in the place of the
    /// old one. Answers both records if a view changed.
    pub(super) fn update(
        &mut self,
        id: u32,
        meta: Meta,
        content: Content,
    ) -> Option<(Arc<Record>, Arc<Record>)> {
        let old = self.slots.get(id)?.clone();
        let table = self.tables.get(&old.resource)?;
        let changed: SmallVec<[bool; 8]> = table
            .views
            .iter()
            .map(|view| {
                view.as_ref().is_some_and(|view| !old.same_view(&meta, &content, &view.tree, view.exact))
            })
            .collect();
        let slot = &mut self.slots.slots[id as usize];
        if !changed.contains(&true) {
            // Nobody sees a difference: only what no view shows moves on.
            drop(old);
            if let Some(record) = &mut slot.record {
                let record = Arc::make_mut(record);
                record.meta.resource_version = meta.resource_version;
                record.content = content;
            }
            return None;
        }
        slot.high = slot.high.wrapping_add(1);
        let high = slot.high;
        let versions = old
            .versions
            .iter()
            .zip(changed)
            .map(|(version, changed)| if changed { high } else { *version })
            .collect();
        // What repeats itself is not kept twice.
        let meta = Meta { name: old.meta.name.clone(), uid: old.meta.uid.clone(), ..meta };
        let record = Arc::new(Record { resource: old.resource, id, meta, content, versions });
        self.reindex(&old, &record);
        self.slots.slots[id as usize].record = Some(record.clone());
        Some((old, record))
    }

    /// Moves an object to its new values. Its place in each order stays.
    fn reindex(&mut self, old: &Record, new: &Record) {
        let id = old.id;
        let Some(table) = self.tables.get_mut(&old.resource) else { return };
        let slots = &self.slots;
        table.bytes = (table.bytes + new.size()).saturating_sub(old.size());
        let (left, entered) = (table.declared_values(old), table.declared_values(new));
        for (at, index) in table.indexes.iter_mut().enumerate() {
            let (Some(index), Some(left), Some(entered)) = (index, left.get(at), entered.get(at)) else {
                continue;
            };
            if left != entered {
                left.iter().for_each(|value| drop_from(&mut index.map, slots, value, id));
                entered.iter().for_each(|value| add(&mut index.map, slots, value, id));
            }
        }
        if old.meta.owners == new.meta.owners {
            return;
        }
        old.meta.owners.iter().for_each(|owner| drop_from(&mut self.owners, slots, &owner.uid, id));
        new.meta.owners.iter().for_each(|owner| add(&mut self.owners, slots, &owner.uid, id));
        match old.meta.controller() {
            Some(controller) => drop_from(&mut self.controllers, slots, controller, id),
            None => slots.remove(&mut table.orphans, id),
        }
        match new.meta.controller() {
            Some(controller) => add(&mut self.controllers, slots, controller, id),
            None => slots.insert(&mut table.orphans, id),
        }
    }

    /// Adds a view to a table, or finds the one of these fields.
    pub(super) fn add_view(&mut self, resource: u32, tree: FieldTree, generation: u64) -> Option<usize> {
        let table = self.tables.get_mut(&resource)?;
        let same = |view: &Option<View>| view.as_ref().is_some_and(|view| *view.tree == tree);
        if let Some(at) = table.views.iter().position(same) {
            if let Some(view) = &mut table.views[at] {
                view.users += 1;
            }
            return Some(at);
        }
        let complete = table.loaded.filter(|_| table.held.as_ref().is_some_and(|held| held.covers(&tree)));
        let complete = complete.map(|_| generation);
        let exact = table.held.as_ref().is_none_or(|held| tree.covers(held));
        let view = View { tree: Arc::new(tree), users: 1, complete, exact };
        let at = table.views.iter().position(Option::is_none).unwrap_or(table.views.len());
        if at == table.views.len() {
            table.views.push(None);
        }
        table.views[at] = Some(view);
        for id in table.all.iter() {
            let Some(slot) = self.slots.slots.get_mut(*id as usize) else { continue };
            slot.high = slot.high.wrapping_add(1);
            let Some(record) = &mut slot.record else { continue };
            let versions = &mut Arc::make_mut(record).versions;
            versions.resize((at + 1).max(versions.len()), slot.high);
            versions[at] = slot.high;
        }
        Some(at)
    }

    /// Lets go of a view and of indexes; what nobody uses any more goes.
    pub(super) fn release(&mut self, resource: u32, view: usize, indexes: impl IntoIterator<Item = usize>) {
        let Some(table) = self.tables.get_mut(&resource) else { return };
        if let Some(slot) = table.views.get_mut(view) {
            if let Some(view) = slot {
                view.users -= 1;
            }
            slot.take_if(|view| view.users == 0);
        }
        for at in indexes {
            let Some(slot) = table.indexes.get_mut(at) else { continue };
            if let Some(index) = slot {
                index.users -= 1;
            }
            slot.take_if(|index| index.users == 0);
        }
    }

    /// Drops a table and frees its slots.
    pub(super) fn drop_table(&mut self, resource: u32) {
        let ids = self.tables.get(&resource).map_or_else(Ids::new, |table| table.all.clone());
        for id in ids.into_iter().rev() {
            self.remove(id);
        }
        self.tables.remove(&resource);
    }
}
