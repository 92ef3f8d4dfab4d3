//! Key sources: which keys an object, or its going, makes and unmakes.
//!
//! In: a change. Out: keys that appeared, changed with their object, or vanished.

use std::sync::Arc;

use super::{
    module::Module,
    object::Record,
    table::{JOINT, Objects, Selected, Values},
};
use crate::key::{Cause, Key};

/// How a module reads one table.
pub(super) struct Reader {
    pub(super) module: Arc<Module>,
    /// Position of its view in the table.
    pub(super) view: usize,
    /// Its declared indexes: name, and position in the table.
    pub(super) indexes: Vec<(Box<str>, usize)>,
    /// Number of paths of each of these indexes.
    pub(super) widths: Vec<usize>,
    /// The key sources that this table feeds.
    pub(super) sources: Vec<Feed>,
    /// Whether the cluster may lack the resource.
    pub(super) optional: bool,
}

/// A key source, as far as one table feeds it.
pub(super) struct Feed {
    /// Position of the source in the manifest.
    pub(super) source: u32,
    pub(super) kind: FeedKind,
}

/// What makes a key.
pub(super) enum FeedKind {
    Objects,
    Indexed(Vec<Selected>),
    Values(Selected),
}

impl Reader {
    /// The index of a name.
    pub(super) fn index(&self, name: &str) -> Option<(Selected, usize)> {
        if let Some(built_in) = Selected::built_in(name) {
            return Some((built_in, 1));
        }
        let at = self.indexes.iter().position(|(own, _)| **own == *name)?;
        Some((Selected::Declared(self.indexes[at].1), self.widths[at]))
    }
}

impl Feed {
    /// Whether an object makes a key of its own.
    pub(super) fn yields(&self, record: &Record, objects: &Objects) -> bool {
        match &self.kind {
            FeedKind::Objects => true,
            FeedKind::Indexed(indexes) => {
                indexes.iter().any(|index| !objects.values(record, *index).is_empty())
            }
            FeedKind::Values(_) => false,
        }
    }

    pub(super) fn object_key(&self, record: &Record) -> Key {
        Key {
            source: self.source,
            resource: record.resource,
            namespace: record.meta.namespace.clone(),
            name: record.meta.name.clone(),
        }
    }

    pub(super) fn value_key(&self, value: &str) -> Key {
        Key { source: self.source, resource: 0, namespace: "".into(), name: value.replace(JOINT, "/").into() }
    }
}

/// Keys that a change of a table wakes for their sources. `first` while the
/// resource is listed for the first time.
pub(super) fn wakes(
    reader: &Reader,
    objects: &Objects,
    old: Option<&Record>,
    new: Option<&Record>,
    first: bool,
    mut wake: impl FnMut(Key, Cause),
) {
    let here = |resource_version| if first { Cause::Bulk } else { Cause::Primary { resource_version } };
    for feed in &reader.sources {
        match feed.kind {
            FeedKind::Objects | FeedKind::Indexed(_) => {
                let before = old.filter(|record| feed.yields(record, objects));
                let after = new.filter(|record| feed.yields(record, objects));
                match (before, after) {
                    (_, Some(record)) => {
                        let version = record.meta.resource_version.number().unwrap_or_default();
                        wake(feed.object_key(record), here(version));
                    }
                    (Some(record), None) => wake(feed.object_key(record), Cause::PrimaryGone),
                    (None, None) => {}
                }
            }
            FeedKind::Values(index) => {
                let values = |record: Option<&Record>| {
                    record.map_or_else(Values::new, |record| objects.values(record, index))
                };
                let (before, after) = (values(old), values(new));
                let resource = new.or(old).map(|record| record.resource);
                // The change is made already, so one holder means: it came with
                // this object; none: it went with it.
                let holders = |value: &str| objects.candidates(resource, None, Some((index, value))).len();
                for value in after.iter().filter(|value| !before.contains(value)) {
                    if holders(value) == 1 {
                        wake(feed.value_key(value), here(0));
                    }
                }
                for value in before.iter().filter(|value| !after.contains(value)) {
                    if holders(value) == 0 {
                        wake(feed.value_key(value), Cause::PrimaryGone);
                    }
                }
            }
        }
    }
}

/// Every key that a table makes for a module, as things stand.
pub(super) fn all_keys(reader: &Reader, objects: &Objects, resource: u32, mut each: impl FnMut(Key)) {
    let Some(table) = objects.tables.get(&resource) else { return };
    for feed in &reader.sources {
        let mut seen = std::collections::BTreeSet::new();
        for record in table.all.iter().filter_map(|id| objects.get(*id)) {
            if let FeedKind::Values(index) = feed.kind {
                seen.extend(objects.values(record, index));
            } else if feed.yields(record, objects) {
                each(feed.object_key(record));
            }
        }
        seen.iter().for_each(|value| each(feed.value_key(value)));
    }
}

/// Whether a table still makes a key.
pub(super) fn makes(reader: &Reader, objects: &Objects, resource: u32, key: &Key) -> bool {
    reader.sources.iter().filter(|feed| feed.source == key.source).any(|feed| match feed.kind {
        FeedKind::Values(index) => {
            key.resource == 0 && {
                let width = match index {
                    Selected::Declared(at) => {
                        reader.indexes.iter().position(|(_, own)| *own == at).map_or(1, |n| reader.widths[n])
                    }
                    _ => 1,
                };
                splits(&key.name, width)
                    .iter()
                    .any(|value| !objects.candidates(Some(resource), None, Some((index, value))).is_empty())
            }
        }
        _ => {
            key.resource == resource
                && objects
                    .by_name(resource, &key.namespace, &key.name)
                    .is_some_and(|record| feed.yields(record, objects))
        }
    })
}

/// The composite values of `width` parts that a key's name may stand for.
fn splits(name: &str, width: usize) -> Vec<String> {
    if width <= 1 {
        return vec![name.to_owned()];
    }
    name.match_indices('/')
        .flat_map(|(at, _)| {
            splits(&name[at + 1..], width - 1)
                .into_iter()
                .map(move |rest| format!("{}{JOINT}{rest}", &name[..at]))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_composite_name_is_split_in_every_way() {
        let show = |name, width| {
            splits(name, width).iter().map(|value| value.replace(JOINT, "|")).collect::<Vec<_>>()
        };
        assert_eq!(show("a", 1), ["a"]);
        assert_eq!(show("a/b", 1), ["a/b"]);
        assert_eq!(show("a/b", 2), ["a|b"]);
        assert_eq!(show("a/b/c", 2), ["a|b/c", "a/b|c"]);
        assert_eq!(show("a/b/c", 3), ["a|b|c"]);
        assert!(show("a", 2).is_empty());
    }
}
