//! What a round trip through the typed server does to an object: what is empty goes, what is always there comes.
//!
//! In: an object that `decode` made, possibly changed since. Out: the same object as the server writes it.
//! Invariant: doing it twice changes nothing more.

use serde_json::{Map, Value, json};

use super::types::{Field, Schema, StructId, Type};

/// What becomes of lists that have nothing in them.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum EmptyLists {
    /// They stay: defaults tell a list without items from none.
    Stay,
    /// They stay where JSON would show them: whoever sends one owns it.
    Shown,
    /// They go: the stored form does not tell them from none.
    Go,
}

/// Brings a structure to the form in which it is written.
pub(super) fn structure(schema: &Schema, id: StructId, object: &mut Map<String, Value>, lists: EmptyLists) {
    for field in &schema.get(id).fields {
        if field.closed && lists == EmptyLists::Go {
            object.remove(&field.name);
            continue;
        }
        match object.get_mut(&field.name) {
            Some(Value::Array(items)) if items.is_empty() && lists == EmptyLists::Stay => {}
            Some(value) if !value.is_null() => {
                present(schema, field, value, lists);
                if droppable(field, value) {
                    object.remove(&field.name);
                }
            }
            found => {
                let found = found.is_some();
                match absent(schema, field) {
                    Some(value) => {
                        object.insert(field.name.clone(), value);
                    }
                    None if found => {
                        object.remove(&field.name);
                    }
                    None => {}
                }
            }
        }
    }
}

fn present(schema: &Schema, field: &Field, value: &mut Value, lists: EmptyLists) {
    any(schema, &field.ty, value, lists);
    let hollow = lists == EmptyLists::Go
        && match value {
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty() && matches!(field.ty, Type::Map(_)),
            _ => false,
        };
    if hollow && !field.omit_empty && !field.pointer && field.ty != Type::Any {
        *value = Value::Null;
    }
}

fn any(schema: &Schema, ty: &Type, value: &mut Value, lists: EmptyLists) {
    match (ty, value) {
        (Type::Struct(id), Value::Object(map)) => structure(schema, *id, map, lists),
        (Type::List(item), Value::Array(items)) if nested(item) => {
            for value in items {
                if value.is_null() {
                    *value = zero(schema, item);
                }
                any(schema, item, value, lists);
            }
        }
        (Type::Map(item), Value::Object(map)) => {
            for value in map.values_mut() {
                if value.is_null() {
                    *value = zero(schema, item);
                }
                if nested(item) {
                    any(schema, item, value, lists);
                }
            }
        }
        _ => {}
    }
}

fn nested(ty: &Type) -> bool {
    matches!(ty, Type::Struct(_) | Type::List(_) | Type::Map(_))
}

/// Whether an empty value is left out.
fn droppable(field: &Field, value: &Value) -> bool {
    if field.pointer {
        return false;
    }
    match &field.ty {
        Type::Struct(_) => field.omit_zero && value.as_object().is_some_and(Map::is_empty),
        Type::Time | Type::MicroTime | Type::Quantity | Type::IntOrString => false,
        _ if !field.omit_empty => false,
        _ => match value {
            Value::Bool(b) => !b,
            Value::Number(n) => n.as_f64() == Some(0.0),
            Value::String(s) => s.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty() && field.ty != Type::Any,
            Value::Null => true,
        },
    }
}

/// What is written for a field without a value.
fn absent(schema: &Schema, field: &Field) -> Option<Value> {
    if field.pointer {
        return (!field.omit_empty).then_some(Value::Null);
    }
    let structural = matches!(
        field.ty,
        Type::Struct(_) | Type::Time | Type::MicroTime | Type::Quantity | Type::IntOrString
    );
    if field.omit_zero || (field.omit_empty && !structural && field.ty != Type::Any) {
        return None;
    }
    Some(match &field.ty {
        Type::List(_) | Type::Map(_) | Type::Bytes | Type::Any => Value::Null,
        Type::Time | Type::MicroTime => Value::Null,
        other => zero(schema, other),
    })
}

/// The zero value of a type.
pub(super) fn zero(schema: &Schema, ty: &Type) -> Value {
    match ty {
        Type::String | Type::Duration => json!(""),
        Type::Bool => json!(false),
        Type::I32 | Type::I64 | Type::F64 | Type::IntOrString => json!(0),
        Type::Quantity => json!("0"),
        Type::Struct(id) => {
            let mut map = Map::new();
            structure(schema, *id, &mut map, EmptyLists::Go);
            Value::Object(map)
        }
        Type::Bytes => json!(""),
        Type::Time | Type::MicroTime | Type::Any | Type::List(_) | Type::Map(_) => Value::Null,
    }
}

/// The object in the order of its Go type, as messages show values.
pub(super) fn go_order(schema: &Schema, ty: &Type, value: &Value, out: &mut String) {
    match (ty, value) {
        (Type::Struct(id), Value::Object(map)) => {
            out.push('{');
            let mut first = true;
            for field in &schema.get(*id).fields {
                if let Some(value) = map.get(&field.name) {
                    if !first {
                        out.push(',');
                    }
                    first = false;
                    out.push_str(&Value::from(field.name.as_str()).to_string());
                    out.push(':');
                    go_order(schema, &field.ty, value, out);
                }
            }
            out.push('}');
        }
        (Type::List(item), Value::Array(items)) => {
            out.push('[');
            for (i, value) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                go_order(schema, item, value, out);
            }
            out.push(']');
        }
        (Type::Map(item), Value::Object(map)) => {
            out.push('{');
            for (i, (key, value)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                go_order(schema, item, value, out);
            }
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
}
