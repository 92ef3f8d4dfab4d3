//! From an action to an HTTP request.
//!
//! In: a checked action and what its precondition came to. Out: method, path,
//! content type and body. Invariant: a precondition is always part of the
//! request itself, so that the API server decides and not our cache.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use super::send::{METADATA, METADATA_LIST};
use crate::{
    api::{collection_path, object_path, query_escape},
    contract::{Action, GroupResource, PatchKind, Propagation, Verb},
};

/// What may stand in a path segment as it is.
const SEGMENT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':').remove(b'@');

/// What must still hold, in the API's own terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Precondition {
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
}

/// A request that writes.
#[derive(Clone, Debug)]
pub(super) struct WriteRequest {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) content_type: &'static str,
    /// What the answer should be.
    pub(super) accept: &'static str,
    pub(super) body: Bytes,
}

/// What requests of one controller have in common.
pub(super) struct Maker<'a> {
    /// Field manager of writes that name none.
    pub(super) field_manager: &'a str,
}

impl WriteRequest {
    /// Its path, with what the server is told of the time it has. Without that
    /// the server might carry out what we have given up long ago.
    pub(super) fn path_within(&self, timeout: Duration) -> String {
        let joint = if self.path.contains('?') { '&' } else { '?' };
        format!("{}{joint}timeout={}ms", self.path, timeout.as_millis().max(1))
    }
}

impl Maker<'_> {
    /// Builds the request of an action. `name` is the object's, with
    /// generateName expanded; `kind` is what the resource's objects are.
    pub(super) fn make(
        &self,
        action: &Action,
        resource: &GroupResource,
        kind: Option<(String, String)>,
        name: &str,
        precondition: &Precondition,
    ) -> Result<WriteRequest, serde_json::Error> {
        let mut query = Vec::new();
        let manager = |given: &str| {
            format!(
                "fieldManager={}",
                query_escape(if given.is_empty() { self.field_manager } else { given })
            )
        };
        let (method, content_type, body) = match &action.verb {
            Verb::Create(body) => {
                query.push(manager(""));
                let mut body: Value = serde_json::from_str(body)?;
                if action.subresource.is_empty() {
                    let metadata = metadata(&mut body);
                    metadata.insert("name".into(), name.into());
                    type_meta(&mut body, kind);
                }
                (Method::POST, "application/json", body)
            }
            Verb::Patch(patch) => {
                query.push(manager(&patch.field_manager));
                let mut body: Value = serde_json::from_str(&patch.body)?;
                if patch.kind == PatchKind::Json {
                    add_tests(&mut body, precondition);
                } else {
                    add_metadata(&mut body, precondition);
                }
                let content_type = match patch.kind {
                    PatchKind::Merge => "application/merge-patch+json",
                    PatchKind::Json => "application/json-patch+json",
                    PatchKind::Strategic => "application/strategic-merge-patch+json",
                    PatchKind::Apply => {
                        if patch.force {
                            query.push("force=true".into());
                        }
                        if action.subresource.is_empty() {
                            metadata(&mut body).insert("name".into(), name.into());
                        }
                        type_meta(&mut body, kind);
                        "application/apply-patch+yaml"
                    }
                };
                (Method::PATCH, content_type, body)
            }
            Verb::Replace(body) => {
                query.push(manager(""));
                let mut body: Value = serde_json::from_str(body)?;
                add_metadata(&mut body, precondition);
                (Method::PUT, "application/json", body)
            }
            Verb::Delete(options) => (
                Method::DELETE,
                "application/json",
                delete_options(options.propagation, options.grace_seconds, precondition),
            ),
            Verb::DeleteCollection(options) => {
                for (key, value) in [("labelSelector", &options.labels), ("fieldSelector", &options.fields)] {
                    if !value.is_empty() {
                        query.push(format!("{key}={}", query_escape(value)));
                    }
                }
                (
                    Method::DELETE,
                    "application/json",
                    delete_options(options.propagation, options.grace_seconds, precondition),
                )
            }
        };
        let namespace = segment(&action.namespace);
        let path = match &action.verb {
            Verb::Create(_) if action.subresource.is_empty() => collection_path(resource, &namespace),
            Verb::DeleteCollection(_) => collection_path(resource, &namespace),
            _ => object_path(resource, &namespace, &segment(name), &segment(&action.subresource)),
        };
        Ok(WriteRequest {
            method,
            path: if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) },
            content_type,
            accept: accept(action),
            body: serde_json::to_vec(&body)?.into(),
        })
    }
}

/// What settles an action is metadata; of an object that may be on its way out, `spec.finalizers` too, so the answer to
/// a change has to be whole. It also has to where a subresource is of another kind, which need not have metadata.
fn accept(action: &Action) -> &'static str {
    match &action.verb {
        Verb::DeleteCollection(_) => METADATA_LIST,
        Verb::Create(_) | Verb::Delete(_) if action.subresource.is_empty() => METADATA,
        _ => "application/json",
    }
}

/// A value as one segment of a path.
pub(super) fn segment(value: &str) -> String {
    utf8_percent_encode(value, SEGMENT).to_string()
}

fn delete_options(
    propagation: Option<Propagation>,
    grace: Option<u32>,
    precondition: &Precondition,
) -> Value {
    let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
    if let Some(propagation) = propagation {
        options["propagationPolicy"] = match propagation {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        }
        .into();
    }
    if let Some(grace) = grace {
        options["gracePeriodSeconds"] = grace.into();
    }
    let mut wanted = Map::new();
    if let Some(uid) = &precondition.uid {
        wanted.insert("uid".into(), uid.as_str().into());
    }
    if let Some(version) = &precondition.resource_version {
        wanted.insert("resourceVersion".into(), version.as_str().into());
    }
    if !wanted.is_empty() {
        options["preconditions"] = wanted.into();
    }
    options
}

/// The metadata of an object, made if it has none. Checked plans hold objects
/// with object metadata only.
fn metadata(body: &mut Value) -> &mut Map<String, Value> {
    if !body.is_object() {
        *body = json!({});
    }
    let metadata = &mut body["metadata"];
    if !metadata.is_object() {
        *metadata = json!({});
    }
    match metadata {
        Value::Object(fields) => fields,
        _ => unreachable!("made an object just now"),
    }
}

fn add_metadata(body: &mut Value, precondition: &Precondition) {
    if let Some(uid) = &precondition.uid {
        metadata(body).insert("uid".into(), uid.as_str().into());
    }
    if let Some(version) = &precondition.resource_version {
        metadata(body).insert("resourceVersion".into(), version.as_str().into());
    }
}

/// Tests come first, so that nothing is changed if they fail. The server
/// compares resourceVersions of patches on its own only where the patch sets
/// one, so it is set as well.
fn add_tests(body: &mut Value, precondition: &Precondition) {
    let Value::Array(operations) = body else { return };
    let mut tests = Vec::new();
    if let Some(uid) = &precondition.uid {
        tests.push(json!({"op": "test", "path": "/metadata/uid", "value": uid}));
    }
    if let Some(version) = &precondition.resource_version {
        tests.push(json!({"op": "test", "path": "/metadata/resourceVersion", "value": version}));
    }
    operations.splice(0..0, tests);
}

/// Fills in apiVersion and kind where a body leaves them out.
pub(super) fn type_meta(body: &mut Value, kind: Option<(String, String)>) {
    if let (Some(fields), Some((version, kind))) = (body.as_object_mut(), kind) {
        fields.entry("apiVersion").or_insert(version.into());
        fields.entry("kind").or_insert(kind.into());
    }
}

/// A name from a generateName, as long as the API server would make it.
pub(super) fn expand_name(prefix: &str, suffix: &str) -> String {
    const LONGEST: usize = 63;
    let mut end = prefix.len().min(LONGEST.saturating_sub(suffix.len()));
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &prefix[..end])
}
