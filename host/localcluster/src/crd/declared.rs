//! What expressions see of custom objects: types and values as schemas declare them.
//!
//! In: a structural schema. Out: the type that expressions are checked with, and values in that type. Source of the rules:
//! "Type Checking" and "Accessing Fields" of
//! <https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules>.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::expression::{Kind, Record, duration, of_json, timestamp};
use crate::kinds::value::text;

/// What the language calls something itself, and which names of fields therefore look different.
const RESERVED: [&str; 20] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "void",
    "while",
];

/// The type of what a schema describes; none if it says nothing of it. `root` says that it is a whole object.
pub(super) fn kind(schema: &Value, root: bool) -> Option<Kind> {
    kind_at(schema, root, "selfType")
}

fn kind_at(schema: &Value, root: bool, name: &str) -> Option<Kind> {
    if schema["x-kubernetes-int-or-string"] == true {
        return Some(Kind::Dyn);
    }
    Some(match text(schema, "type") {
        "boolean" => Kind::Bool,
        "integer" => Kind::Int,
        "number" => Kind::Double,
        "string" => match text(schema, "format") {
            "byte" => Kind::Bytes,
            "duration" => Kind::Duration,
            "date" | "date-time" => Kind::Timestamp,
            _ => Kind::Text,
        },
        "array" => Kind::List(Box::new(kind_at(&schema["items"], false, &format!("{name}.@idx"))?)),
        "object" if schema["additionalProperties"].is_object() => {
            let inner = kind_at(&schema["additionalProperties"], false, &format!("{name}.@elem"))?;
            Kind::Map(Box::new(Kind::Text), Box::new(inner))
        }
        "object" => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            let mut fields: BTreeMap<String, Kind> = properties
                .filter_map(|(key, property)| {
                    let kind = kind_at(property, false, &format!("{name}.{key}"))?;
                    Some((escaped(key)?, kind))
                })
                .collect();
            if root || schema["x-kubernetes-embedded-resource"] == true {
                let metadata = ["name", "generateName"].map(|key| (key.to_owned(), Kind::Text));
                let metadata = Record { name: format!("{name}.metadata"), fields: metadata.into() };
                fields.insert("apiVersion".into(), Kind::Text);
                fields.insert("kind".into(), Kind::Text);
                fields.insert("metadata".into(), Kind::Record(Arc::new(metadata)));
            }
            Kind::Record(Arc::new(Record { name: name.to_owned(), fields }))
        }
        _ => return None,
    })
}

/// A value as expressions see it: numbers and texts are what the schema says.
pub(super) fn value(schema: &Value, value: &Value) -> cel::Value {
    if schema["x-kubernetes-int-or-string"] == true {
        return of_json(value);
    }
    match (value, text(schema, "type")) {
        (Value::Number(number), "number") => number.as_f64().map_or(cel::Value::Null, cel::Value::Float),
        (Value::String(text), "string") => match schema["format"].as_str() {
            Some("byte") => STANDARD.decode(text).map(|bytes| cel::Value::Bytes(Arc::new(bytes))).ok(),
            Some("duration") => duration(text),
            Some("date") => timestamp(&format!("{text}T00:00:00Z")),
            Some("date-time") => timestamp(text),
            _ => None,
        }
        .unwrap_or_else(|| of_json(value)),
        (Value::Array(list), "array") => {
            let items = list.iter().map(|item| self::value(&schema["items"], item)).collect();
            cel::Value::List(Arc::new(items))
        }
        (Value::Object(map), "object") => {
            let extra = &schema["additionalProperties"];
            let entries: HashMap<String, cel::Value> = map
                .iter()
                .filter_map(|(key, inner)| {
                    Some(match &schema["properties"][key] {
                        Value::Null => (key.clone(), self::value(extra, inner)),
                        property => (escaped(key)?, self::value(property, inner)),
                    })
                })
                .collect();
            entries.into()
        }
        _ => of_json(value),
    }
}

/// A property under the name that expressions have for it; none if they can have none.
fn escaped(name: &str) -> Option<String> {
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let out = name.replace("__", "__underscores__").replace('.', "__dot__");
    let out = out.replace('-', "__dash__").replace('/', "__slash__");
    let mut letters = out.chars();
    let starts = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    (starts && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')).then_some(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::expression::{Expression, Variables, kind_of};

    fn schema() -> Value {
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "n": {"type": "number"}, "at": {"type": "string", "format": "date-time"},
            "for": {"type": "string", "format": "duration"}, "x-y": {"type": "string"},
            "raw": {"type": "string", "format": "byte"},
            "either": {"x-kubernetes-int-or-string": true},
            "list": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        }}}})
    }

    #[test]
    fn expressions_are_checked_against_the_schema() {
        let own = kind(&schema(), true).expect("type");
        let check = |text: &str| kind_of(text, &[("self", own.clone())]);
        for good in [
            "self.spec.n > 1.0 && self.metadata.name == self.kind",
            "self.spec.at > timestamp('2024-01-01T00:00:00Z') && self.spec.__for__ < duration('1h')",
            "self.spec.x__dash__y == 'a' && self.spec.list.all(e, e.k == 'v')",
            "self.spec.either == 1 || self.spec.either == '5%'",
            "self.spec.map.all(k, self.spec.map[k] > 1) && has(self.spec.n)",
        ] {
            assert_eq!(check(good), Ok(Kind::Bool), "{good}");
        }
        for (bad, what) in [
            ("self.nope", "1:5: undefined field 'nope'"),
            ("has(self.spec.nope)", "1:4: undefined field 'nope'"),
            ("self.spec.list.all(e, e.nope)", "1:24: undefined field 'nope'"),
            ("self.spec.n == 1", "1:13: found no matching overload for '_==_' applied to '(double, int)'"),
            ("self.kind.x", "1:10: type 'string' does not support field selection"),
        ] {
            let error = check(bad).expect_err(bad);
            assert!(error.contains(&format!("<input>:{what}\n")), "{error}");
        }
    }

    #[test]
    fn values_are_what_the_schema_says() {
        let object = json!({"spec": {"n": 2, "at": "2024-06-01T00:00:00Z", "for": "90m", "x-y": "a", "raw": "YWI=",
            "either": 3, "list": [{"k": "v"}], "map": {"a-b": 1}}});
        let variables = Variables::new().with_value("self", value(&schema(), &object));
        for text in [
            "self.spec.n == 2.0",
            "self.spec.at > timestamp('2024-01-01T00:00:00Z')",
            "self.spec.__for__ > duration('1h')",
            "self.spec.x__dash__y == 'a' && self.spec.raw == b'ab'",
            "self.spec.either == 3 && self.spec.map['a-b'] == 1 && self.spec.list[0].k == 'v'",
        ] {
            assert_eq!(Expression::parse(text).holds(&variables), Ok(true), "{text}");
        }
    }
}
