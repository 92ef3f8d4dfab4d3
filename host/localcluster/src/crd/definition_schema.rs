//! Whether the schema of a definition is one: structural, with defaults that fit, rules that can be run.
//!
//! In: `openAPIV3Schema` and its path. Out: what is wrong, in the order and the words of the real server. Source: the
//! rules for structural schemas in the documentation of CustomResourceDefinitions, and the API reference of
//! `JSONSchemaProps`.

use cel::Program;
use regex::Regex;
use serde_json::{Value, json};

use super::field_path;
use super::structural::prune_value;
use super::validate;
use crate::kinds::value::{empty, entries, flag, items, text};
use crate::status::{FieldError, FieldReason};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const JUNCTORS: [&str; 3] = ["allOf", "oneOf", "anyOf"];
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Checks the whole schema at `path`.
pub(super) fn check(out: &mut Vec<FieldError>, schema: &Value, path: &str) {
    if flag(schema, "nullable") {
        let detail = "nullable cannot be true at the root";
        out.push(FieldError::forbidden(format!("{path}.nullable"), detail));
    }
    let mut found = Vec::new();
    // Beside fields that no schema may have, nothing is said of its structure.
    let readable = readable(schema);
    if readable {
        structure(&mut found, schema, Level::Root, path);
        found.sort_by_key(ToString::to_string);
    }
    let mut sound = readable && found.is_empty();
    out.append(&mut found);
    if sound {
        defaults(&mut found, schema, path);
        sound = found.is_empty();
        out.append(&mut found);
    }
    let before = out.len();
    let mut rules = Vec::new();
    node(out, &mut rules, schema, path, true, false);
    // Rules are looked at once there is a schema to run them on.
    if sound && out.len() == before {
        out.append(&mut rules);
    }
}

/// Fields of JSON schemas that there are no words for in a structural one.
const UNSUPPORTED: [&str; 6] =
    ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];

fn unsupported(schema: &Value, key: &str) -> bool {
    let value = &schema[key];
    value != "" && if key == "$ref" { !value.is_null() } else { !empty(value) }
}

fn readable(schema: &Value) -> bool {
    let own = !UNSUPPORTED.iter().any(|key| unsupported(schema, key))
        && !schema["items"].is_array()
        && schema["x-kubernetes-preserve-unknown-fields"] != false;
    own && entries(schema, "properties").all(|(_, property)| readable(property))
        && ["items", "additionalProperties", "not"]
            .iter()
            .all(|key| !schema[*key].is_object() || readable(&schema[*key]))
        && JUNCTORS.iter().flat_map(|junctor| items(schema, junctor)).all(readable)
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

/// Defaults have fields of the schema, and values that it takes.
fn defaults(out: &mut Vec<FieldError>, schema: &Value, path: &str) {
    // Stands for the name of the value, which has none.
    const HERE: &str = "\u{1}";
    let default = &schema["default"];
    if !default.is_null() {
        let field = format!("{path}.default");
        let mut unknown = Vec::new();
        prune_value(schema, &mut default.clone(), "", &mut unknown);
        if unknown.is_empty() {
            let mut found = Vec::new();
            validate::check(schema, default, HERE, &mut found);
            for mut error in found {
                error.field = error.field.replace(HERE, &field);
                error.message = error.message.replace(&format!("{HERE}."), "").replace(HERE, "");
                out.push(error);
            }
        } else {
            out.push(FieldError::invalid(&field, default, "must not have unknown fields"));
        }
    }
    if schema["items"].is_object() {
        defaults(out, &schema["items"], &format!("{path}.items"));
    }
    for (key, property) in entries(schema, "properties") {
        defaults(out, property, &format!("{path}.properties[{key}]"));
    }
    if schema["additionalProperties"].is_object() {
        defaults(out, &schema["additionalProperties"], &format!("{path}.additionalProperties"));
    }
}

/// What holds for each schema, wherever it stands.
fn node(
    out: &mut Vec<FieldError>,
    rules: &mut Vec<FieldError>,
    schema: &Value,
    path: &str,
    root: bool,
    no_defaults: bool,
) {
    if !schema.is_object() {
        return;
    }
    let at = |key: &str| format!("{path}.{key}");
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        out.push(FieldError::not_supported(at("type"), &json!(kind), &TYPES));
    }
    if no_defaults && !schema["default"].is_null() {
        out.push(FieldError::forbidden(at("default"), "must not be set in top-level metadata"));
    }
    for key in UNSUPPORTED {
        if unsupported(schema, key) || (key == "dependencies" && schema[key].is_object()) {
            out.push(FieldError::forbidden(at(key), &format!("{key} is not supported")));
        }
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        out.push(FieldError::forbidden(at("type"), detail));
    }
    if schema["items"].is_array() {
        let detail = "items must be a schema object and not an array";
        out.push(FieldError::forbidden(at("items"), detail));
    }
    if flag(schema, "uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        out.push(FieldError::forbidden(at("uniqueItems"), detail));
    }
    let more = &schema["additionalProperties"];
    if !empty(&schema["properties"]) && (more == false || more.is_object()) {
        let detail = "additionalProperties and properties are mutual exclusive";
        out.push(FieldError::forbidden(at("additionalProperties"), detail));
    }
    node(out, rules, more, &at("additionalProperties"), false, no_defaults);
    for (key, property) in entries(schema, "properties") {
        let no_defaults = no_defaults || (root && key == "metadata");
        node(out, rules, property, &format!("{path}.properties[{key}]"), false, no_defaults);
    }
    node(out, rules, &schema["not"], &at("not"), false, no_defaults);
    for junctor in JUNCTORS {
        for (i, inner) in items(schema, junctor).iter().enumerate() {
            node(out, rules, inner, &format!("{path}.{junctor}[{i}]"), false, no_defaults);
        }
    }
    node(out, rules, &schema["items"], &at("items"), false, no_defaults);
    if schema["x-kubernetes-preserve-unknown-fields"] == false {
        let detail = "must be true or undefined";
        out.push(FieldError::invalid(at("x-kubernetes-preserve-unknown-fields"), &json!(false), detail));
    }
    map_type(out, schema, path);
    list_type(out, schema, path);
    validations(out, rules, schema, path);
}

fn map_type(out: &mut Vec<FieldError>, schema: &Value, path: &str) {
    let Some(map_type) = schema["x-kubernetes-map-type"].as_str() else { return };
    wants_type(out, schema, "object", "x-kubernetes-map-type", path);
    if !matches!(map_type, "atomic" | "granular") {
        let field = format!("{path}.x-kubernetes-map-type");
        out.push(FieldError::not_supported(field, &json!(map_type), &["atomic", "granular"]));
    }
}

fn wants_type(out: &mut Vec<FieldError>, schema: &Value, wanted: &str, because: &str, path: &str) -> bool {
    let kind = text(schema, "type");
    if kind == wanted {
        return true;
    }
    let (field, detail) = (format!("{path}.type"), format!("must be {wanted} if {because} is specified"));
    out.push(if kind.is_empty() {
        FieldError::required(field, &detail)
    } else {
        FieldError::invalid(field, &json!(kind), &detail)
    });
    false
}

fn list_type(out: &mut Vec<FieldError>, schema: &Value, path: &str) {
    let at = |key: &str| format!("{path}.{key}");
    let list_type = schema["x-kubernetes-list-type"].as_str();
    let (keys, inner) = (&schema["x-kubernetes-list-map-keys"], &schema["items"]);
    if let Some(list_type) = list_type {
        let fits = wants_type(out, schema, "array", "x-kubernetes-list-type", path);
        if fits && list_type == "set" && inner.is_object() {
            let key = match text(inner, "type") {
                "array" if !matches!(inner["x-kubernetes-list-type"].as_str(), None | Some("atomic")) => {
                    Some("x-kubernetes-list-type")
                }
                "object" if inner["x-kubernetes-map-type"] != "atomic" => Some("x-kubernetes-map-type"),
                _ => None,
            };
            if let Some(key) = key {
                let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
                let shown = &inner["x-kubernetes-list-type"];
                out.push(FieldError::invalid(at(&format!("items.{key}")), shown, detail));
            }
        }
        if !matches!(list_type, "atomic" | "set" | "map") {
            let known = ["atomic", "set", "map"];
            out.push(FieldError::not_supported(at("x-kubernetes-list-type"), &json!(list_type), &known));
        }
    }
    if !empty(keys) && list_type != Some("map") {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        let field = at("x-kubernetes-list-type");
        out.push(match list_type {
            None => FieldError::required(field, detail),
            Some(other) => FieldError::invalid(field, &json!(other), detail),
        });
    }
    if list_type == Some("map") {
        map_keys(out, schema, path);
    }
    if !matches!(list_type, Some("map" | "set")) || !inner.is_object() {
        return;
    }
    if flag(inner, "nullable") {
        let detail =
            format!("cannot be nullable when x-kubernetes-list-type is {}", list_type.unwrap_or_default());
        out.push(FieldError::forbidden(at("items.nullable"), &detail));
    }
    if list_type == Some("map") {
        for key in items(schema, "x-kubernetes-list-map-keys") {
            let property = &inner["properties"][key.as_str().unwrap_or("")];
            if !property.is_object() {
                continue;
            }
            let here = at(&format!("items.properties[{}]", key.as_str().unwrap_or("")));
            if !items(inner, "required").contains(key) && property["default"].is_null() {
                let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                out.push(FieldError::required(format!("{here}.default"), detail));
            }
            if flag(property, "nullable") {
                let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                out.push(FieldError::forbidden(format!("{here}.nullable"), detail));
            }
        }
    }
}

fn map_keys(out: &mut Vec<FieldError>, schema: &Value, path: &str) {
    let at = |key: &str| format!("{path}.{key}");
    let (keys, inner) = (items(schema, "x-kubernetes-list-map-keys"), &schema["items"]);
    let shown = &schema["x-kubernetes-list-map-keys"];
    let field = at("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        out.push(FieldError::required(&field, detail));
    }
    if inner.is_null() {
        let detail = "must have a schema if x-kubernetes-list-type is map";
        out.push(FieldError::required(at("items"), detail));
        return;
    }
    if text(inner, "type") != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        out.push(FieldError::invalid(at("items.type"), &json!(text(inner, "type")), detail));
        return;
    }
    for (i, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or("");
        match &inner["properties"][name] {
            Value::Object(property) => {
                let kind = property.get("type").and_then(Value::as_str);
                if matches!(kind, Some("array" | "object")) {
                    let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    let field = at(&format!("items.properties[{name}].type"));
                    out.push(FieldError::invalid(field, &json!("object"), detail));
                }
            }
            _ => {
                let detail = "entries must all be names of item properties";
                out.push(FieldError::invalid(&field, shown, detail));
            }
        }
        if keys[..i].contains(key) {
            out.push(FieldError::invalid(&field, shown, "must not contain duplicate entries"));
        }
    }
}

fn validations(out: &mut Vec<FieldError>, rules: &mut Vec<FieldError>, schema: &Value, path: &str) {
    for (i, rule) in items(schema, "x-kubernetes-validations").iter().enumerate() {
        let at = |key: &str| format!("{path}.x-kubernetes-validations[{i}].{key}");
        let (source, message) = (text(rule, "rule"), text(rule, "message"));
        let lines = |text: &str| text.trim().contains(['\n', '\r']);
        if source.trim().is_empty() {
            out.push(FieldError::required(at("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            let detail = "must be non-empty if specified";
            out.push(FieldError::invalid(at("message"), &json!(message), detail));
        } else if lines(message) {
            let detail = "must not contain line breaks";
            out.push(FieldError::invalid(at("message"), &json!(message), detail));
        } else if lines(source) && message.trim().is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            out.push(FieldError::required(at("message"), detail));
        }
        let expression = text(rule, "messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            out.push(FieldError::required(at("messageExpression"), detail));
        }
        if let Some(reason) = rule["reason"].as_str().filter(|reason| !REASONS.contains(reason)) {
            out.push(FieldError::not_supported(at("reason"), &json!(reason), &REASONS));
        }
        let field = text(rule, "fieldPath");
        if !field.is_empty() && field_path::resolve(schema, field, true).is_err() {
            out.push(FieldError::invalid(at("fieldPath"), &json!(field), "must be a valid path"));
        }
        for (key, text) in [("rule", source), ("messageExpression", expression)] {
            if text.trim().is_empty() {
                continue;
            }
            if let Err(error) = Program::compile(text) {
                let shown = shown_rule(rule);
                let message = format!("Invalid value: {shown}: compilation failed: {error}");
                rules.push(FieldError::raw(FieldReason::Invalid, at(key), message));
            }
        }
    }
}

/// A rule as Go encodes the internal type, which has no JSON names.
fn shown_rule(rule: &Value) -> String {
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        json!(text(rule, "rule")),
        json!(text(rule, "message")),
        json!(text(rule, "messageExpression")),
        rule["reason"],
        json!(text(rule, "fieldPath")),
        rule["optionalOldSelf"],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(properties: Value) -> Vec<String> {
        let mut out = Vec::new();
        check(&mut out, &json!({"type": "object", "properties": properties}), "s");
        out.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn schemas_are_structural() {
        for (properties, want) in [
            (json!({"a": {"type": "string"}}), ""),
            (
                json!({"a": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}}),
                "",
            ),
            (
                json!({"a": {}}),
                "s.properties[a].type: Required value: must not be empty for specified object fields",
            ),
            (json!({"a": {"type": "array"}}), "s.properties[a].items: Required value: must be specified"),
            (
                json!({"a": {"type": "string", "anyOf": [{"type": "string"}]}}),
                "s.properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
            ),
            (
                json!({"a": {"type": "string", "pattern": "("}}),
                "s.properties[a].pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `(`",
            ),
            (
                json!({"a": {"type": "integer", "default": "x"}}),
                "s.properties[a].default: Invalid value: \"string\":  in body must be of type integer: \"string\"",
            ),
            (
                json!({"a": {"type": "object", "default": {"b": 1}}}),
                "s.properties[a].default: Invalid value: {\"b\":1}: must not have unknown fields",
            ),
            (json!({"metadata": {"type": "object", "properties": {"name": {"type": "string"}}}}), ""),
            (
                json!({"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}),
                "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
            ),
        ] {
            let found = told(properties.clone());
            assert_eq!(found.first().map_or("", String::as_str), want, "{properties}");
            assert!(found.len() <= 1, "{found:?}");
        }
    }
}
