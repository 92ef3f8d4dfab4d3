//! Checks objects against a structural schema, with the wording of the real server.

use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::Mutex;
use regex::Regex;
use serde_json::{Value, json};

use crate::kinds::names;
use crate::status::{FieldError, FieldReason};

/// Compiled patterns, as one schema checks many objects.
static PATTERNS: LazyLock<Mutex<HashMap<String, Option<Regex>>>> =
    LazyLock::new(|| Mutex::new(HashMap::new()));

/// Checks `value` at `path` against the schema.
pub(super) fn check(schema: &Value, value: &Value, path: &str, out: &mut Vec<FieldError>) {
    check_change(schema, None, value, path, out);
}

/// Checks a value that takes the place of `old`: what stays as it was is not held against a change (KEP-4008).
pub(super) fn check_change(
    schema: &Value,
    old: Option<&Value>,
    value: &Value,
    path: &str,
    out: &mut Vec<FieldError>,
) {
    if old == Some(value) {
        return;
    }
    if value.is_null() && schema["nullable"] == true {
        return;
    }
    if !type_fits(schema, value, path, out) {
        return;
    }
    if let Some(known) = schema["enum"].as_array() {
        if !known.contains(value) {
            let texts: Vec<String> =
                known.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            out.push(FieldError::not_supported(path, value, &texts));
        }
    }
    match value {
        Value::Number(n) => number(schema, n.as_f64().unwrap_or(0.0), value, path, out),
        Value::String(text) => string(schema, text, value, path, out),
        Value::Array(items) => array(schema, old, items, path, out),
        Value::Object(_) => object(schema, old, value, path, out),
        _ => {}
    }
    combined(schema, value, path, out);
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn type_fits(schema: &Value, value: &Value, path: &str, out: &mut Vec<FieldError>) -> bool {
    let actual = type_name(value);
    if schema["x-kubernetes-int-or-string"] == true {
        if matches!(actual, "integer" | "string") {
            return true;
        }
        wrong_type(path, "integer,string", actual, out);
        return false;
    }
    let Some(wanted) = schema["type"].as_str() else { return true };
    let whole = value.as_f64().is_some_and(|n| n.fract() == 0.0);
    let fits = match wanted {
        "number" => matches!(actual, "number" | "integer"),
        "integer" => actual == "integer" || (actual == "number" && whole),
        other => other == actual,
    };
    match schema["format"].as_str().filter(|format| matches!(*format, "int32" | "int64")) {
        Some(format) if !fits && wanted == "integer" && actual == "number" => {
            wrong_type(path, format, "float64", out);
            let message = format!(
                "Invalid value: \"\": Checked value must be of type integer with format {format} in {path}"
            );
            out.push(FieldError::raw(FieldReason::Invalid, "<nil>", message));
        }
        None if !fits && wanted == "integer" && actual == "number" => {
            wrong_type(path, wanted, actual, out);
            let message = format!(
                "Invalid value: \"\": Checked value must be of type integer (default format) in {path}"
            );
            out.push(FieldError::raw(FieldReason::Invalid, "<nil>", message));
        }
        _ if !fits => wrong_type(path, wanted, actual, out),
        _ => {}
    }
    fits
}

fn wrong_type(path: &str, wanted: &str, actual: &str, out: &mut Vec<FieldError>) {
    let detail = format!("{path} in body must be of type {wanted}: {actual:?}");
    out.push(FieldError::type_invalid(path, &json!(actual), &detail));
}

fn number(schema: &Value, n: f64, value: &Value, path: &str, out: &mut Vec<FieldError>) {
    let bound = |key: &str| schema[key].as_f64();
    if let Some(factor) = bound("multipleOf") {
        // A whole value is measured by the whole part of the factor.
        if !value.is_f64() && factor < 1.0 {
            let detail = format!("factor MultipleOf declared for {path} must be positive: 0");
            out.push(FieldError::invalid(path, &json!(0), &detail));
        } else if (n / factor).fract() != 0.0 {
            let detail = format!("{path} in body should be a multiple of {}", schema["multipleOf"]);
            out.push(FieldError::invalid(path, value, &detail));
        }
    }
    if let Some(max) = bound("maximum") {
        let exclusive = schema["exclusiveMaximum"] == true;
        if n > max || (exclusive && n >= max) {
            let than = if exclusive { "less than" } else { "less than or equal to" };
            let detail = format!("{path} in body should be {than} {}", schema["maximum"]);
            out.push(FieldError::invalid(path, value, &detail));
        }
    }
    if let Some(min) = bound("minimum") {
        let exclusive = schema["exclusiveMinimum"] == true;
        if n < min || (exclusive && n <= min) {
            let than = if exclusive { "greater than" } else { "greater than or equal to" };
            let detail = format!("{path} in body should be {than} {}", schema["minimum"]);
            out.push(FieldError::invalid(path, value, &detail));
        }
    }
    let fits = match schema["format"].as_str() {
        Some("int32") => value.as_i64().is_none_or(|n| i32::try_from(n).is_ok()),
        Some("int64") => value.is_i64() || value.is_f64(),
        _ => true,
    };
    if let (false, Some(format)) = (fits, schema["format"].as_str()) {
        let kind = schema["type"].as_str().unwrap_or("integer");
        let message = format!(
            "Invalid value: \"\": Checked value must be of type {kind} with format {format} in {path}"
        );
        out.push(FieldError::raw(FieldReason::Invalid, "<nil>", message));
    }
}

/// The first limit that a text breaks is told, and its format.
fn string(schema: &Value, text: &str, value: &Value, path: &str, out: &mut Vec<FieldError>) {
    let length = text.chars().count() as u64;
    let most = schema["maxLength"].as_u64().filter(|max| length > *max);
    let least = schema["minLength"].as_u64().filter(|min| length < *min);
    let pattern = schema["pattern"].as_str().filter(|pattern| !matches(pattern, text));
    if let Some(max) = most {
        out.push(FieldError::too_long(path, max as usize));
    } else if let Some(min) = least {
        let detail = format!("{path} in body should be at least {min} chars long");
        out.push(FieldError::invalid(path, value, &detail));
    } else if let Some(pattern) = pattern {
        let detail = format!("{path} in body should match '{pattern}'");
        out.push(FieldError::invalid(path, value, &detail));
    }
    if let Some(format) = schema["format"].as_str() {
        if !format_fits(format, text) {
            let detail = format!("{path} in body must be of type {format}: {text:?}");
            out.push(FieldError::type_invalid(path, value, &detail));
        }
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    let mut known = PATTERNS.lock();
    if known.len() > 1000 {
        known.clear();
    }
    let compiled = known.entry(pattern.to_owned()).or_insert_with(|| Regex::new(pattern).ok());
    // A pattern that cannot be compiled was refused with the definition; it refuses nothing here.
    compiled.as_ref().is_none_or(|p| p.is_match(text))
}

pub(crate) fn format_fits(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.parse::<jiff::civil::Date>().is_ok(),
        "duration" => duration(text),
        "byte" => base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).is_ok(),
        "cidr" => text.split_once('/').is_some_and(|(ip, bits)| {
            let max = if ip.contains(':') { 128 } else { 32 };
            ip.parse::<std::net::IpAddr>().is_ok() && bits.parse::<u8>().is_ok_and(|b| b <= max)
        }),
        "mac" => {
            let parts: Vec<&str> = text.split([':', '-']).collect();
            matches!(parts.len(), 6 | 8 | 20)
                && parts.iter().all(|p| p.len() == 2 && p.chars().all(|c| c.is_ascii_hexdigit()))
        }
        "hostname" => names::subdomain(&text.to_lowercase()).is_empty(),
        "email" => text.rsplit_once('@').is_some_and(|(who, host)| {
            !who.is_empty() && !host.is_empty() && !text.contains(char::is_whitespace)
        }),
        "uri" => {
            text.starts_with('/')
                || text.split_once(':').is_some_and(|(scheme, rest)| {
                    scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && !rest.is_empty()
                })
        }
        "ip" => text.parse::<std::net::IpAddr>().is_ok(),
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        "uuid" => {
            let shape = [8, 4, 4, 4, 12];
            let parts: Vec<&str> = text.split('-').collect();
            parts.len() == 5
                && parts
                    .iter()
                    .zip(shape)
                    .all(|(p, n)| p.len() == n && p.chars().all(|c| c.is_ascii_hexdigit()))
        }
        // Other formats are not checked.
        _ => true,
    }
}

/// A duration as Go writes it (`1h5m`), or a number of longer units (`3 days`).
fn duration(text: &str) -> bool {
    const SHORT: [&str; 7] = ["ns", "us", "µs", "ms", "s", "m", "h"];
    const WORDS: [&str; 22] = [
        "ns", "nano", "us", "µs", "micro", "ms", "milli", "s", "sec", "seconds", "second", "m", "min",
        "minutes", "minute", "h", "hr", "hours", "hour", "d", "day", "days",
    ];
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut parts = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let tail = &rest[digits..];
        let unit = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let name = tail[..unit].trim();
        let long = parts == 0
            && unit == tail.len()
            && (WORDS.contains(&name) || name.starts_with("week") || name == "w");
        if digits == 0 || !(SHORT.contains(&name) || long) {
            return false;
        }
        rest = &tail[unit..];
        parts += 1;
    }
    parts > 0
}

fn array(schema: &Value, old: Option<&Value>, items: &[Value], path: &str, out: &mut Vec<FieldError>) {
    for (i, item) in items.iter().enumerate() {
        if schema["items"].is_object() {
            let before = same_item(schema, old, item);
            check_change(&schema["items"], before, item, &format!("{path}[{i}]"), out);
        }
    }
    if let Some(min) = schema["minItems"].as_u64() {
        if (items.len() as u64) < min {
            let detail = format!("{path} in body should have at least {min} items");
            out.push(FieldError::invalid(path, &json!(items.len()), &detail));
        }
    }
    if let Some(max) = schema["maxItems"].as_u64() {
        if items.len() as u64 > max {
            out.push(FieldError::too_many(path, items.len(), max as usize));
        }
    }
}

/// The item of the list before that an item is a change of, which only keys tell.
pub(super) fn same_item<'v>(schema: &Value, old: Option<&'v Value>, item: &Value) -> Option<&'v Value> {
    if schema["x-kubernetes-list-type"] != "map" {
        return None;
    }
    let keys: Vec<&str> =
        schema["x-kubernetes-list-map-keys"].as_array()?.iter().filter_map(Value::as_str).collect();
    old?.as_array()?.iter().find(|before| keys.iter().all(|key| before[*key] == item[*key]))
}

/// Looks for items that come twice, at any depth.
pub(super) fn duplicates(schema: &Value, value: &Value, path: &str, out: &mut Vec<FieldError>) {
    match value {
        Value::Array(items) => {
            unique(schema, items, path, out);
            for (i, item) in items.iter().enumerate() {
                duplicates(&schema["items"], item, &format!("{path}[{i}]"), out);
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                let property = &schema["properties"][key];
                let schema = if property.is_object() { property } else { &schema["additionalProperties"] };
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                duplicates(schema, value, &path, out);
            }
        }
        _ => {}
    }
}

/// Sets and lists of type map have no item twice.
fn unique(schema: &Value, items: &[Value], path: &str, out: &mut Vec<FieldError>) {
    let key_of = |item: &Value| -> Option<Value> {
        match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => Some(item.clone()),
            Some("map") => {
                let keys = schema["x-kubernetes-list-map-keys"].as_array()?;
                let mut out = serde_json::Map::new();
                for key in keys.iter().filter_map(Value::as_str) {
                    if let Some(value) = item.get(key) {
                        out.insert(key.to_owned(), value.clone());
                    }
                }
                Some(Value::Object(out))
            }
            _ => None,
        }
    };
    let mut seen: Vec<Value> = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let Some(key) = key_of(item) else { return };
        if seen.contains(&key) {
            out.push(FieldError::duplicate(format!("{path}[{i}]"), &key));
        } else {
            seen.push(key);
        }
    }
}

fn object(schema: &Value, old: Option<&Value>, value: &Value, path: &str, out: &mut Vec<FieldError>) {
    let Some(map) = value.as_object() else { return };
    let join = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    if let Some(max) = schema["maxProperties"].as_u64() {
        if map.len() as u64 > max {
            out.push(FieldError::too_many(path, map.len(), max as usize));
        }
    }
    if let Some(min) = schema["minProperties"].as_u64() {
        if (map.len() as u64) < min {
            let detail = format!("{path} in body should have at least {min} properties");
            out.push(FieldError::invalid(path, &json!(map.len()), &detail));
        }
    }
    for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !map.contains_key(key) {
            out.push(FieldError::required(join(key), ""));
        }
    }
    for (key, value) in map {
        let property = &schema["properties"][key];
        let before = old.and_then(|old| old.get(key));
        if property.is_object() {
            check_change(property, before, value, &join(key), out);
        } else if schema["additionalProperties"].is_object() {
            check_change(&schema["additionalProperties"], before, value, &join(key), out);
        }
    }
}

fn fits(schema: &Value, value: &Value, path: &str) -> bool {
    let mut found = Vec::new();
    check(schema, value, path, &mut found);
    found.is_empty()
}

fn combined(schema: &Value, value: &Value, path: &str, out: &mut Vec<FieldError>) {
    let list = |key: &str| schema[key].as_array().map_or(&[][..], Vec::as_slice);
    let errors = |part: &Value| {
        let mut found = Vec::new();
        check(part, value, path, &mut found);
        found
    };
    // What is wrong as a whole is said of no field.
    let refuse = |out: &mut Vec<FieldError>, words: &str| {
        out.push(FieldError::invalid("<nil>", &json!(""), &format!("{path:?} must {words}")));
    };
    let any = list("anyOf");
    if !any.is_empty() && !any.iter().any(|part| fits(part, value, path)) {
        refuse(out, "validate at least one schema (anyOf)");
        out.extend(errors(&any[0]));
    }
    let one = list("oneOf");
    match one.iter().filter(|part| fits(part, value, path)).count() {
        0 if !one.is_empty() => {
            refuse(out, "validate one and only one schema (oneOf). Found none valid");
            out.extend(errors(&one[0]));
        }
        0 | 1 => {}
        n => refuse(out, &format!("validate one and only one schema (oneOf). Found {n} valid alternatives")),
    }
    let all = list("allOf");
    let failed: Vec<FieldError> = all.iter().flat_map(errors).collect();
    if !failed.is_empty() {
        let none = if all.iter().any(|part| fits(part, value, path)) { "" } else { ". None validated" };
        out.extend(failed);
        refuse(out, &format!("validate all the schemas (allOf){none}"));
    }
    if schema["not"].is_object() && fits(&schema["not"], value, path) {
        refuse(out, "not validate the schema (not)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_violation_has_its_words() {
        let schema = json!({"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1},
            "colour": {"type": "string", "enum": ["red", "blue"]},
            "code": {"type": "string", "pattern": "^[a-z]+$"},
        }});
        for (value, want) in [
            (
                json!({"size": "big"}),
                "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
            ),
            (
                json!({"size": 0}),
                "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
            ),
            (
                json!({"size": 1, "colour": "green"}),
                "spec.colour: Unsupported value: \"green\": supported values: \"red\", \"blue\"",
            ),
            (
                json!({"size": 1, "code": "9"}),
                "spec.code: Invalid value: \"9\": spec.code in body should match '^[a-z]+$'",
            ),
            (json!({}), "spec.size: Required value"),
        ] {
            let mut out = Vec::new();
            check(&schema, &value, "spec", &mut out);
            let texts: Vec<String> = out.iter().map(ToString::to_string).collect();
            assert_eq!(texts, [want]);
        }
    }
}
