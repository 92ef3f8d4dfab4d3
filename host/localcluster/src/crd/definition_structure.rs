//! Whether the schema of a definition is structural: a type for everything, and junctors that only check values.
//!
//! In: a schema without unsupported fields, and its path. Out: what is not structural about it.

use regex::Regex;
use serde_json::{Value, json};

use crate::kinds::value::{empty, entries, flag, items, text};
use crate::status::FieldError;

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Checks the whole schema at `path`.
pub(super) fn check(out: &mut Vec<FieldError>, schema: &Value, path: &str) {
    structure(out, schema, Level::Root, path);
}

fn structure(out: &mut Vec<FieldError>, schema: &Value, level: Level, path: &str) {
    let kind = text(schema, "type");
    let at = |key: &str| format!("{path}.{key}");
    if kind == "array" && schema["items"].is_null() {
        out.push(FieldError::required(at("items"), "must be specified"));
    }
    if schema["items"].is_object() {
        structure(out, &schema["items"], Level::Item, &at("items"));
    }
    for (key, property) in entries(schema, "properties") {
        structure(out, property, Level::Field, &format!("{path}.properties[{key}]"));
    }
    let more = &schema["additionalProperties"];
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    if !more.is_null() && level == Level::Root {
        out.push(FieldError::forbidden(at("additionalProperties"), "must not be used at the root"));
    }
    if more.is_object() {
        structure(out, more, Level::Field, &at("additionalProperties"));
    }
    let (free, either) =
        (flag(schema, "x-kubernetes-preserve-unknown-fields"), flag(schema, "x-kubernetes-int-or-string"));
    for (set, key) in
        [(free, "x-kubernetes-preserve-unknown-fields"), (embedded, "x-kubernetes-embedded-resource")]
    {
        if either && set {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            out.push(FieldError::invalid(at(key), &json!(true), detail));
        }
    }
    let int_or_string = json!([{"type": "integer"}, {"type": "string"}]);
    let skip_any = schema["anyOf"] == int_or_string;
    let skip_all = items(schema, "allOf").first().is_some_and(|first| first["anyOf"] == int_or_string);
    value_validation(out, schema, skip_any, skip_all, path);
    if embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        out.push(if kind.is_empty() {
            FieldError::required(at("type"), detail)
        } else {
            FieldError::invalid(at("type"), &json!(kind), detail)
        });
    } else if kind.is_empty() && !either && !free {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        out.push(FieldError::required(at("type"), detail));
    }
    if embedded && !more.is_null() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        out.push(FieldError::forbidden(at("additionalProperties"), detail));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        out.push(FieldError::invalid(at("type"), &json!(kind), "must be object at the root"));
    }
    if level == Level::Root || embedded {
        for key in ["kind", "apiVersion"] {
            let property = &schema["properties"][key];
            if property.is_object() && text(property, "type") != "string" {
                let field = format!("{path}.properties[{key}].type");
                out.push(FieldError::invalid(field, &json!(text(property, "type")), "must be string"));
            }
        }
        metadata(out, &schema["properties"]["metadata"], level, &format!("{path}.properties[metadata]"));
    }
    if embedded && !free && empty(&schema["properties"]) {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        out.push(FieldError::required(at("properties"), detail));
    }
}

/// Of metadata at the root only the names may be told more of.
fn metadata(out: &mut Vec<FieldError>, schema: &Value, level: Level, path: &str) {
    let Some(map) = schema.as_object() else { return };
    if text(schema, "type") != "object" {
        let kind = json!(text(schema, "type"));
        out.push(FieldError::invalid(format!("{path}.type"), &kind, "must be object"));
    }
    if level != Level::Root {
        return;
    }
    let names = entries(schema, "properties").all(|(key, _)| matches!(key.as_str(), "name" | "generateName"));
    let more = map.keys().any(|key| !matches!(key.as_str(), "type" | "properties" | "default"));
    if !names || more {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        out.push(FieldError::forbidden(path, detail));
    }
}

fn value_validation(out: &mut Vec<FieldError>, schema: &Value, skip_any: bool, skip_all: bool, path: &str) {
    for key in ["anyOf", "allOf", "oneOf"] {
        if key == "anyOf" && skip_any {
            continue;
        }
        for (i, inner) in items(schema, key).iter().enumerate() {
            let skip = key == "allOf" && i == 0 && skip_all;
            nested(out, inner, skip, &format!("{path}.{key}[{i}]"));
        }
    }
    nested(out, &schema["not"], false, &format!("{path}.not"));
    if let Some(pattern) = schema["pattern"].as_str() {
        if let Some(why) = bad_pattern(pattern) {
            let detail = format!("must be a valid regular expression, but isn't: {why}");
            out.push(FieldError::invalid(format!("{path}.pattern"), &json!(pattern), &detail));
        }
    }
}

/// Why a pattern is none, as Go's parser says it for what is missing at its end.
fn bad_pattern(pattern: &str) -> Option<String> {
    let error = Regex::new(pattern).err()?.to_string();
    let what = if error.contains("unclosed group") {
        "missing closing )"
    } else if error.contains("unclosed character class") {
        "missing closing ]"
    } else if error.contains("unopened group") {
        "unexpected )"
    } else if error.contains("repetition operator missing") {
        "missing argument to repetition operator"
    } else {
        "invalid escape sequence"
    };
    Some(format!("error parsing regexp: {what}: `{pattern}`"))
}

/// Inside of a junctor values are checked and nothing else is said of them.
fn nested(out: &mut Vec<FieldError>, schema: &Value, skip_any: bool, path: &str) {
    if !schema.is_object() {
        return;
    }
    let at = |key: &str| format!("{path}.{key}");
    value_validation(out, schema, skip_any, false, path);
    nested(out, &schema["items"], false, &at("items"));
    for (key, property) in entries(schema, "properties") {
        nested(out, property, false, &format!("{path}.properties[{key}]"));
    }
    if !text(schema, "type").is_empty() {
        out.push(FieldError::forbidden(at("type"), "must be empty to be structural"));
    }
    if schema["additionalProperties"].is_object() {
        out.push(FieldError::forbidden(at("additionalProperties"), "must be undefined to be structural"));
    }
    for (key, what) in [
        ("default", "undefined"),
        ("title", "empty"),
        ("description", "empty"),
        ("nullable", "false"),
        ("x-kubernetes-preserve-unknown-fields", "false"),
        ("x-kubernetes-embedded-resource", "false"),
        ("x-kubernetes-int-or-string", "false"),
        ("x-kubernetes-list-map-keys", "empty"),
        ("x-kubernetes-list-type", "undefined"),
        ("x-kubernetes-map-type", "undefined"),
        ("x-kubernetes-validations", "empty"),
    ] {
        let value = &schema[key];
        if !empty(value) && value != false && value != "" {
            out.push(FieldError::forbidden(at(key), &format!("must be {what} to be structural")));
        }
    }
    if schema["properties"]["metadata"].is_object() {
        let detail = "must not be specified in a nested context";
        out.push(FieldError::forbidden(format!("{path}.properties[metadata]"), detail));
    }
}
