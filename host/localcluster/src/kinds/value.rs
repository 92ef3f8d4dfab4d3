//! Small helpers for reading and filling JSON objects whose shape decoding has assured.

use serde_json::{Map, Value};

/// Text at a key; empty if absent.
pub fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or("")
}

/// Items of a list at a key.
pub fn items<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// Items of a list at a key, to change.
pub fn items_mut<'v>(value: &'v mut Value, key: &str) -> impl Iterator<Item = &'v mut Value> {
    value.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Entries of a map at a key.
pub fn entries<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = (&'v String, &'v Value)> {
    value[key].as_object().into_iter().flatten()
}

/// Number at a key; zero if absent.
pub fn int(value: &Value, key: &str) -> i64 {
    value[key].as_i64().unwrap_or(0)
}

/// Truth at a key; false if absent.
pub fn flag(value: &Value, key: &str) -> bool {
    value[key].as_bool().unwrap_or(false)
}

/// Whether there is nothing, or nothing in it.
pub fn empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(o) => o.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Sets a key that is absent, null or empty text.
pub fn fill(object: &mut Value, key: &str, value: impl Into<Value>) {
    if let Value::Object(map) = object {
        let missing = match map.get(key) {
            None | Some(Value::Null) => true,
            Some(Value::String(s)) => s.is_empty(),
            Some(_) => false,
        };
        if missing {
            map.insert(key.to_owned(), value.into());
        }
    }
}

/// Sets a key that is absent or null; empty text is a value of its own.
pub fn fill_null(object: &mut Value, key: &str, value: impl Into<Value>) {
    if object[key].is_null() {
        set(object, key, value);
    }
}

/// Sets a key that is absent or zero.
pub fn fill_zero(object: &mut Value, key: &str, value: i64) {
    if int(object, key) == 0 {
        set(object, key, value);
    }
}

/// Sets a key.
pub fn set(object: &mut Value, key: &str, value: impl Into<Value>) {
    if let Value::Object(map) = object {
        map.insert(key.to_owned(), value.into());
    }
}

/// Takes a key away.
pub fn remove(object: &mut Value, key: &str) -> Option<Value> {
    object.as_object_mut().and_then(|map| map.remove(key))
}

/// Makes a key hold what it holds in `from`, or nothing.
pub fn copy(from: &Value, to: &mut Value, key: &str) {
    match from.get(key) {
        Some(value) => set(to, key, value.clone()),
        None => {
            remove(to, key);
        }
    }
}

/// The object at a key, made if absent.
pub fn child<'v>(object: &'v mut Value, key: &str) -> &'v mut Value {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let slot = &mut object[key];
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    slot
}

/// The value at a path of keys joined by dots.
pub fn at<'v>(value: &'v Value, path: &str) -> &'v Value {
    path.split('.').fold(value, |v, key| &v[key])
}

/// The object at a key, if there is one.
pub fn present<'v>(object: &'v mut Value, key: &str) -> Option<&'v mut Value> {
    object.get_mut(key).filter(|v| v.is_object())
}
