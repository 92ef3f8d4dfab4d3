//! Patches of all types, and the ownership of fields that server-side apply keeps.
//!
//! In: the present object and the body of a PATCH. Out: the object as the patch wants it, decoded by its type.
//! Invariant: nothing here stores anything; an error leaves no trace.

mod convert;
pub(crate) mod go;
mod json;
pub mod managed;
mod show;
pub mod strategic;

pub(crate) use json::apply as apply_json;
pub use managed::apply_ssa;

use serde_json::Value;

use crate::crd::Nulls;
use crate::kinds::value::text;
use crate::rest::strategy::Kind;
use crate::schema::{self, FieldValidation, schema, strict_error};
use crate::status::{FieldError, Status};

/// Type of a patch that is not server-side apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// `application/json-patch+json`.
    Json,
    /// `application/merge-patch+json`.
    Merge,
    /// `application/strategic-merge-patch+json`.
    Strategic,
}

/// What the query and the request say about a patch.
#[derive(Clone, Debug, Default)]
pub struct PatchOptions {
    /// Name of the field manager.
    pub field_manager: String,
    /// Server-side apply: take over fields of others.
    pub force: bool,
    /// What becomes of unknown fields.
    pub validation: FieldValidation,
    /// Subresource patched; empty for the object itself.
    pub sub: String,
    /// Now, as RFC 3339 in whole seconds.
    pub now: String,
}

/// A patched object and the warnings about the patch.
#[derive(Clone, Debug)]
pub struct Patched {
    /// With kind and apiVersion.
    pub object: Value,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

/// Applies a patch to `old`, which has kind and apiVersion.
pub fn apply(
    kind: &Kind,
    patch_type: PatchType,
    old: &Value,
    patch: &[u8],
    options: &PatchOptions,
) -> Result<Patched, Status> {
    let (mut patch, mut repeated) = parse(patch_type, patch)?;
    let is_list = patch_type == PatchType::Json;
    // Go reads null as an empty list, or as a map that is not there.
    match patch_type {
        PatchType::Json if patch.is_null() => patch = Value::Array(Vec::new()),
        PatchType::Strategic if patch.is_null() => patch = Value::Object(serde_json::Map::new()),
        _ => {}
    }
    if is_list {
        repeated.extend(json::unknown_fields(&patch));
    }
    if patch_type == PatchType::Merge && patch.is_null() {
        return Err(Status::bad_request("Invalid JSON Patch"));
    }
    if !is_list && !patch.is_object() {
        let prefix = if patch_type == PatchType::Merge { "error decoding patch: " } else { "" };
        return Err(Status::bad_request(format!(
            "{prefix}json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go::json_type(&patch)
        )));
    }
    let patched = match patch_type {
        PatchType::Json => json::apply(old, &patch)?,
        PatchType::Merge => {
            let mut merged = old.clone();
            json::merge(&mut merged, &patch);
            merged
        }
        PatchType::Strategic => match (struct_of(kind), old, &patch) {
            (Some(id), Value::Object(old), Value::Object(patch)) => {
                Value::Object(strategic::merge(id, old.clone(), patch.clone())?)
            }
            _ => return Err(Status::unsupported_media_type(CUSTOM_PATCHES)),
        },
    };
    let shown = |value: &Value| match patch_type {
        PatchType::Strategic => go::go_fmt(&patch),
        PatchType::Merge => show::patched(struct_of(kind), value, &patch),
        PatchType::Json => show::patched(struct_of(kind), value, &json::touched(&patch)),
    };
    let refuse = |error: &str| {
        let value = Value::String(shown(&patched));
        Status::invalid("", "", "", vec![FieldError::invalid("patch", &value, error)])
    };
    if patch_type != PatchType::Strategic && !kind.custom {
        // The kind is that of the address; a patch cannot make another of it.
        let (version, name) = (&patched["apiVersion"], &patched["kind"]);
        if let (Some(version), Some(name)) = (version.as_str(), name.as_str()) {
            if (version, name) != (kind.api_version().as_str(), kind.kind.as_str()) {
                if schema().kind(version, name).is_none() {
                    return Err(refuse(&schema::not_registered(version, name)));
                }
                return Err(refuse(&schema::not_convertible(&kind.api_version(), &kind.kind, version, name)));
            }
        }
    }
    if kind.custom {
        let (sent, version) = (text(&patched, "kind"), text(&patched, "apiVersion"));
        if sent.is_empty() {
            return Err(refuse(&format!("Object 'Kind' is missing in '{}'", shown(&patched))));
        }
        let group = version.rsplit_once('/').map_or("", |(group, _)| group);
        let api_version = kind.api_version();
        let wrong = match () {
            () if sent != kind.kind => Some(("kind", sent, kind.kind.as_str())),
            () if version != api_version => Some(("apiVersion", version, api_version.as_str())),
            () => None,
        };
        if let Some((field, value, wanted)) = wrong {
            let error = FieldError::invalid(field, &value.into(), &format!("must be {wanted}"));
            return Err(Status::invalid(group, sent, text(&patched["metadata"], "name"), vec![error]));
        }
    }
    let (mut object, notes) = redecode(kind, &patched, Nulls::Dropped);
    if let Some(error) = notes.type_error {
        let converted = match patch_type {
            PatchType::Strategic => struct_of(kind).and_then(|id| convert::error(id, &patched)),
            _ => None,
        };
        return Err(refuse(&converted.unwrap_or(error)));
    }
    let mut found: Vec<String> =
        repeated.into_iter().map(|r| if is_list { format!("json patch {r}") } else { r }).collect();
    found.extend(notes.strict);
    let warnings = match options.validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => found,
        FieldValidation::Strict if found.is_empty() => Vec::new(),
        FieldValidation::Strict => return Err(refuse(&strict_error(&found))),
    };
    keep_type(kind, &mut object);
    Ok(Patched { object, warnings })
}

/// Media types of patches that custom resources take.
pub const CUSTOM_PATCHES: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

fn struct_of(kind: &Kind) -> Option<schema::StructId> {
    if kind.custom { None } else { schema().kind(&kind.api_version(), &kind.kind) }
}

/// Decodes a patched value by its type.
pub(crate) fn redecode(kind: &Kind, value: &Value, nulls: Nulls) -> (Value, schema::Notes) {
    match struct_of(kind) {
        Some(id) => schema::decode_patched(id, value),
        None => crate::crd::redecode(kind, value, nulls),
    }
}

pub(crate) fn keep_type(kind: &Kind, object: &mut Value) {
    if let Value::Object(map) = object {
        map.insert("apiVersion".into(), kind.api_version().into());
        map.insert("kind".into(), kind.kind.clone().into());
    }
}

fn parse(patch_type: PatchType, patch: &[u8]) -> Result<(Value, Vec<String>), Status> {
    let prefix = if patch_type == PatchType::Strategic { "" } else { "error decoding patch: " };
    schema::decode_any(patch).map_err(|e| Status::bad_request(format!("{prefix}{e}")))
}
