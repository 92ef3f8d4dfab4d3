//! CustomResourceDefinitions: kinds made of data.
//!
//! In: definitions as they are stored. Out: kinds with schemas, defaults, pruning, printer columns and subresources,
//! and the loop that accepts, serves and cleans them up. Invariant: a kind is served exactly while its definition is
//! established.

mod columns;
mod conversion;
mod declared;
mod definition;
mod definition_extensions;
mod definition_schema;
mod definition_structure;
mod embedded;
mod field_path;
mod formats;
mod names;
mod rules;
mod run;
mod strategy;
mod structural;
mod validate;

pub use columns::PrinterColumn;
pub use conversion::ConversionWebhook;
pub(crate) use definition::check as check_definition;
pub(crate) use formats::unrecognized as unrecognized_formats;
pub use names::{accept, accepted_names};
pub use run::{run, serve};
pub use structural::Structural;
pub(crate) use validate::format_fits;

use std::sync::Arc;

use serde_json::Value;

use crate::kinds::value::{entries, flag, items, text};
use crate::rest::strategy::{Kind, StorageId, Subresource};
use crate::schema::{self, Body, Decoded, FieldValidation, Notes, schema};
use crate::status::{FieldError, Status};
use strategy::Custom;

const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// The kinds a definition serves, one a version.
pub fn kinds_of(crd: &Value) -> Vec<Arc<Kind>> {
    let spec = &crd["spec"];
    let accepted = &crd["status"]["acceptedNames"];
    let group = text(spec, "group");
    let versions = items(spec, "versions");
    let mut served: Vec<&Value> = versions.iter().filter(|v| flag(v, "served")).collect();
    served.sort_by(|a, b| names::compare_versions(text(a, "name"), text(b, "name")));
    served
        .into_iter()
        .map(|version| {
            let strings = |key: &str| -> Vec<String> {
                items(accepted, key).iter().filter_map(|v| v.as_str().map(str::to_owned)).collect()
            };
            let plural = text(accepted, "plural").to_owned();
            Arc::new(Kind {
                group: group.to_owned(),
                version: text(version, "name").to_owned(),
                singular: text(accepted, "singular").to_owned(),
                kind: text(accepted, "kind").to_owned(),
                list_kind: text(accepted, "listKind").to_owned(),
                short_names: strings("shortNames"),
                categories: strings("categories"),
                namespaced: text(spec, "scope") == "Namespaced",
                verbs: VERBS.to_vec(),
                subresources: subresources(version, text(accepted, "kind")),
                storage: StorageId { group: group.to_owned(), plural: plural.clone() },
                storage_version_hash: names::storage_hash(group, crd),
                custom: true,
                strategy: Arc::new(Custom::new(crd, version)),
                plural,
            })
        })
        .collect()
}

fn subresources(version: &Value, kind: &str) -> Vec<Subresource> {
    let mut out = Vec::new();
    let verbs = vec!["get", "patch", "update"];
    for (name, _) in entries(version, "subresources") {
        out.push(match name.as_str() {
            "scale" => Subresource {
                name: name.clone(),
                group: "autoscaling".into(),
                version: "v1".into(),
                kind: "Scale".into(),
                verbs: verbs.clone(),
            },
            _ => Subresource {
                name: name.clone(),
                group: String::new(),
                version: String::new(),
                kind: kind.into(),
                verbs: verbs.clone(),
            },
        });
    }
    out.sort_by(|a, b| b.name.cmp(&a.name));
    out
}

/// Decodes a body as a custom object.
pub(crate) fn decode(
    kind: &Kind,
    body: &Body<'_>,
    api_version: &str,
    given_kind: &str,
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    if given_kind.is_empty() {
        let shown = String::from_utf8_lossy(&body.json);
        let cause = format!("Object 'Kind' is missing in '{shown}'");
        return Err(schema::unrecognized(&kind.kind, body.sent, &cause));
    }
    if api_version != kind.api_version() {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            kind.api_version()
        )));
    }
    if given_kind != kind.kind {
        let value: Value = serde_json::from_slice(&body.json).unwrap_or_default();
        let detail = format!("must be {}", kind.kind);
        let error = FieldError::invalid("kind", &given_kind.into(), &detail);
        let name = text(&value["metadata"], "name");
        return Err(Status::invalid(&kind.group, given_kind, name, vec![error]));
    }
    let refuse = |error: &str| {
        Status::bad_request(format!(
            "{given_kind} in version {:?} cannot be handled as a {}: {error}",
            kind.version, kind.kind
        ))
    };
    let (value, repeated) = schema::decode_any(&body.json).map_err(|e| refuse(&e))?;
    let (object, notes) = redecode(kind, &value, Nulls::Dropped);
    if let Some(error) = notes.type_error {
        return Err(refuse(&error));
    }
    let found: Vec<String> = repeated.into_iter().chain(notes.strict).collect();
    let warnings = body.strict(found, validation).map_err(|error| refuse(&error))?;
    Ok(Decoded { object, warnings })
}

/// What becomes of nulls that a schema does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// Decoding drops them.
    Dropped,
    /// What is applied is not decoded again, so that they are refused.
    Kept,
}

/// Decodes metadata by its type, prunes the rest by the schema of the kind.
pub(crate) fn redecode(kind: &Kind, value: &Value, nulls: Nulls) -> (Value, Notes) {
    let mut notes = Notes::default();
    let mut object = value.clone();
    let meta_type = schema().named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    if let (Some(id), Some(meta)) = (meta_type, object.get_mut("metadata")) {
        let (decoded, found) = schema::decode_value_at(id, meta, "metadata");
        *meta = decoded;
        notes = found;
    }
    if let Some(structural) = kind.strategy.structural() {
        if notes.type_error.is_none() {
            notes.type_error = embedded::coerce(structural.root(), &mut object, "");
        }
        if nulls == Nulls::Dropped {
            structural.drop_nulls(&mut object);
        }
        let unknown = structural.prune(&mut object);
        notes.strict.extend(unknown.into_iter().map(|path| format!("unknown field \"{path}\"")));
    }
    (object, notes)
}
