//! OpenAPI v3: a document for each group version, with the schemas of its kinds.
//!
//! In: the kinds served, their types and descriptions. Out: documents that kubectl explains fields from, merges lists by,
//! and learns from that the server validates fields. Invariant: built-in documents are made once, on first use.

use std::collections::{BTreeMap, HashMap};
use std::sync::{LazyLock, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::{GIT_VERSION, hash};
use crate::rest::registry::Kinds;
use crate::rest::strategy::Kind;
use crate::schema::types::unpack;
use crate::schema::{ListKind, StructId, Type, schema};

/// Descriptions by structure and field; the empty field is the structure itself.
static DOCS: LazyLock<Value> = LazyLock::new(|| unpack(include_bytes!("../../data/docs.json.gz")));

/// A document and its tag.
type Tagged = (Bytes, String);

fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// `GET /openapi/v3`.
pub fn index(kinds: &Kinds) -> Value {
    let mut paths = Map::new();
    for kind in kinds.all() {
        let root = root(&kind.group, &kind.version);
        if !paths.contains_key(&root) {
            let (_, tag) = document(kinds, &kind.group, &kind.version);
            let url = format!("/openapi/v3/{root}?hash={tag}");
            paths.insert(root, json!({ "serverRelativeURL": url }));
        }
    }
    json!({ "paths": paths })
}

/// `GET /openapi/v3/apis/GROUP/VERSION` and its tag.
pub fn document(kinds: &Kinds, group: &str, version: &str) -> Tagged {
    static BUILT_IN: OnceLock<Mutex<HashMap<String, Tagged>>> = OnceLock::new();
    let served: Vec<&Kind> =
        kinds.all().iter().filter(|k| k.group == group && k.version == version).map(AsRef::as_ref).collect();
    if served.iter().any(|kind| kind.custom) {
        return build(&served);
    }
    let kept = BUILT_IN.get_or_init(Mutex::default);
    kept.lock().entry(root(group, version)).or_insert_with(|| build(&served)).clone()
}

fn build(served: &[&Kind]) -> Tagged {
    let mut schemas = Schemas::default();
    let mut paths = Map::new();
    for kind in served {
        let reference = schemas.of_kind(kind);
        paths.insert(path(kind), item(kind, &reference));
    }
    let document = json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": GIT_VERSION},
        "paths": paths,
        "components": {"schemas": schemas.finish(served)},
    });
    let text = document.to_string();
    let tag = hash(text.as_bytes());
    (Bytes::from(text), tag)
}

fn path(kind: &Kind) -> String {
    let scope = if kind.namespaced { "namespaces/{namespace}/" } else { "" };
    format!("/{}/{scope}{}/{{name}}", root(&kind.group, &kind.version), kind.plural)
}

fn item(kind: &Kind, reference: &Value) -> Value {
    let gvk = gvk(kind);
    let answer = json!({"200": {
        "description": "OK",
        "content": {"application/json": {"schema": reference}},
    }});
    json!({
        "get": {
            "x-kubernetes-action": "get", "x-kubernetes-group-version-kind": gvk,
            "responses": answer,
        },
        // That PATCH knows `fieldValidation` tells clients to leave validation to the server.
        "patch": {
            "x-kubernetes-action": "patch", "x-kubernetes-group-version-kind": gvk,
            "parameters": [
                {"name": "fieldValidation", "in": "query",
                 "schema": {"type": "string", "uniqueItems": true}},
            ],
            "responses": answer,
        },
    })
}

fn gvk(kind: &Kind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

/// `com.example.v1.Gadget` for `Gadget` of `example.com/v1`.
fn custom_name(kind: &Kind) -> String {
    let reversed: Vec<&str> = kind.group.rsplit('.').collect();
    format!("{}.{}.{}", reversed.join("."), kind.version, kind.kind)
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Schemas that a document refers to, and those still to be written.
#[derive(Default)]
struct Schemas {
    done: BTreeMap<String, Value>,
    open: Vec<StructId>,
}

impl Schemas {
    fn of_kind(&mut self, kind: &Kind) -> Value {
        if let (false, Some(id)) = (kind.custom, schema().kind(&kind.api_version(), &kind.kind)) {
            self.open.push(id);
            return reference(&schema().get(id).name);
        }
        let name = custom_name(kind);
        let mut content = kind.strategy.structural().map_or_else(|| json!({}), |s| s.root().clone());
        if !content.is_object() {
            content = json!({"type": "object"});
        }
        if !content["properties"].is_object() {
            content["properties"] = json!({});
        }
        let meta = schema().named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
        if let Some(id) = meta {
            self.open.push(id);
            content["properties"]["metadata"] = reference(&schema().get(id).name);
        }
        content["properties"]["apiVersion"] = json!({"type": "string"});
        content["properties"]["kind"] = json!({"type": "string"});
        self.done.insert(name.clone(), content);
        reference(&name)
    }

    /// Writes everything reachable and marks the schemas of kinds as such.
    fn finish(mut self, served: &[&Kind]) -> BTreeMap<String, Value> {
        while let Some(id) = self.open.pop() {
            let name = &schema().get(id).name;
            if !self.done.contains_key(name) {
                // The name is taken before the fields are read: types may contain themselves.
                self.done.insert(name.clone(), Value::Null);
                let written = self.structure(id);
                self.done.insert(name.clone(), written);
            }
        }
        for kind in served {
            let name = match schema().kind(&kind.api_version(), &kind.kind) {
                Some(id) if !kind.custom => schema().get(id).name.clone(),
                _ => custom_name(kind),
            };
            if let Some(content) = self.done.get_mut(&name) {
                content["x-kubernetes-group-version-kind"] = json!([gvk(kind)]);
            }
        }
        self.done
    }

    fn structure(&mut self, id: StructId) -> Value {
        let ty = schema().get(id);
        let docs = &DOCS[&ty.name];
        let mut properties = Map::new();
        for field in &ty.fields {
            let mut property = self.type_of(&field.ty);
            let described = docs[&field.name].as_str().filter(|text| !text.is_empty());
            if property.get("$ref").is_some() {
                // Beside a reference nothing else counts, so it goes inside.
                property = json!({"allOf": [property], "default": {}});
            }
            if let Some(text) = described {
                property["description"] = text.into();
            }
            let strategy = match (field.merge, field.retain_keys) {
                (true, true) => Some("merge,retainKeys"),
                (true, false) => Some("merge"),
                (false, true) => Some("retainKeys"),
                (false, false) => None,
            };
            if let Some(strategy) = strategy {
                property["x-kubernetes-patch-strategy"] = strategy.into();
            }
            if let Some(key) = &field.merge_key {
                property["x-kubernetes-patch-merge-key"] = key.as_str().into();
            }
            if let Type::List(_) = field.ty {
                let (list, keys) = match &field.list {
                    ListKind::Atomic => ("atomic", None),
                    ListKind::Set => ("set", None),
                    ListKind::Map(keys) => ("map", Some(keys)),
                };
                property["x-kubernetes-list-type"] = list.into();
                if let Some(keys) = keys {
                    property["x-kubernetes-list-map-keys"] = json!(keys);
                }
            }
            if field.atomic {
                property["x-kubernetes-map-type"] = "atomic".into();
            }
            properties.insert(field.name.clone(), property);
        }
        let mut content = json!({"type": "object", "properties": properties});
        if let Some(text) = docs[""].as_str() {
            content["description"] = text.into();
        }
        if !ty.required.is_empty() {
            content["required"] = json!(ty.required);
        }
        content
    }

    fn type_of(&mut self, ty: &Type) -> Value {
        match ty {
            Type::String | Type::Duration => json!({"type": "string"}),
            Type::Bool => json!({"type": "boolean"}),
            Type::I32 => json!({"type": "integer", "format": "int32"}),
            Type::I64 => json!({"type": "integer", "format": "int64"}),
            Type::F64 => json!({"type": "number", "format": "double"}),
            Type::Bytes => json!({"type": "string", "format": "byte"}),
            Type::Time | Type::MicroTime => json!({"type": "string", "format": "date-time"}),
            Type::Quantity | Type::IntOrString => {
                json!({"oneOf": [{"type": "string"}, {"type": "integer"}]})
            }
            Type::Any => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            Type::List(item) => json!({"type": "array", "items": self.type_of(item)}),
            Type::Map(item) => {
                json!({"type": "object", "additionalProperties": self.type_of(item)})
            }
            Type::Struct(id) => {
                self.open.push(*id);
                reference(&schema().get(*id).name)
            }
        }
    }
}
