//! What the real server says of a strategic patch whose result does not fit its type: it converts maps without going
//! through JSON, in words of its own.

use serde_json::Value;

use super::go::json_type;
use crate::schema::{StructId, Type, schema};

/// The first misfit, if there is one.
pub(super) fn error(id: StructId, value: &Value) -> Option<String> {
    find(&Type::Struct(id), value)
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

fn alone(value: &Value, go: &str) -> String {
    format!("json: cannot unmarshal {} into Go value of type {go}", json_type(value))
}

fn find(ty: &Type, value: &Value) -> Option<String> {
    if value.is_null() {
        return None;
    }
    match (ty, value) {
        (Type::Struct(id), Value::Object(map)) => schema()
            .get(*id)
            .fields
            .iter()
            .find_map(|field| map.get(&field.name).and_then(|value| find(&field.ty, value))),
        (Type::List(item), Value::Array(items)) => items.iter().find_map(|value| find(item, value)),
        (Type::Map(item), Value::Object(map)) => map.values().find_map(|value| find(item, value)),
        (Type::Struct(_), other) => Some(format!("cannot restore struct from: {}", kind_of(other))),
        (Type::Bytes, Value::String(_) | Value::Array(_)) => None,
        (Type::List(_) | Type::Bytes, other) => Some(format!("cannot restore slice from {}", kind_of(other))),
        (Type::Map(_), other) => Some(format!("cannot restore map from {}", kind_of(other))),
        (Type::I32, Value::Number(n)) => n.is_f64().then(|| "cannot convert float64 to int32".into()),
        (Type::I64, Value::Number(n)) => {
            let broken = n.as_f64().is_none_or(|n| n.fract() != 0.0);
            broken.then(|| "cannot convert float64 to int64".into())
        }
        (Type::String, Value::Number(n)) if !n.is_f64() => Some("cannot convert int64 to string".into()),
        (Type::F64, Value::Number(_)) | (Type::Bool, Value::Bool(_)) | (Type::String, Value::String(_)) => {
            None
        }
        (Type::I32, _) => Some("unrecognized type: int32".into()),
        (Type::I64, _) => Some("unrecognized type: int64".into()),
        (Type::String, _) => Some("unrecognized type: string".into()),
        (Type::F64, _) => Some("unrecognized type: float64".into()),
        (Type::Bool, _) => Some("unrecognized type: bool".into()),
        // These decode themselves, from JSON that does not know the field it stands in.
        (Type::Time | Type::MicroTime | Type::Duration, Value::String(_)) => None,
        (Type::Time | Type::MicroTime | Type::Duration, other) => Some(alone(other, "string")),
        (Type::IntOrString, Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
            Some(alone(value, "int32"))
        }
        // The words of the decoder stand.
        _ => None,
    }
}
