//! A manifest's reads and key sources, understood.
//!
//! In: a manifest. Out: field trees, indexes and feeds by resource number, or
//! what is wrong with it. Invariant: each index that a source names is declared.

use std::sync::Arc;

use super::{
    path::{self, FieldTree, Path, PathError},
    table::Selected,
};
use crate::{
    contract::{GroupResource, KeyKind, Manifest, Read},
    registry::{Registry, is_wildcard},
};

/// A manifest that cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// A path is malformed.
    #[error("the read of {resource}: {error}")]
    Path {
        /// The resource of the read.
        resource: String,
        /// What is wrong.
        error: PathError,
    },
    /// An index has no paths, or its name is taken.
    #[error("the read of {resource}: index `{index}` {reason}")]
    Index {
        /// The resource of the read.
        resource: String,
        /// The index.
        index: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// A source names what no read declares.
    #[error("key source `{source_name}` needs {what}; declare it among the reads")]
    Source {
        /// The source.
        source_name: String,
        /// What is missing.
        what: String,
    },
}

/// A declared index: its name and, for each of its paths, the alternatives that
/// braces make of it.
pub(super) type IndexPlan = (Box<str>, Vec<Vec<Path>>);

/// One read, understood.
pub(super) struct ReadPlan {
    pub(super) number: u32,
    name: String,
    pub(super) optional: bool,
    pub(super) tree: FieldTree,
    pub(super) indexes: Vec<IndexPlan>,
    /// Source, names of its indexes, whether it goes by indexes at all.
    pub(super) feeds: Vec<(u32, Vec<String>, bool)>,
}

/// A read of every resource.
pub(super) struct Wildcard {
    pub(super) tree: FieldTree,
    pub(super) feeds: Vec<(u32, Vec<Selected>, bool)>,
}

fn describe(resource: &GroupResource) -> String {
    if resource.group.is_empty() {
        resource.resource.clone()
    } else {
        format!("{}.{}", resource.resource, resource.group)
    }
}

fn paths(resource: &GroupResource, text: &str) -> Result<Vec<Path>, StoreError> {
    path::parse(text).map_err(|error| StoreError::Path { resource: describe(resource), error })
}

pub(super) fn plan_read(read: &Read, number: u32) -> Result<ReadPlan, StoreError> {
    let mut fields: Vec<Path> = Vec::new();
    for field in &read.fields {
        fields.extend(paths(&read.resource, field)?);
    }
    let mut indexes: Vec<IndexPlan> = Vec::new();
    for index in &read.indexes {
        let refuse = |reason| {
            Err(StoreError::Index { resource: describe(&read.resource), index: index.name.clone(), reason })
        };
        if Selected::built_in(&index.name).is_some() {
            return refuse("has the name of a built-in one; choose another");
        }
        if indexes.iter().any(|(name, _)| **name == *index.name) {
            return refuse("is declared twice");
        }
        if index.paths.is_empty() {
            return refuse("has no path; give at least one");
        }
        let alternatives =
            index.paths.iter().map(|text| paths(&read.resource, text)).collect::<Result<Vec<_>, _>>()?;
        // What is indexed is read: a change of it changes what lists find.
        fields.extend(alternatives.iter().flatten().cloned());
        indexes.push((index.name.as_str().into(), alternatives));
    }
    let tree = if read.whole { FieldTree::everything() } else { FieldTree::new(fields) };
    Ok(ReadPlan {
        number,
        name: describe(&read.resource),
        optional: read.optional,
        tree,
        indexes,
        feeds: Vec::new(),
    })
}

/// The manifest, understood.
pub(super) struct Plan {
    pub(super) reads: Vec<ReadPlan>,
    pub(super) wildcard: Option<Wildcard>,
    pub(super) singles: Vec<(u32, Arc<str>)>,
    /// Sources of index values: source, number of the resource, index.
    pub(super) values: Vec<(u32, u32, String)>,
}

impl Plan {
    pub(super) fn new(manifest: &Manifest, registry: &Registry) -> Result<Self, StoreError> {
        let mut plan = Self { reads: Vec::new(), wildcard: None, singles: Vec::new(), values: Vec::new() };
        for read in &manifest.reads {
            if is_wildcard(&read.resource) {
                if !read.indexes.is_empty() {
                    let index = read.indexes[0].name.clone();
                    let reason = "cannot be declared for every resource; use a built-in one";
                    return Err(StoreError::Index { resource: "every resource".into(), index, reason });
                }
                let tree = plan_read(read, 0)?.tree;
                let tree = if tree.is_whole() {
                    FieldTree::new([vec![path::Part::Field("metadata".into())]])
                } else {
                    tree
                };
                let wildcard =
                    plan.wildcard.get_or_insert(Wildcard { tree: FieldTree::new([]), feeds: Vec::new() });
                wildcard.tree.join(&tree.metadata_part());
                continue;
            }
            let read = plan_read(read, registry.declare(&read.resource))?;
            match plan.reads.iter_mut().find(|other| other.number == read.number) {
                None => plan.reads.push(read),
                Some(other) => {
                    let taken = read
                        .indexes
                        .iter()
                        .find(|(name, _)| other.indexes.iter().any(|(own, _)| own == name));
                    if let Some((name, _)) = taken {
                        let reason = "is declared twice";
                        return Err(StoreError::Index {
                            resource: read.name,
                            index: name.to_string(),
                            reason,
                        });
                    }
                    other.tree.join(&read.tree);
                    other.optional &= read.optional;
                    other.indexes.extend(read.indexes);
                }
            }
        }
        for (source, declared) in (0..).zip(&manifest.sources) {
            plan.add_source(source, &declared.name, &declared.keys, registry)?;
        }
        Ok(plan)
    }

    fn add_source(
        &mut self,
        source: u32,
        name: &str,
        keys: &KeyKind,
        registry: &Registry,
    ) -> Result<(), StoreError> {
        match keys {
            KeyKind::Single(key) => self.singles.push((source, key.as_str().into())),
            KeyKind::Objects(resources) => {
                for resource in resources {
                    self.feed_objects(source, name, resource, None, registry)?;
                }
            }
            KeyKind::IndexedObjects(indexed) => {
                for resource in &indexed.resources {
                    self.feed_objects(source, name, resource, Some(&indexed.indexes), registry)?;
                }
            }
            KeyKind::IndexValues(values) => {
                let read = self.read_of(name, &values.resource, registry)?;
                let number = read.number;
                known_index(name, read, &values.index)?;
                self.values.push((source, number, values.index.clone()));
            }
        }
        Ok(())
    }

    fn read_of(
        &mut self,
        source: &str,
        resource: &GroupResource,
        registry: &Registry,
    ) -> Result<&mut ReadPlan, StoreError> {
        let missing = || StoreError::Source { source_name: source.to_owned(), what: describe(resource) };
        if is_wildcard(resource) {
            return Err(missing());
        }
        let number = registry.declare(resource);
        self.reads.iter_mut().find(|read| read.number == number).ok_or_else(missing)
    }

    fn feed_objects(
        &mut self,
        source: u32,
        name: &str,
        resource: &GroupResource,
        indexes: Option<&Vec<String>>,
        registry: &Registry,
    ) -> Result<(), StoreError> {
        if !is_wildcard(resource) {
            let read = self.read_of(name, resource, registry)?;
            for index in indexes.into_iter().flatten() {
                known_index(name, read, index)?;
            }
            read.feeds.push((source, indexes.cloned().unwrap_or_default(), indexes.is_some()));
            return Ok(());
        }
        let missing = |what: String| StoreError::Source { source_name: name.to_owned(), what };
        let names = indexes.cloned().unwrap_or_default();
        let mut selected = Vec::new();
        for index in &names {
            selected.push(
                Selected::built_in(index)
                    .ok_or_else(|| missing(format!("index `{index}` of every resource")))?,
            );
        }
        let wildcard = self.wildcard.as_mut().ok_or_else(|| missing("every resource".into()))?;
        wildcard.feeds.push((source, selected, indexes.is_some()));
        // Resources that are also read by name feed it as well.
        for read in &mut self.reads {
            read.feeds.push((source, names.clone(), indexes.is_some()));
        }
        Ok(())
    }
}

fn known_index(source: &str, read: &ReadPlan, index: &str) -> Result<(), StoreError> {
    if Selected::built_in(index).is_some() || read.indexes.iter().any(|(name, _)| **name == *index) {
        return Ok(());
    }
    Err(StoreError::Source {
        source_name: source.to_owned(),
        what: format!("index `{index}` of {}", read.name),
    })
}
