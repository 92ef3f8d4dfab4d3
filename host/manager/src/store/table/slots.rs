//! Dense slots, and lists of their ids in the order that queries answer in.

use std::{collections::HashMap, sync::Arc};

use smallvec::SmallVec;

use crate::store::{intern::Hasher, object::Record};

/// Ids, ordered as their records are.
pub(in crate::store) type Ids = SmallVec<[u32; 4]>;
#[derive(Default)]
pub(super) struct Slot {
    pub(super) record: Option<Arc<Record>>,
    /// Highest version that any view of any occupant had.
    pub(super) high: u32,
}

#[derive(Default)]
pub(super) struct Slots {
    pub(super) slots: Vec<Slot>,
    pub(super) free: Vec<u32>,
}

impl Slots {
    pub(super) fn get(&self, id: u32) -> Option<&Arc<Record>> {
        self.slots.get(id as usize)?.record.as_ref()
    }

    pub(super) fn order(&self, id: u32) -> (u32, &str, &str) {
        self.get(id).map_or((0, "", ""), |record| record.order())
    }

    pub(super) fn insert(&self, ids: &mut Ids, id: u32) {
        let order = self.order(id);
        // A first list comes in order, so most go to the end.
        let at = if ids.last().is_none_or(|last| self.order(*last) < order) {
            ids.len()
        } else {
            ids.partition_point(|other| self.order(*other) < order)
        };
        if ids.get(at) != Some(&id) {
            ids.insert(at, id);
        }
    }

    pub(super) fn remove(&self, ids: &mut Ids, id: u32) {
        let order = self.order(id);
        let mut at = ids.partition_point(|other| self.order(*other) < order);
        if ids.get(at) != Some(&id) {
            at = ids.iter().position(|other| *other == id).unwrap_or(ids.len());
        }
        if at < ids.len() {
            ids.remove(at);
            if ids.capacity() > 64 && ids.len() * 4 < ids.capacity() {
                ids.shrink_to_fit();
            }
        }
    }

    /// The part of ordered ids that lies in a resource and a namespace.
    pub(super) fn part<'a>(
        &self,
        ids: &'a [u32],
        resource: Option<u32>,
        namespace: Option<&str>,
    ) -> &'a [u32] {
        let Some(resource) = resource else { return ids };
        let place = |id: &u32| {
            let (resource, namespace, _) = self.order(*id);
            (resource, namespace)
        };
        match (namespace, ids.first(), ids.last()) {
            // Both ends inside: all of it is.
            (None, Some(a), Some(z)) if place(a).0 == resource && place(z).0 == resource => ids,
            (Some(ns), Some(a), Some(z)) if place(a) == (resource, ns) && place(z) == (resource, ns) => ids,
            (None, ..) => {
                let start = ids.partition_point(|id| place(id).0 < resource);
                let end = ids.partition_point(|id| place(id).0 <= resource);
                &ids[start..end]
            }
            (Some(namespace), ..) => {
                let start = ids.partition_point(|id| place(id) < (resource, namespace));
                let end = ids.partition_point(|id| place(id) <= (resource, namespace));
                &ids[start..end]
            }
        }
    }
}

/// Puts an id under a value.
pub(super) fn add(map: &mut HashMap<Box<str>, Ids, Hasher>, slots: &Slots, value: &str, id: u32) {
    match map.get_mut(value) {
        Some(ids) => slots.insert(ids, id),
        None => {
            map.insert(value.into(), SmallVec::from_slice(&[id]));
        }
    }
}

/// Takes an id from under a value.
pub(super) fn drop_from(map: &mut HashMap<Box<str>, Ids, Hasher>, slots: &Slots, value: &str, id: u32) {
    if let Some(ids) = map.get_mut(value) {
        slots.remove(ids, id);
        if ids.is_empty() {
            map.remove(value);
        }
    }
}
