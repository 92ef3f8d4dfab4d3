//! Slices about to be written, and their writes.

use std::fmt::Debug;

use serde_json::{Map, Value, json};

use super::address::Family;
use super::port::Port;
use super::slice::{Annotations, Endpoint, EndpointSlice, WholePort};
use crate::error::Result;
use crate::merge;
use crate::merge::to_value;
use crate::meta::{OwnerReference, StringMap};
use crate::names;
use crate::plan::Action;
use crate::resource::ENDPOINT_SLICES;
use crate::view::Object;

/// What a slice is to look like.
#[derive(Clone, Debug)]
pub struct Draft<A> {
    /// The slice as it is; None for a new one.
    pub seen: Option<Object<EndpointSlice<A>>>,
    /// The family of its addresses.
    pub family: Family,
    /// Ports.
    pub ports: Vec<Port>,
    /// Endpoints.
    pub endpoints: Vec<Endpoint>,
    /// Labels.
    pub labels: StringMap,
    /// Annotations, of those that are kept in step.
    pub annotations: StringMap,
    /// What a change makes of the prefix of its name.
    pub prefix: Prefix,
}

/// The `generateName` of a slice once it was changed. It means nothing any more
/// then, but those who compare slices see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefix {
    /// As it is.
    #[default]
    Kept,
    /// None.
    Dropped,
    /// As in a slice just made.
    Given,
}

/// Who slices belong to.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// Namespace.
    pub namespace: &'a str,
    /// Name, which begins those of the slices.
    pub name: &'a str,
    /// The reference.
    pub reference: &'a OwnerReference,
}

impl Owner<'_> {
    fn is_of<A>(self, slice: &EndpointSlice<A>) -> bool {
        slice.metadata.owner_references.iter().any(|reference| reference.uid == self.reference.uid)
    }
}

impl<A: Annotations> Draft<A> {
    /// A slice as it is, to be changed.
    pub fn of(slice: &Object<EndpointSlice<A>>) -> Self {
        Self {
            family: slice.family().unwrap_or_default(),
            ports: slice.ports(),
            endpoints: slice.endpoints.clone(),
            labels: slice.metadata.labels.clone(),
            annotations: slice.metadata.annotations.to_map(),
            seen: Some(slice.clone()),
            prefix: Prefix::Kept,
        }
    }

    /// A new slice without endpoints.
    pub fn new(family: Family, ports: Vec<Port>, labels: StringMap) -> Self {
        Self {
            seen: None,
            family,
            ports,
            endpoints: Vec::new(),
            labels,
            annotations: StringMap::new(),
            prefix: Prefix::Kept,
        }
    }

    /// The write: a creation, or a patch of what differs; None if nothing does.
    pub fn write(self, owner: Owner<'_>) -> Result<Option<Action>> {
        let Some(seen) = self.seen.clone() else { return self.creation(owner).map(Some) };
        let changes = self.changes(&seen, owner)?;
        if changes.is_empty() {
            return Ok(None);
        }
        let mut body = Map::new();
        let mut metadata = Map::new();
        match self.prefix {
            Prefix::Kept => None,
            Prefix::Dropped => metadata.insert("generateName".to_owned(), Value::Null),
            Prefix::Given => metadata.insert("generateName".to_owned(), json!(prefix(owner.name))),
        };
        for (field, change) in changes {
            let of_metadata = ["labels", "annotations", "ownerReferences"].contains(&field.as_str());
            if of_metadata { &mut metadata } else { &mut body }.insert(field, change);
        }
        if !metadata.is_empty() {
            body.insert("metadata".to_owned(), Value::Object(metadata));
        }
        let meta = &seen.metadata;
        let action = Action::merge(ENDPOINT_SLICES, &meta.namespace, &meta.name, &Value::Object(body));
        Ok(Some(action.as_seen(&seen).tag("update")))
    }

    /// Whether anything but annotations is to be written.
    pub fn is_news(&self, owner: Owner<'_>) -> bool {
        self.seen.as_ref().is_none_or(|seen| {
            seen.metadata.labels != self.labels
                || !owner.is_of(seen)
                || seen.endpoints != self.endpoints
                || self.has_other_ports(seen)
        })
    }

    fn has_other_ports(&self, seen: &EndpointSlice<A>) -> bool {
        !seen.ports.iter().map(|WholePort(port)| port).eq(&self.ports)
    }

    fn creation(self, owner: Owner<'_>) -> Result<Action> {
        let mut metadata = json!({
            "generateName": prefix(owner.name),
            "namespace": owner.namespace,
            "labels": self.labels,
            "ownerReferences": [owner.reference.to_json()],
        });
        if !self.annotations.is_empty() {
            metadata["annotations"] = json!(self.annotations);
        }
        let slice = json!({
            "apiVersion": ENDPOINT_SLICES.api_version(),
            "kind": ENDPOINT_SLICES.kind,
            "metadata": metadata,
            "addressType": self.family.name(),
            "endpoints": to_value(&self.endpoints)?,
            "ports": to_value(&self.ports)?,
        });
        Ok(Action::create(ENDPOINT_SLICES, owner.namespace, "", &slice)?.tag("create"))
    }

    /// The fields that differ from the slice as it is.
    fn changes(&self, seen: &EndpointSlice<A>, owner: Owner<'_>) -> Result<Map<String, Value>> {
        let mut changes = Map::new();
        let mut put = |field: &str, change: Option<Value>| {
            if let Some(change) = change {
                changes.insert(field.to_owned(), change);
            }
        };
        put("labels", merge::diff_of(&seen.metadata.labels, &self.labels)?);
        put("annotations", merge::diff_of(&seen.metadata.annotations.to_map(), &self.annotations)?);
        if !owner.is_of(seen) {
            put("ownerReferences", Some(json!([owner.reference.to_json()])));
        }
        if seen.endpoints != self.endpoints {
            put("endpoints", Some(to_value(&self.endpoints)?));
        }
        if self.has_other_ports(seen) {
            put("ports", Some(to_value(&self.ports)?));
        }
        Ok(changes)
    }
}

/// Turns creations into changes of slices that would else be deleted, if they
/// are fit for it: whoever watches sees fewer events, and endpoints do not vanish
/// in between. What is left to delete stays in `doomed`.
pub fn recycle<A: Annotations>(
    drafts: &mut [Draft<A>],
    doomed: &mut Vec<Object<EndpointSlice<A>>>,
    is_fit: impl Fn(&EndpointSlice<A>) -> bool,
) {
    for draft in drafts.iter_mut().filter(|draft| draft.seen.is_none()) {
        // The family of a slice cannot be changed.
        let fits = |slice: &Object<_>| EndpointSlice::family(slice) == Some(draft.family) && is_fit(slice);
        if let Some(at) = doomed.iter().position(fits) {
            draft.seen = Some(doomed.remove(at));
        }
    }
}

/// The deletion of a slice.
pub fn deletion<A>(slice: &Object<EndpointSlice<A>>) -> Action {
    let meta = &slice.metadata;
    Action::delete(ENDPOINT_SLICES, &meta.namespace, &meta.name).uid(&meta.uid).tag("delete")
}

/// The `generateName` of an owner's slices: its name and a dash, unless that
/// would be no name any more.
fn prefix(owner: &str) -> String {
    names::pod_prefix(owner)
}
