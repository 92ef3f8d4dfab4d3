//! Objects as they are kept: a parsed metadata record beside compact JSON.
//!
//! Labels and owner references of pods of one owner are equal, so whole sets are
//! shared. The JSON leaves out what the record has; [`Record::render`] puts an
//! object together again. Invariant: the resourceVersion is in no view.

use std::{fmt, sync::Arc};

use serde::Deserialize;

use super::{
    path::FieldTree,
    prune::{self, PruneSpec},
    words::Dictionary,
};

/// Labels, in the order of the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Labels(pub(super) Box<[(Arc<str>, Arc<str>)]>);

impl Labels {
    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| **name == *key).map(|(_, value)| &**value)
    }

    /// All labels.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }
}

/// An owner reference.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// API version of the owner.
    #[serde(default)]
    pub api_version: Box<str>,
    /// Kind of the owner.
    #[serde(default)]
    pub kind: Box<str>,
    /// Name of the owner.
    #[serde(default)]
    pub name: Box<str>,
    /// Uid of the owner.
    #[serde(default)]
    pub uid: Box<str>,
    /// Whether the owner is the one that controls the object.
    #[serde(default)]
    pub controller: Option<bool>,
    /// Whether the owner must wait for the object when it is deleted in the
    /// foreground.
    #[serde(default)]
    pub block_owner_deletion: Option<bool>,
}

/// Owner references, in the object's order.
pub(super) type Owners = Box<[Owner]>;

/// A resourceVersion. Those of one resource can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceVersion {
    /// What every known server hands out.
    Number(u64),
    /// Anything else: it can be sent back, and not be compared.
    Text(Box<str>),
}

impl ResourceVersion {
    /// Reads one.
    pub fn new(text: &str) -> Self {
        match text.parse::<u64>() {
            Ok(number) if !text.starts_with(['+', '0']) => Self::Number(number),
            _ => Self::Text(text.into()),
        }
    }

    /// As a number, if it is one.
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => text.parse().ok(),
        }
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// The parsed part of an object's metadata.
#[derive(Clone, Debug)]
pub struct Meta {
    /// Name.
    pub name: Arc<str>,
    /// Namespace; empty if there is none.
    pub namespace: Arc<str>,
    /// Uid.
    pub uid: Arc<str>,
    /// resourceVersion, the one thing here that is in no view.
    pub resource_version: ResourceVersion,
    /// Generation; 0 if there is none.
    pub generation: i64,
    /// Labels.
    pub labels: Arc<Labels>,
    /// Owner references.
    pub owners: Arc<Owners>,
    /// Finalizers.
    pub finalizers: Arc<[Arc<str>]>,
    /// Whether it has a deletionTimestamp.
    pub deleting: bool,
}

impl Meta {
    /// Uid of the owner that controls the object.
    pub fn controller(&self) -> Option<&str> {
        self.owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| &*owner.uid)
    }

    /// Whether nothing differs that a view could show. Shared sets are equal at
    /// a glance.
    fn same(&self, other: &Self) -> bool {
        self.uid == other.uid
            && self.name == other.name
            && self.namespace == other.namespace
            && (Arc::ptr_eq(&self.labels, &other.labels) || self.labels == other.labels)
            && (Arc::ptr_eq(&self.owners, &other.owners) || self.owners == other.owners)
            && (Arc::ptr_eq(&self.finalizers, &other.finalizers) || self.finalizers == other.finalizers)
    }
}

/// The kept JSON, encoded: `{...}` with the rest of the metadata, then `{...}`
/// with the rest of the object.
#[derive(Clone, Debug)]
pub(super) struct Content {
    text: Box<str>,
    split: u32,
    dictionary: Dictionary,
}

impl Content {
    /// Takes both parts as compact JSON. None if that is not UTF-8.
    pub(super) fn new(metadata: &[u8], rest: &[u8], dictionary: &Dictionary) -> Option<Self> {
        let mut text = dictionary.encode(metadata);
        let split = u32::try_from(text.len()).ok()?;
        text.extend_from_slice(&dictionary.encode(rest));
        let text = String::from_utf8(text).ok()?.into_boxed_str();
        Some(Self { text, split, dictionary: dictionary.clone() })
    }

    /// Writes the rest of the metadata.
    pub(super) fn metadata(&self, out: &mut Vec<u8>) {
        self.dictionary.decode(&self.text[..self.split as usize], out);
    }

    /// Writes the rest of the object.
    pub(super) fn rest(&self, out: &mut Vec<u8>) {
        self.dictionary.decode(&self.text[self.split as usize..], out);
    }

    fn same(&self, other: &Self) -> bool {
        if self.dictionary.is(&other.dictionary) {
            return self.split == other.split && self.text == other.text;
        }
        self.decoded() == other.decoded()
    }

    fn decoded(&self) -> (Vec<u8>, usize) {
        let mut out = Vec::new();
        self.metadata(&mut out);
        let split = out.len();
        self.rest(&mut out);
        (out, split)
    }
}

/// An object on its way into the store.
#[derive(Clone, Debug)]
pub struct Object {
    pub(super) meta: Meta,
    pub(super) content: Content,
    pub(super) spec: Arc<PruneSpec>,
}

impl Object {
    /// The parsed metadata.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Namespace; empty if there is none.
    pub fn namespace(&self) -> &str {
        &self.meta.namespace
    }

    /// Name.
    pub fn name(&self) -> &str {
        &self.meta.name
    }

    /// Uid.
    pub fn uid(&self) -> &str {
        &self.meta.uid
    }

    /// resourceVersion.
    pub fn resource_version(&self) -> String {
        self.meta.resource_version.to_string()
    }
}

/// The versions of the views of a record. Most resources have one or two.
pub(super) type Versions = smallvec::SmallVec<[u32; 4]>;

/// An object in the store.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) resource: u32,
    pub(super) id: u32,
    pub(super) meta: Meta,
    pub(super) content: Content,
    /// By position of the view in its table.
    pub(super) versions: Versions,
}

impl Record {
    /// What orders objects: resource, namespace, name.
    pub(super) fn order(&self) -> (u32, &str, &str) {
        (self.resource, &self.meta.namespace, &self.meta.name)
    }

    /// Whether a view of both would show the same; `exact` if the records hold
    /// no more than the view.
    pub(super) fn same_view(&self, meta: &Meta, content: &Content, tree: &FieldTree, exact: bool) -> bool {
        if !self.meta.same(meta) {
            return false;
        }
        if self.content.same(content) {
            return true;
        }
        if exact {
            return false;
        }
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        prune::project(&self.content, tree, &mut ours);
        prune::project(content, tree, &mut theirs);
        ours == theirs
    }

    /// The object as JSON: all of it, or what `tree` keeps.
    pub(super) fn render(&self, header: &str, tree: Option<&FieldTree>) -> String {
        let mut out = Vec::with_capacity(header.len() + self.content.text.len() + 256);
        out.push(b'{');
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(b"\"metadata\":{\"name\":");
        text(&mut out, &self.meta.name);
        if !self.meta.namespace.is_empty() {
            out.extend_from_slice(b",\"namespace\":");
            text(&mut out, &self.meta.namespace);
        }
        out.extend_from_slice(b",\"uid\":");
        text(&mut out, &self.meta.uid);
        if !self.meta.labels.0.is_empty() {
            out.extend_from_slice(b",\"labels\":");
            list(&mut out, b"{}", self.meta.labels.iter(), |out, (key, value)| {
                text(out, key);
                out.push(b':');
                text(out, value);
            });
        }
        if !self.meta.owners.is_empty() {
            out.extend_from_slice(b",\"ownerReferences\":");
            list(&mut out, b"[]", self.meta.owners.iter(), owner);
        }
        if !self.meta.finalizers.is_empty() {
            out.extend_from_slice(b",\"finalizers\":");
            list(&mut out, b"[]", self.meta.finalizers.iter(), |out, finalizer| text(out, finalizer));
        }
        let (kept, split) = match tree {
            None => self.content.decoded(),
            Some(tree) => {
                let mut projected = Vec::new();
                let split = prune::project(&self.content, tree, &mut projected);
                (projected, split)
            }
        };
        members(&mut out, &kept[..split]);
        out.push(b'}');
        members(&mut out, &kept[split..]);
        out.push(b'}');
        // Only whole strings and whole JSON went in.
        String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// Bytes it takes, without what it shares.
    pub(super) fn size(&self) -> usize {
        let spilled = if self.versions.spilled() { self.versions.capacity() * 4 } else { 0 };
        let counts = 2 * size_of::<usize>();
        size_of::<Self>()
            + 3 * counts
            + self.meta.name.len()
            + self.meta.uid.len()
            + self.content.text.len()
            + spilled
    }
}

/// The members of a JSON object, after those before.
fn members(out: &mut Vec<u8>, object: &[u8]) {
    if object.len() > 2 {
        out.push(b',');
        out.extend_from_slice(&object[1..object.len() - 1]);
    }
}

fn list<T>(
    out: &mut Vec<u8>,
    brackets: &[u8; 2],
    items: impl Iterator<Item = T>,
    mut one: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(brackets[0]);
    for (n, item) in items.enumerate() {
        if n > 0 {
            out.push(b',');
        }
        one(out, item);
    }
    out.push(brackets[1]);
}

fn owner(out: &mut Vec<u8>, owner: &Owner) {
    let texts = [
        ("apiVersion", &owner.api_version),
        ("kind", &owner.kind),
        ("name", &owner.name),
        ("uid", &owner.uid),
    ];
    let flags = [("controller", owner.controller), ("blockOwnerDeletion", owner.block_owner_deletion)];
    out.push(b'{');
    for (n, (key, value)) in texts.into_iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        text(out, key);
        out.push(b':');
        text(out, value);
    }
    for (key, value) in flags {
        if let Some(value) = value {
            out.push(b',');
            text(out, key);
            out.extend_from_slice(if value { b":true" } else { b":false" });
        }
    }
    out.push(b'}');
}

/// A JSON string.
pub(super) fn text(out: &mut Vec<u8>, text: &str) {
    if text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        let quoted = serde_json::Value::from(text).to_string();
        out.extend_from_slice(quoted.as_bytes());
    }
}
