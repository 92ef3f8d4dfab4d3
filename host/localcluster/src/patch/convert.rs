//! What the real server says of a strategic patch whose result does not fit its type: it converts maps without going
//! through JSON, in words of its own.

use serde_json::Value;

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
        (Type::List(_), other) => Some(format!("cannot restore slice from {}", kind_of(other))),
        (Type::Map(_), other) => Some(format!("cannot restore map from {}", kind_of(other))),
        (Type::I32, Value::Number(n)) if !n.is_f64() => None,
        (Type::I64 | Type::F64, Value::Number(_)) | (Type::Bool, Value::Bool(_)) => None,
        (Type::String, Value::String(_)) => None,
        (Type::String, other) => Some(format!("cannot convert {} to string", kind_of(other))),
        (Type::I32, _) => Some("unrecognized type: int32".into()),
        (Type::I64, _) => Some("unrecognized type: int64".into()),
        (Type::F64, _) => Some("unrecognized type: float64".into()),
        (Type::Bool, _) => Some("unrecognized type: bool".into()),
        // These decode themselves; the words of the decoder stand.
        _ => None,
    }
}
