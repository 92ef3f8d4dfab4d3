//! What the `x-kubernetes-` fields of a schema may say: kinds of maps and lists, keys of lists, and rules.

use serde_json::{Value, json};

use super::{declared, field_path};
use crate::expression::{Kind, kind_of};
use crate::kinds::value::{empty, flag, items, text};
use crate::status::{FieldError, FieldReason};

const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Checks one schema at `path`; what is wrong with rules as programs goes to `rules`.
pub(super) fn check(out: &mut Vec<FieldError>, rules: &mut Vec<FieldError>, schema: &Value, path: &str) {
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
            let own = declared::kind(schema, path.ends_with("openAPIV3Schema")).unwrap_or(Kind::Unknown);
            let names = [
                ("self", own.clone()),
                ("oldSelf", if rule["optionalOldSelf"] == true { Kind::Unknown } else { own }),
            ];
            let mistake = match (kind_of(text, &names), key) {
                (Err(mistake), _) => Some(mistake),
                (Ok(Kind::Unknown), _) | (Ok(Kind::Bool), "rule") | (Ok(Kind::Text), "messageExpression") => {
                    None
                }
                (Ok(_), "rule") => Some("cel expression must evaluate to a bool".to_owned()),
                (Ok(_), _) => Some("messageExpression must evaluate to a string".to_owned()),
            };
            if let Some(mistake) = mistake {
                let shown = shown_rule(rule);
                let message = format!("Invalid value: {shown}: {mistake}");
                rules.push(FieldError::raw(FieldReason::Invalid, at(key), message));
            }
        }
    }
}

/// A rule as Go encodes the internal type, which has no JSON names.
fn shown_rule(rule: &Value) -> String {
    let shown = format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        json!(text(rule, "rule")),
        json!(text(rule, "message")),
        json!(text(rule, "messageExpression")),
        rule["reason"],
        json!(text(rule, "fieldPath")),
        rule["optionalOldSelf"],
    );
    // As Go writes JSON.
    shown.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}
