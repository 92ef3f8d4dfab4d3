//! A snapshot that answers from a recording.
//!
//! In: reads of a module, perhaps another version than was recorded. Out: what
//! was answered then, or a refusal and a note of what the recording lacks.

use std::{any::Any, collections::BTreeSet, sync::Arc};

use serde::Deserialize;

use super::fields::Fields;
use crate::{
    contract::{ObjectRef, Query, ResourceInfo, ResourceSet, display_name},
    engine::SnapshotHost,
    recording::read::{Recorded, Round},
};

/// One round, replayed.
pub(super) struct Replayed {
    recorded: Arc<Recorded>,
    at: usize,
    fields: Arc<Fields>,
    pub(super) lacks: Lacks,
}

/// What a recording lacks for one reconcile.
#[derive(Default)]
pub(super) struct Lacks {
    /// What was asked for and is not there.
    pub(super) missing: BTreeSet<String>,
    /// What was left out as sensitive.
    pub(super) left_out: BTreeSet<String>,
}

impl Lacks {
    pub(super) fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.left_out.is_empty()
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.missing.extend(other.missing);
        self.left_out.extend(other.left_out);
    }

    pub(super) fn into_texts(self) -> Vec<String> {
        let left_out = self.left_out.into_iter().map(|what| format!("{what} (left out as sensitive)"));
        self.missing.into_iter().chain(left_out).collect()
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    metadata: Name,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Name {
    namespace: String,
    name: String,
}

impl Replayed {
    pub(super) fn new(recorded: Arc<Recorded>, at: usize, fields: Arc<Fields>) -> Self {
        Self { recorded, at, fields, lacks: Lacks::default() }
    }

    /// The round's own reads first, then those of the other rounds: they are
    /// moments apart.
    fn rounds(&self) -> impl Iterator<Item = &Round> {
        let own = self.recorded.rounds.get(self.at.min(self.recorded.rounds.len().saturating_sub(1)));
        own.into_iter().chain(&self.recorded.rounds)
    }

    fn show(&self, number: u32) -> String {
        let mut all = self.rounds().flat_map(|round| round.resources.iter());
        let info = all.find(|info| info.number == number);
        info.map_or_else(
            || format!("resource number {number}"),
            |info| {
                if info.group.is_empty() {
                    info.resource.clone()
                } else {
                    format!("{}.{}", info.resource, info.group)
                }
            },
        )
    }

    fn lacking<T>(&mut self, what: String) -> Result<T, String> {
        let reason = format!("not recorded: {what}");
        self.lacks.missing.insert(what);
        Err(reason)
    }

    /// An object of this name among all that was seen.
    fn seen(&self, resource: u32, namespace: &str, name: &str) -> Option<ObjectRef> {
        let mut all = self.recorded.contents.iter().filter(|((number, _, _), _)| *number == resource);
        all.find_map(|((resource, id, version), content)| {
            let named: Named = serde_json::from_str(&content.json).ok()?;
            let same = named.metadata.namespace == namespace && named.metadata.name == name;
            same.then_some(ObjectRef { resource: *resource, id: *id, version: *version })
        })
    }

    fn declared(&self, number: u32) -> Result<(), String> {
        if self.fields.declares(number) {
            return Ok(());
        }
        Err(format!("{} is not among the reads of the module's manifest", self.show(number)))
    }

    fn describe(&self, query: &Query) -> String {
        let of = match &query.resources {
            ResourceSet::One(number) => self.show(*number),
            ResourceSet::Several(numbers) => {
                numbers.iter().map(|number| self.show(*number)).collect::<Vec<_>>().join(", ")
            }
            ResourceSet::All => "every resource".to_owned(),
        };
        let mut text = format!("list of {of}");
        if let Some(namespace) = &query.namespace {
            text += &format!(" in namespace {namespace:?}");
        }
        if let Some(index) = &query.index {
            text += &format!(" with index {} = {}", index.index, index.value.join(", "));
        }
        if let Some(labels) = &query.labels {
            text += &format!(" with labels {labels:?}");
        }
        text
    }
}

impl SnapshotHost for Replayed {
    fn resources(&mut self) -> Vec<ResourceInfo> {
        let list = self.rounds().next().map(|round| round.resources.to_vec()).unwrap_or_default();
        if list.is_empty() {
            self.lacks.missing.insert("the list of resources".to_owned());
        }
        list
    }

    fn resources_version(&mut self) -> u32 {
        self.rounds().next().map_or(0, |round| round.resources_version)
    }

    fn get(&mut self, resource: u32, namespace: &str, name: &str) -> Result<Option<ObjectRef>, String> {
        let wanted = (resource, namespace.to_owned(), name.to_owned());
        let found = self.rounds().find_map(|round| round.reads.gets.get(&wanted).cloned());
        if let Some(Err(reason)) = found {
            return Err(reason);
        }
        self.declared(resource)?;
        if let Some(found) = found {
            return found;
        }
        if let Some(found) = self.seen(resource, namespace, name) {
            return Ok(Some(found));
        }
        let slash = if namespace.is_empty() { "" } else { "/" };
        self.lacking(format!("{} {namespace}{slash}{name}", self.show(resource)))
    }

    fn list(&mut self, query: &Query) -> Result<Vec<ObjectRef>, String> {
        let found = self.rounds().find_map(|round| {
            round.reads.lists.iter().find(|(recorded, _)| recorded == query).map(|(_, found)| found.clone())
        });
        if let Some(Err(reason)) = found {
            return Err(reason);
        }
        match &query.resources {
            ResourceSet::One(number) => self.declared(*number)?,
            ResourceSet::Several(numbers) => numbers.iter().try_for_each(|number| self.declared(*number))?,
            ResourceSet::All => {}
        }
        match found {
            Some(found) => found.map(|found| found.to_vec()),
            None => self.lacking(self.describe(query)),
        }
    }

    fn read(&mut self, refs: &[ObjectRef]) -> Result<Vec<String>, String> {
        let mut contents = Vec::with_capacity(refs.len());
        for object in refs {
            let content = self.recorded.contents.get(&(object.resource, object.id, object.version)).cloned();
            let Some(content) = content else {
                let refused = self.rounds().find_map(|round| round.reads.refused.clone());
                if let Some(reason) = refused {
                    return Err(reason);
                }
                return self.lacking(format!("content of an object of {}", self.show(object.resource)));
            };
            if !content.redacted.is_empty() {
                let named: Named = serde_json::from_str(&content.json).unwrap_or_default();
                let Name { namespace, name } = named.metadata;
                self.lacks.left_out.insert(format!(
                    "{} of {} {namespace}/{name}",
                    content.redacted.join(", "),
                    self.show(object.resource)
                ));
            }
            match self.fields.view(object.resource, &content.json) {
                Ok(json) => contents.push(json),
                Err(missing) => {
                    return self.lacking(format!("fields {missing} of {}", self.show(object.resource)));
                }
            }
        }
        Ok(contents)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}

/// A resource for people.
pub(super) fn show_info(info: &ResourceInfo) -> String {
    display_name(&crate::contract::GroupResource {
        group: info.group.clone(),
        version: info.version.clone(),
        resource: info.resource.clone(),
    })
}
