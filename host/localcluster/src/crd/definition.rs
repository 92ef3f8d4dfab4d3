//! Whether a CustomResourceDefinition can be served.
//!
//! In: a definition. Out: what is wrong with its `spec`, in the order and the words of the real server, which holds
//! what all versions share one level up and names it there.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{definition_schema, field_path};
use crate::kinds::meta::invalid_all;
use crate::kinds::names;
use crate::kinds::value::{empty, flag, items, text};
use crate::kinds::webhooks::{bundle, client_config};
use crate::status::{FieldError, FieldReason};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const MAX_SELECTABLE: usize = 8;

/// Checks `spec`.
pub(crate) fn check(spec: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let group = text(spec, "group");
    if group.is_empty() {
        out.push(FieldError::required("spec.group", ""));
    } else {
        let wrong = names::subdomain(group);
        if !wrong.is_empty() {
            out.push(FieldError::invalid("spec.group", &json!(group), &wrong.join(",")));
        } else if !group.contains('.') {
            let detail = "should be a domain with at least one dot";
            out.push(FieldError::invalid("spec.group", &json!(group), detail));
        }
    }
    one_of(&mut out, spec, "scope", "spec.scope", &["Cluster", "Namespaced"]);
    let versions = items(spec, "versions");
    let missing: Vec<usize> =
        (0..versions.len()).filter(|i| versions[*i]["schema"]["openAPIV3Schema"].is_null()).collect();
    for i in missing {
        out.push(FieldError::required(format!("spec.versions[{i}].schema.openAPIV3Schema"), ""));
    }
    let hoisted = |key: &str| {
        let first = versions.first().map(|version| &version[key]);
        first.is_some_and(|first| !empty(first) && versions.iter().all(|version| version[key] == *first))
    };
    for (i, version) in versions.iter().enumerate() {
        let here = format!("spec.versions[{i}]");
        version_name(&mut out, text(version, "name"), &format!("{here}.name"));
        deprecation(&mut out, version, &format!("{here}.deprecationWarning"));
        for part in PARTS {
            if !hoisted(part.key) {
                (part.check)(&mut out, version, &format!("{here}.{}", part.key));
            }
        }
    }
    let unique: HashSet<&str> = versions.iter().map(|version| text(version, "name")).collect();
    let mut about_all = Vec::new();
    if unique.len() != versions.len() {
        about_all.push("must contain unique version names");
    }
    if versions.iter().filter(|v| flag(v, "storage")).count() != 1 {
        about_all.push("must have exactly one version marked as storage version");
    }
    for detail in about_all {
        let message = format!("Invalid value: {}: {detail}", shown_versions(versions, &hoisted));
        out.push(FieldError::raw(FieldReason::Invalid, "spec.versions", message));
    }
    if let Some(first) = versions.first() {
        version_name(&mut out, text(first, "name"), "spec.version");
    }
    requested_names(&mut out, &spec["names"]);
    for part in PARTS {
        if let Some(version) = versions.first().filter(|_| hoisted(part.key)) {
            (part.check)(&mut out, version, &format!("spec.{}", part.above));
        }
    }
    conversion(&mut out, &spec["conversion"]);
    out
}

/// A part of a version, which stands one level up when all versions have it alike.
struct Part {
    key: &'static str,
    above: &'static str,
    check: fn(&mut Vec<FieldError>, &Value, &str),
}

const PARTS: [Part; 4] = [
    Part {
        key: "schema",
        above: "validation",
        check: |out, version, path| {
            let schema = &version["schema"]["openAPIV3Schema"];
            if schema.is_object() {
                definition_schema::check(out, schema, &format!("{path}.openAPIV3Schema"));
            }
        },
    },
    Part {
        key: "subresources",
        above: "subresources",
        check: |out, version, path| scale(out, &version["subresources"]["scale"], &format!("{path}.scale")),
    },
    Part { key: "additionalPrinterColumns", above: "additionalPrinterColumns", check: columns },
    Part { key: "selectableFields", above: "selectableFields", check: selectable },
];

fn version_name(out: &mut Vec<FieldError>, name: &str, field: &str) {
    let wrong = names::label_1035(name);
    if !wrong.is_empty() {
        out.push(FieldError::invalid(field, &json!(name), &wrong.join(",")));
    }
}

fn one_of(out: &mut Vec<FieldError>, of: &Value, key: &str, field: &str, known: &[&str]) {
    match text(of, key) {
        "" => out.push(FieldError::required(field, "")),
        value if !known.contains(&value) => {
            out.push(FieldError::not_supported(field, &json!(value), known));
        }
        _ => {}
    }
}

fn deprecation(out: &mut Vec<FieldError>, version: &Value, field: &str) {
    const MAX: usize = 256;
    let warning = &version["deprecationWarning"];
    let Some(text) = warning.as_str() else { return };
    if !flag(version, "deprecated") {
        let detail = "can only be set for deprecated versions";
        return out.push(FieldError::invalid(field, warning, detail));
    }
    if text.len() > MAX {
        let detail = format!("must be <= {MAX} characters long");
        out.push(FieldError::invalid(field, warning, &detail));
    }
    if text.is_empty() {
        out.push(FieldError::invalid(field, warning, "must not be an empty string"));
    }
    if let Some((at, _)) = text.char_indices().find(|(_, c)| c.is_control()) {
        let detail = format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        );
        out.push(FieldError::invalid(field, warning, &detail));
    }
}

/// Versions as Go encodes the internal type, which has no JSON names.
fn shown_versions(versions: &[Value], hoisted: &dyn Fn(&str) -> bool) -> String {
    let one = |v: &Value| {
        let part = |key: &str| if hoisted(key) { "null".to_owned() } else { v[key].to_string() };
        format!(
            "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":null,\"Subresources\":{},\"AdditionalPrinterColumns\":{},\"SelectableFields\":{}}}",
            json!(text(v, "name")),
            flag(v, "served"),
            flag(v, "storage"),
            flag(v, "deprecated"),
            v["deprecationWarning"],
            part("subresources"),
            part("additionalPrinterColumns"),
            part("selectableFields"),
        )
    };
    let all: Vec<String> = versions.iter().map(one).collect();
    format!("[{}]", all.join(","))
}

fn requested_names(out: &mut Vec<FieldError>, wanted: &Value) {
    for key in ["plural", "singular", "kind", "listKind"] {
        if text(wanted, key).is_empty() {
            out.push(FieldError::required(format!("spec.names.{key}"), ""));
        }
    }
    for key in ["plural", "singular", "kind", "listKind"] {
        let value = text(wanted, key);
        if value.is_empty() {
            continue;
        }
        let field = format!("spec.names.{key}");
        if key.ends_with("ind") {
            let messages = names::label_1035(&value.to_lowercase())
                .into_iter()
                .map(|m| format!("may have mixed case, but should otherwise match: {m}"));
            invalid_all(out, &field, &json!(value), messages);
        } else {
            invalid_all(out, &field, &json!(value), names::label_1035(value));
        }
    }
    for (i, short) in items(wanted, "shortNames").iter().enumerate() {
        let messages = names::label_1035(short.as_str().unwrap_or(""));
        invalid_all(out, &format!("spec.names.shortNames[{i}]"), short, messages);
    }
    if text(wanted, "kind") == text(wanted, "listKind") && !text(wanted, "kind").is_empty() {
        let detail = "kind and listKind may not be the same";
        out.push(FieldError::invalid("spec.names.listKind", &wanted["listKind"], detail));
    }
    for (i, category) in items(wanted, "categories").iter().enumerate() {
        let messages = names::label_1035(category.as_str().unwrap_or(""));
        invalid_all(out, &format!("spec.names.categories[{i}]"), category, messages);
    }
}

/// Whether a path begins as one; says so otherwise.
fn simple_path(out: &mut Vec<FieldError>, path: &str, field: &str) -> bool {
    let fits = path.starts_with('.');
    if !fits {
        let detail = "must be a simple json path starting with .";
        out.push(FieldError::invalid(field, &json!(path), detail));
    }
    fits
}

fn scale(out: &mut Vec<FieldError>, scale: &Value, path: &str) {
    if scale.is_null() {
        return;
    }
    for (key, under) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let (field, value) = (format!("{path}.{key}"), text(scale, key));
        if value.is_empty() {
            out.push(FieldError::required(field, ""));
        } else if simple_path(out, value, &field) && !value.starts_with(&format!("{under}.")) {
            let detail = format!("should be a json path under {under}");
            out.push(FieldError::invalid(field, &json!(value), &detail));
        }
    }
    let (field, value) = (format!("{path}.labelSelectorPath"), text(scale, "labelSelectorPath"));
    if !value.is_empty() && simple_path(out, value, &field) {
        let known = value.starts_with(".spec.") || value.starts_with(".status.");
        if !known {
            let detail = "should be a json path under either .spec or .status";
            out.push(FieldError::invalid(field, &json!(value), detail));
        }
    }
}

fn columns(out: &mut Vec<FieldError>, version: &Value, path: &str) {
    for (i, column) in items(version, "additionalPrinterColumns").iter().enumerate() {
        let at = |key: &str| format!("{path}[{i}].{key}");
        if text(column, "name").is_empty() {
            out.push(FieldError::required(at("name"), ""));
        }
        let types = format!("must be one of {}", COLUMN_TYPES.join(","));
        match text(column, "type") {
            "" => out.push(FieldError::required(at("type"), &types)),
            other if !COLUMN_TYPES.contains(&other) => {
                out.push(FieldError::invalid(at("type"), &json!(other), &types));
            }
            _ => {}
        }
        let format = text(column, "format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
            out.push(FieldError::invalid(at("format"), &json!(format), &detail));
        }
        match text(column, "jsonPath") {
            "" => out.push(FieldError::required(at("JSONPath"), "")),
            value => {
                simple_path(out, value, &at("JSONPath"));
            }
        }
    }
}

fn selectable(out: &mut Vec<FieldError>, version: &Value, path: &str) {
    let schema = &version["schema"]["openAPIV3Schema"];
    let mut seen = HashSet::new();
    for (i, it) in items(version, "selectableFields").iter().enumerate() {
        let (field, value) = (format!("{path}[{i}].jsonPath"), text(it, "jsonPath"));
        if value.is_empty() {
            out.push(FieldError::required(field, ""));
            continue;
        }
        let (found, plain) = match field_path::resolve(schema, value, false) {
            Ok(found) => found,
            Err(why) => {
                let detail = format!("is an invalid path: {why}");
                out.push(FieldError::invalid(field, &json!(value), &detail));
                continue;
            }
        };
        if plain == ".metadata" || plain.starts_with(".metadata.") {
            let detail = "must not point to fields in metadata";
            out.push(FieldError::invalid(&field, &json!(value), detail));
        }
        if !matches!(text(found, "type"), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            out.push(FieldError::invalid(&field, &json!(value), detail));
        }
        if !seen.insert(plain) {
            out.push(FieldError::duplicate(field, &json!(value)));
        }
    }
    if seen.len() > MAX_SELECTABLE {
        out.push(FieldError::too_many(path, seen.len(), MAX_SELECTABLE));
    }
}

fn conversion(out: &mut Vec<FieldError>, conversion: &Value) {
    const CLIENT: &str = "spec.conversion.webhookClientConfig";
    const REVIEWS: &str = "spec.conversion.conversionReviewVersions";
    const UNUSED: &str = "should not be set when strategy is not set to Webhook";
    if conversion.is_null() {
        return;
    }
    one_of(out, conversion, "strategy", "spec.conversion.strategy", &["None", "Webhook"]);
    let hook = &conversion["webhook"];
    let versions = items(hook, "conversionReviewVersions");
    if text(conversion, "strategy") != "Webhook" {
        if !hook["clientConfig"].is_null() {
            out.push(FieldError::forbidden(CLIENT, UNUSED));
        }
        if !versions.is_empty() {
            out.push(FieldError::forbidden(REVIEWS, UNUSED));
        }
        return;
    }
    if hook["clientConfig"].is_null() {
        out.push(FieldError::required(CLIENT, "required when strategy is set to Webhook"));
    } else {
        client_config(out, &hook["clientConfig"], CLIENT);
        bundle(out, &hook["clientConfig"], CLIENT);
    }
    if versions.is_empty() {
        out.push(FieldError::required(REVIEWS, ""));
        return;
    }
    for (i, version) in versions.iter().enumerate() {
        let field = format!("{REVIEWS}[{i}]");
        if versions[..i].contains(version) {
            out.push(FieldError::invalid(field, version, "duplicate version"));
        } else {
            invalid_all(out, &field, version, names::label_1035(version.as_str().unwrap_or("")));
        }
    }
    if !versions.iter().any(|version| version == "v1" || version == "v1beta1") {
        let detail = "must include at least one of v1, v1beta1";
        out.push(FieldError::invalid(REVIEWS, &json!(versions), detail));
    }
}
