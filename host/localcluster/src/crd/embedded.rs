//! Objects inside custom objects (`x-kubernetes-embedded-resource`): they have a kind, a version and metadata of their
//! own.

use serde_json::{Value, json};

use crate::kinds::meta;
use crate::kinds::names::{self, NameRule};
use crate::kinds::value::text;
use crate::schema::{self, schema};
use crate::status::FieldError;

/// Checks every embedded object below `value`, which is at `path`.
pub(super) fn check(at: &Value, value: &Value, path: &str, out: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            if at["x-kubernetes-embedded-resource"] == true {
                one(value, path, out);
            }
            for (key, value) in map {
                let property = &at["properties"][key];
                let dot = if path.is_empty() { "" } else { "." };
                if property.is_object() {
                    check(property, value, &format!("{path}{dot}{key}"), out);
                } else if at["additionalProperties"].is_object() {
                    check(&at["additionalProperties"], value, &format!("{path}[{key}]"), out);
                }
            }
        }
        Value::Array(list) => {
            for (i, value) in list.iter().enumerate() {
                check(&at["items"], value, &format!("{path}[{i}]"), out);
            }
        }
        _ => {}
    }
}

fn one(value: &Value, path: &str, out: &mut Vec<FieldError>) {
    for key in ["apiVersion", "kind"] {
        let field = format!("{path}.{key}");
        match value.get(key) {
            None => out.push(FieldError::required(field, "")),
            Some(Value::String(name)) if name.is_empty() => {
                out.push(FieldError::invalid(field, &json!(""), "must not be empty"));
            }
            Some(Value::String(name)) if key == "apiVersion" => {
                if name.split('/').count() > 2 {
                    let detail = format!("unexpected GroupVersion string: {name}");
                    out.push(FieldError::invalid(field, &json!(name), &detail));
                }
            }
            Some(Value::String(name)) => {
                let wrong = names::label_1035(&name.to_lowercase());
                if !wrong.is_empty() {
                    let detail =
                        format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
                    out.push(FieldError::invalid(field, &json!(name), &detail));
                }
            }
            Some(other) => out.push(FieldError::invalid(field, other, "must be a string")),
        }
    }
    let Some(given) = value.get("metadata") else { return };
    let mut whole = json!({"metadata": given});
    if text(given, "name").is_empty() {
        whole["metadata"]["name"] = "fakename".into();
    }
    let namespaced = !text(given, "namespace").is_empty();
    let found = meta::create(&whole, namespaced, NameRule::PathSegment);
    out.extend(
        found.into_iter().map(|error| FieldError { field: format!("{path}.{}", error.field), ..error }),
    );
}

/// Brings the metadata of embedded objects to their canonical form; the first that does not fit its type is an error.
pub(super) fn coerce(at: &Value, value: &mut Value, path: &str) -> Option<String> {
    match value {
        Value::Object(map) => {
            if at["x-kubernetes-embedded-resource"] == true {
                let id = schema().named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
                if let (Some(id), Some(given)) = (id, map.get_mut("metadata")) {
                    let (decoded, notes) = schema::decode_value(id, given);
                    if let Some(error) = notes.type_error {
                        return Some(format!("{path}.metadata: Invalid value: {given}: {error}"));
                    }
                    *given = decoded;
                }
            }
            let dot = if path.is_empty() { "" } else { "." };
            map.iter_mut().find_map(|(key, value)| {
                let property = &at["properties"][key.as_str()];
                if property.is_object() {
                    coerce(property, value, &format!("{path}{dot}{key}"))
                } else {
                    coerce(&at["additionalProperties"], value, &format!("{path}[{key}]"))
                }
            })
        }
        Value::Array(list) => {
            let items = &at["items"];
            list.iter_mut().enumerate().find_map(|(i, value)| coerce(items, value, &format!("{path}[{i}]")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_objects_name_their_kind() {
        let at = json!({"properties": {"o": {"x-kubernetes-embedded-resource": true}}});
        let mut out = Vec::new();
        check(&at, &json!({"o": {"kind": "Pod"}}), "", &mut out);
        assert_eq!(out.iter().map(ToString::to_string).collect::<Vec<_>>(), ["o.apiVersion: Required value"]);
        let mut wrong = json!({"o": {"metadata": {"name": 5}}});
        let error = coerce(&at, &mut wrong, "").expect("refused");
        assert!(error.contains("Go struct field ObjectMeta.name of type string"), "{error}");
    }
}
