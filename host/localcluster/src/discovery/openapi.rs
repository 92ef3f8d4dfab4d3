//! The part of OpenAPI v3 that makes kubectl leave validation to the server.
//!
//! For each kind there is one path whose PATCH names the kind and knows `fieldValidation`; schemas are not published.

use serde_json::{Map, Value, json};

use super::{GIT_VERSION, hash};
use crate::rest::registry::Kinds;
use crate::rest::strategy::Kind;

fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// `GET /openapi/v3`.
pub fn index(kinds: &Kinds) -> Value {
    let mut paths = Map::new();
    for kind in kinds.all() {
        let root = root(&kind.group, &kind.version);
        if paths.contains_key(&root) {
            continue;
        }
        let tag = hash(document(kinds, &kind.group, &kind.version).to_string().as_bytes());
        let url = format!("/openapi/v3/{root}?hash={tag}");
        paths.insert(root, json!({ "serverRelativeURL": url }));
    }
    json!({ "paths": paths })
}

/// `GET /openapi/v3/apis/GROUP/VERSION`.
pub fn document(kinds: &Kinds, group: &str, version: &str) -> Value {
    let served = kinds.all().iter().filter(|k| k.group == group && k.version == version);
    let paths: Map<String, Value> = served.map(|kind| (path(kind), item(kind))).collect();
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": GIT_VERSION},
        "paths": paths,
    })
}

fn path(kind: &Kind) -> String {
    let scope = if kind.namespaced { "namespaces/{namespace}/" } else { "" };
    format!("/{}/{scope}{}/{{name}}", root(&kind.group, &kind.version), kind.plural)
}

fn item(kind: &Kind) -> Value {
    json!({"patch": {
        "x-kubernetes-group-version-kind":
            {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "x-kubernetes-action": "patch",
        "parameters": [
            {"name": "fieldValidation", "in": "query",
             "schema": {"type": "string", "uniqueItems": true}},
        ],
        "responses": {"200": {"description": "OK"}},
    }})
}
