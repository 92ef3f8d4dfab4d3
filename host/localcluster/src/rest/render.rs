//! From answers to bytes: JSON or YAML; whole, as metadata or as a table.
//!
//! Invariant: a stored object in its stored version is copied, not parsed.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::answer::{List, Object};
use super::negotiate::{Accept, Shape};
use super::strategy::Kind;
use super::watch::Item;
use crate::status::Status;
use crate::storage::{Change, Stored};
use crate::table;

/// What a table shows of each object beside its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// Metadata.
    #[default]
    Metadata,
    /// Everything.
    Object,
}

impl IncludeObject {
    /// From the query parameter.
    pub fn parse(text: Option<&str>) -> Result<Self, Status> {
        match text {
            None | Some("Metadata") => Ok(Self::Metadata),
            Some("None") => Ok(Self::None),
            Some("Object") => Ok(Self::Object),
            Some(other) => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: \"{other}\": must be \
                 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// Everything that shapes an answer.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Encoding and shape.
    pub accept: Accept,
    /// For tables.
    pub include: IncludeObject,
    /// Now, for ages in tables.
    pub now: Timestamp,
}

impl Form {
    fn meta_version(&self) -> &'static str {
        if self.accept.beta { "meta.k8s.io/v1beta1" } else { "meta.k8s.io/v1" }
    }

    /// One object.
    pub fn object(&self, kind: &Kind, object: &Object) -> Result<Bytes, Status> {
        match self.accept.shape {
            Shape::Whole => Ok(self.encode_object(kind, object)),
            Shape::Partial => Ok(self.encode(&self.partial(&table::shown(kind, &object.internal(kind))))),
            Shape::Table => {
                let inner = object.internal(kind);
                let version = json!({"resourceVersion": super::meta_text(&inner, "resourceVersion")});
                Ok(self.encode(&self.table(kind, &[inner], version, true)))
            }
            Shape::PartialList => Err(Status::not_acceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                go_type(kind, &kind.kind)
            ))),
        }
    }

    /// A list.
    pub fn list(&self, kind: &Kind, list: &List) -> Result<Bytes, Status> {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".into(), list.rv.to_string().into());
        if !list.continue_token.is_empty() {
            metadata.insert("continue".into(), list.continue_token.clone().into());
        } else if kind.custom && self.accept.shape == Shape::Whole {
            metadata.insert("continue".into(), "".into());
        }
        if let Some(remaining) = list.remaining {
            metadata.insert("remainingItemCount".into(), remaining.into());
        }
        let metadata = Value::Object(metadata);
        match self.accept.shape {
            Shape::Whole => Ok(self.whole_list(kind, list, &metadata)),
            Shape::PartialList => {
                let items: Vec<_> =
                    list.items.iter().map(|o| self.partial(&table::shown(kind, &o.internal(kind)))).collect();
                // A list that nothing was added to is a nil slice.
                let items = if items.is_empty() { Value::Null } else { items.into() };
                Ok(self.encode(&json!({
                    "kind": "PartialObjectMetadataList", "apiVersion": self.meta_version(),
                    "metadata": metadata, "items": items,
                })))
            }
            Shape::Table => {
                let objects: Vec<_> = list.items.iter().map(|o| o.internal(kind)).collect();
                Ok(self.encode(&self.table(kind, &objects, metadata, true)))
            }
            Shape::Partial => Err(Status::not_acceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list ({})",
                go_type(kind, &kind.list_kind)
            ))),
        }
    }

    fn whole_list(&self, kind: &Kind, list: &List, metadata: &Value) -> Bytes {
        let size: usize = list.items.iter().map(|item| item.hint() + 2).sum();
        let mut out = Vec::with_capacity(size + 256);
        out.extend_from_slice(
            format!(
                r#"{{"kind":"{}","apiVersion":"{}","metadata":{metadata},"items":["#,
                kind.list_kind,
                kind.api_version()
            )
            .as_bytes(),
        );
        // Items of built-in kinds come without kind and version.
        let head = if kind.custom { kind.type_meta() } else { String::new() };
        for (at, item) in list.items.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            out.push(b'{');
            out.extend_from_slice(head.as_bytes());
            push_body(&mut out, kind, item);
        }
        out.extend_from_slice(b"]}\n");
        if self.accept.yaml { to_yaml(&out) } else { out.into() }
    }

    fn encode_object(&self, kind: &Kind, object: &Object) -> Bytes {
        let json = object_json(kind, object);
        if self.accept.yaml { to_yaml(&json) } else { json }
    }

    /// Any complete object.
    pub fn encode(&self, value: &Value) -> Bytes {
        let json = value.to_string();
        if self.accept.yaml { to_yaml(json.as_bytes()) } else { json.into() }
    }

    /// A Scale as its metadata or as a table, a review as its metadata, if that is wanted; a Status stays as it is.
    pub fn reshaped(&self, kind: &Kind, value: Value) -> Value {
        if value["kind"] != "Scale" {
            let whole = self.accept.shape != Shape::Partial || value["kind"] == "Status";
            return if whole { value } else { self.partial(&value) };
        }
        match self.accept.shape {
            Shape::Partial => self.partial(&value),
            Shape::Table => {
                // Custom resources print theirs like any other of their objects.
                let (format, age) = if kind.custom { ("name", "date") } else { ("", "string") };
                let columns = [
                    ("Name", "string", format),
                    ("Desired", "integer", ""),
                    ("Available", "integer", ""),
                    ("Age", age, ""),
                ];
                let columns: Vec<Value> = columns
                    .iter()
                    .map(|(name, ty, format)| {
                        json!({"name": name, "type": ty, "format": format, "description": "", "priority": 0})
                    })
                    .collect();
                let meta = &value["metadata"];
                let now = super::clock::seconds(self.now);
                let cells = json!([
                    meta["name"],
                    value["spec"]["replicas"].as_i64().unwrap_or(0),
                    value["status"]["replicas"].as_i64().unwrap_or(0),
                    table::age(&value, &now),
                ]);
                json!({
                    "kind": "Table", "apiVersion": self.meta_version(),
                    "metadata": {"resourceVersion": meta["resourceVersion"]},
                    "columnDefinitions": columns,
                    "rows": [{"cells": cells, "object": self.partial(&value)}],
                })
            }
            Shape::Whole | Shape::PartialList => value,
        }
    }

    fn partial(&self, object: &Value) -> Value {
        json!({
            "kind": "PartialObjectMetadata", "apiVersion": self.meta_version(),
            "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
        })
    }

    fn table(&self, kind: &Kind, objects: &[Value], metadata: Value, columns: bool) -> Value {
        let rows: Vec<_> = objects
            .iter()
            .map(|object| {
                let mut row = Map::new();
                row.insert(
                    "cells".into(),
                    table::cells(kind, object, &super::clock::seconds(self.now)).into(),
                );
                let shown = match self.include {
                    IncludeObject::None => Value::Null,
                    IncludeObject::Metadata => self.partial(&table::shown(kind, object)),
                    IncludeObject::Object => {
                        let mut whole = Object::versioned(kind, object);
                        super::add_type_meta(kind, &mut whole);
                        whole
                    }
                };
                row.insert("object".into(), shown);
                let conditions = table::conditions(kind, object);
                if !conditions.is_empty() {
                    row.insert("conditions".into(), conditions.into());
                }
                Value::Object(row)
            })
            .collect();
        let columns = if columns { table::columns(kind) } else { Value::Null };
        json!({
            "kind": "Table", "apiVersion": self.meta_version(), "metadata": metadata,
            "columnDefinitions": columns, "rows": rows,
        })
    }
}

impl Object {
    fn hint(&self) -> usize {
        match self {
            Self::Stored(stored) => stored.body().len(),
            Self::Value(_) => 1024,
        }
    }
}

/// Whether the stored bytes are this kind's own.
fn own_form(kind: &Kind, stored: &Stored) -> bool {
    kind.strategy.is_storage_version() && stored.has_type_meta(kind.type_meta().as_bytes())
}

/// `"metadata":{…},…}`, in the version of `kind`.
fn push_body(out: &mut Vec<u8>, kind: &Kind, object: &Object) {
    match object {
        Object::Stored(stored) if kind.strategy.is_storage_version() => {
            out.extend_from_slice(stored.body());
        }
        other => {
            let text = other.value(kind).to_string();
            out.extend_from_slice(&text.as_bytes()[1..]);
        }
    }
}

fn object_json(kind: &Kind, object: &Object) -> Bytes {
    if let Object::Stored(stored) = object {
        if own_form(kind, stored) {
            return stored.object();
        }
    }
    let mut out = Vec::with_capacity(object.hint() + 64);
    out.push(b'{');
    out.extend_from_slice(kind.type_meta().as_bytes());
    push_body(&mut out, kind, object);
    out.into()
}

/// YAML of a JSON text.
pub(crate) fn to_yaml(json: &[u8]) -> Bytes {
    let value: Value = serde_json::from_slice(json).unwrap_or(Value::Null);
    // Serializing JSON values to YAML has no error sources: keys are strings.
    serde_yaml::to_string(&value).unwrap_or_default().into()
}

/// The name of the Go type that the real server shows in two messages.
fn go_type(kind: &Kind, name: &str) -> String {
    if kind.custom {
        return if name == kind.list_kind {
            "*unstructured.UnstructuredList".into()
        } else {
            "*unstructured.Unstructured".into()
        };
    }
    let package = match kind.group.split('.').next() {
        None | Some("") => "core",
        Some(package) => package,
    };
    format!("*{package}.{name}")
}

/// Turns watch items into lines; knows whether the columns of a table were already sent.
pub struct Lines {
    form: Form,
    columns_sent: bool,
}

impl Lines {
    /// For one watch.
    pub fn new(form: Form) -> Self {
        Self { form, columns_sent: false }
    }

    /// One line.
    pub fn line(&mut self, kind: &Kind, item: &Item) -> Bytes {
        match item {
            Item::Event { change, object, rv } if self.form.accept.shape == Shape::Whole => {
                if rv.is_none() && own_form(kind, object) && object.is_event(*change) {
                    return object.line();
                }
                let mut out = event_head(*change);
                out.push(b'{');
                out.extend_from_slice(kind.type_meta().as_bytes());
                match rv {
                    Some(rv) if kind.strategy.is_storage_version() => object.push_body_at(*rv, &mut out),
                    Some(rv) => {
                        let mut value = Object::Stored(object.clone()).value(kind);
                        set_version(&mut value, *rv);
                        push_body(&mut out, kind, &Object::Value(value));
                    }
                    None => push_body(&mut out, kind, &Object::Stored(object.clone())),
                }
                out.extend_from_slice(b"}\n");
                out.into()
            }
            Item::Event { change, object, rv } => {
                let mut value = Object::Stored(object.clone()).internal(kind);
                if let Some(rv) = rv {
                    set_version(&mut value, *rv);
                }
                let shaped = if self.form.accept.shape == Shape::Table {
                    let version = super::meta_text(&value, "resourceVersion").to_owned();
                    let columns = !std::mem::replace(&mut self.columns_sent, true);
                    self.form.table(kind, &[value], json!({"resourceVersion": version}), columns)
                } else {
                    self.form.partial(&table::shown(kind, &value))
                };
                finish(event_head(*change), &shaped)
            }
            Item::Bookmark { rv, initial_end } => {
                let mut metadata = Map::new();
                metadata.insert("resourceVersion".into(), rv.to_string().into());
                if *initial_end {
                    let mark = json!({"k8s.io/initial-events-end": "true"});
                    metadata.insert("annotations".into(), mark);
                }
                let mut object = json!({ "metadata": metadata });
                let shaped = match self.form.accept.shape {
                    Shape::Whole => {
                        super::add_type_meta(kind, &mut object);
                        object
                    }
                    Shape::Table => {
                        let columns = !std::mem::replace(&mut self.columns_sent, true);
                        let version = json!({"resourceVersion": rv.to_string()});
                        self.form.table(kind, &[object], version, columns)
                    }
                    Shape::Partial | Shape::PartialList => self.form.partial(&object),
                };
                finish(br#"{"type":"BOOKMARK","object":"#.to_vec(), &shaped)
            }
            Item::Error(status) => finish(br#"{"type":"ERROR","object":"#.to_vec(), &status.to_value()),
        }
    }
}

fn event_head(change: Change) -> Vec<u8> {
    format!(r#"{{"type":"{}","object":"#, change.as_str()).into_bytes()
}

fn finish(mut head: Vec<u8>, object: &Value) -> Bytes {
    head.extend_from_slice(object.to_string().as_bytes());
    head.extend_from_slice(b"}\n");
    head.into()
}

pub(super) fn set_version(object: &mut Value, rv: u64) {
    if let Some(meta) = super::meta_mut(object) {
        meta.insert("resourceVersion".into(), rv.to_string().into());
    }
}
