//! Whether the schema of a definition is one: structural, with defaults that fit, rules that can be run.
//!
//! In: `openAPIV3Schema` and its path. Out: what is wrong, in the order and the words of the real server. Source: the
//! rules for structural schemas in the documentation of CustomResourceDefinitions, and the API reference of
//! `JSONSchemaProps`.

use serde_json::{Value, json};

use super::structural::prune_value;
use super::{definition_extensions, definition_structure, validate};
use crate::kinds::value::{empty, entries, flag, items, text};
use crate::status::FieldError;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const JUNCTORS: [&str; 3] = ["allOf", "oneOf", "anyOf"];

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
        definition_structure::check(&mut found, schema, path);
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
    definition_extensions::check(out, rules, schema, path);
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
