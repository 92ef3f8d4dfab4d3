//! Formats that schemas of definitions name and nobody knows.
//!
//! In: the spec of a definition. Out: such formats, in the order in which they are met. Source of the rules:
//! `GetUnrecognizedFormats` of `k8s.io/apiextensions-apiserver`.

use serde_json::Value;

/// Formats of text, without dashes.
const OF_TEXT: [&str; 26] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// The unknown formats in the schemas of all versions.
pub(crate) fn unrecognized(spec: &Value) -> Vec<String> {
    let mut out = Vec::new();
    for version in spec["versions"].as_array().into_iter().flatten() {
        walk(&version["schema"]["openAPIV3Schema"], &mut out);
    }
    out
}

fn walk(schema: &Value, out: &mut Vec<String>) {
    if let Some(format) = schema["format"].as_str().filter(|format| !format.is_empty()) {
        let known = match schema["type"].as_str().unwrap_or("") {
            "" | "string" => OF_TEXT.contains(&format.replace('-', "").as_str()),
            "integer" => matches!(format, "int32" | "int64"),
            "number" => matches!(format, "float" | "double"),
            _ => false,
        };
        if !known {
            out.push(format.to_owned());
        }
    }
    for key in ["items", "not", "additionalProperties", "additionalItems", "allOf", "anyOf", "oneOf"] {
        walk_any(&schema[key], out);
    }
    for key in ["properties", "patternProperties", "definitions"] {
        schema[key].as_object().into_iter().flatten().for_each(|(_, inner)| walk(inner, out));
    }
}

/// A schema, or several.
fn walk_any(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Array(all) => all.iter().for_each(|inner| walk(inner, out)),
        Value::Object(_) => walk(value, out),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_format_belongs_to_a_type() {
        let schema = json!({"type": "object", "format": "date", "properties": {
            "a": {"type": "string", "format": "date-time"},
            "b": {"type": "integer", "format": "int32"},
            "c": {"type": "integer", "format": "float"},
            "d": {"type": "array", "items": {"type": "string", "format": "postcode"}},
            "e": {"format": "k8s-short-name"},
        }});
        let spec = json!({"versions": [{"schema": {"openAPIV3Schema": schema}}]});
        assert_eq!(unrecognized(&spec), ["date", "float", "postcode"]);
    }
}
