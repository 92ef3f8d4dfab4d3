//! Indexes: those that every resource has, and those that reads declare.

use std::{borrow::Cow, collections::HashMap};

use smallvec::SmallVec;

use super::{
    Objects,
    slots::{Ids, add},
};
use crate::store::{intern::Hasher, object::Record, path::Path, prune};

/// Values of a record in one index.
pub(in crate::store) type Values = SmallVec<[String; 1]>;

/// Parts of a composite value are joined by what no name contains.
pub(in crate::store) const JOINT: &str = "\u{1f}";

/// Which index is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::store) enum Selected {
    Uid,
    Owner,
    Controller,
    Orphan,
    Namespace,
    Deleting,
    /// Position among the table's declared indexes.
    Declared(usize),
}

impl Selected {
    /// A built-in index.
    pub(in crate::store) fn built_in(name: &str) -> Option<Self> {
        Some(match name {
            "uid" => Self::Uid,
            "owner" => Self::Owner,
            "controller" => Self::Controller,
            "orphan" => Self::Orphan,
            "namespace" => Self::Namespace,
            "deleting" => Self::Deleting,
            _ => return None,
        })
    }
}

/// An index that a read declares.
pub(in crate::store) struct DeclaredIndex {
    pub(in crate::store) paths: Vec<Vec<Path>>,
    pub(in crate::store) users: usize,
    pub(super) map: HashMap<Box<str>, Ids, Hasher>,
}

impl DeclaredIndex {
    pub(super) fn new(paths: Vec<Vec<Path>>) -> Self {
        Self { paths, users: 0, map: HashMap::default() }
    }

    /// One value for each combination of what the paths yield.
    pub(super) fn values(&self, json: &str) -> Values {
        let mut all: Vec<String> = Vec::new();
        for (n, alternatives) in self.paths.iter().enumerate() {
            let mut found = Vec::new();
            alternatives.iter().for_each(|path| prune::values(json, path, &mut found));
            all = if n == 0 {
                found
            } else {
                all.iter()
                    .flat_map(|head| found.iter().map(move |tail| format!("{head}{JOINT}{tail}")))
                    .collect()
            };
        }
        all.sort();
        all.dedup();
        all.into_iter().collect()
    }
}

impl Objects {
    /// The records that a query may find, in order: by an index value, or all.
    /// Without a resource only `uid`, `owner` and `controller` are of use.
    pub(in crate::store) fn candidates(
        &self,
        resource: Option<u32>,
        namespace: Option<&str>,
        index: Option<(Selected, &str)>,
    ) -> Cow<'_, [u32]> {
        let table = resource.and_then(|resource| self.tables.get(&resource));
        let ids: &[u32] = match index {
            None => table.map_or(&[], |table| &table.all),
            Some((Selected::Namespace, value)) => {
                if namespace.is_some_and(|namespace| namespace != value) {
                    return Cow::Borrowed(&[]);
                }
                return self.candidates(resource, Some(value), None);
            }
            Some((Selected::Orphan, "true")) => table.map_or(&[], |table| &table.orphans),
            Some((Selected::Orphan, _)) => &[],
            Some((Selected::Deleting, value)) => {
                // Few are being deleted at a time, and fewer ask: no list of them is kept.
                let all: &[u32] = table.map_or(&[], |table| &table.all);
                let deleting = |id: &u32| self.slots.get(*id).is_some_and(|record| record.meta.deleting);
                let found: Vec<u32> =
                    if value == "true" { all.iter().copied().filter(deleting).collect() } else { Vec::new() };
                return Cow::Owned(self.slots.part(&found, resource, namespace).to_vec());
            }
            Some((Selected::Owner, uid)) => self.owners.get(uid).map_or(&[], |ids| ids),
            Some((Selected::Controller, uid)) => self.controllers.get(uid).map_or(&[], |ids| ids),
            Some((Selected::Declared(at), value)) => {
                table.and_then(|table| table.indexes.get(at)?.as_ref()?.map.get(value)).map_or(&[], |ids| ids)
            }
            Some((Selected::Uid, uid)) => {
                let mut found: Vec<u32> = Vec::new();
                for id in self.uids.iter_hash(self.hash(uid)) {
                    if self.slots.get(*id).is_some_and(|record| *record.meta.uid == *uid) {
                        found.push(*id);
                    }
                }
                found.sort_by(|a, b| self.slots.order(*a).cmp(&self.slots.order(*b)));
                return Cow::Owned(self.slots.part(&found, resource, namespace).to_vec());
            }
        };
        Cow::Borrowed(self.slots.part(ids, resource, namespace))
    }

    /// Whether a record has a value in an index.
    pub(in crate::store) fn has_value(&self, record: &Record, index: Selected, value: &str) -> bool {
        match index {
            Selected::Declared(_) => self.values(record, index).iter().any(|own| own == value),
            Selected::Uid => *record.meta.uid == *value && !value.is_empty(),
            Selected::Owner => record.meta.owners.iter().any(|owner| *owner.uid == *value),
            Selected::Controller => record.meta.controller() == Some(value),
            Selected::Orphan => value == "true" && record.meta.controller().is_none(),
            Selected::Namespace => *record.meta.namespace == *value,
            Selected::Deleting => value == "true" && record.meta.deleting,
        }
    }

    /// Values of a record in an index.
    pub(in crate::store) fn values(&self, record: &Record, index: Selected) -> Values {
        let meta = &record.meta;
        match index {
            Selected::Uid if meta.uid.is_empty() => Values::new(),
            Selected::Uid => Values::from_iter([meta.uid.to_string()]),
            Selected::Owner => meta.owners.iter().map(|owner| owner.uid.to_string()).collect(),
            Selected::Controller => meta.controller().map(str::to_owned).into_iter().collect(),
            Selected::Orphan => meta.controller().is_none().then(|| "true".to_owned()).into_iter().collect(),
            Selected::Deleting => meta.deleting.then(|| "true".to_owned()).into_iter().collect(),
            Selected::Namespace if meta.namespace.is_empty() => Values::new(),
            Selected::Namespace => Values::from_iter([meta.namespace.to_string()]),
            Selected::Declared(at) => {
                let table = self.tables.get(&record.resource);
                let index = table.and_then(|table| Some((table, table.indexes.get(at)?.as_ref()?)));
                index.map_or_else(Values::new, |(table, index)| {
                    index.values(&record.render(&table.header, None))
                })
            }
        }
    }

    /// Adds an index to a table, or finds the one of these paths.
    pub(in crate::store) fn add_index(&mut self, resource: u32, paths: Vec<Vec<Path>>) -> Option<usize> {
        let slots = &self.slots;
        let table = self.tables.get_mut(&resource)?;
        let same = |index: &Option<DeclaredIndex>| index.as_ref().is_some_and(|index| index.paths == paths);
        if let Some(at) = table.indexes.iter().position(same) {
            if let Some(index) = &mut table.indexes[at] {
                index.users += 1;
            }
            return Some(at);
        }
        let mut index = DeclaredIndex { users: 1, ..DeclaredIndex::new(paths) };
        for id in table.all.iter() {
            let Some(record) = slots.get(*id) else { continue };
            for value in index.values(&record.render(&table.header, None)) {
                add(&mut index.map, slots, &value, *id);
            }
        }
        let at = table.indexes.iter().position(Option::is_none).unwrap_or(table.indexes.len());
        if at == table.indexes.len() {
            table.indexes.push(None);
        }
        table.indexes[at] = Some(index);
        Some(at)
    }
}
