//! Merge patches (RFC 7386) computed by comparing.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::reader::from_json;

/// The smallest merge patch that turns `seen` into `wanted`; None if they are
/// equal. Lists are replaced whole, as a merge patch must. A null in `wanted`
/// counts as an absent field, for that is what it would become.
pub fn diff(seen: &Value, wanted: &Value) -> Option<Value> {
    match (seen, wanted) {
        (Value::Object(seen), Value::Object(wanted)) => {
            let mut patch = Map::new();
            for (field, value) in wanted {
                let before = seen.get(field).unwrap_or(&Value::Null);
                if let Some(change) = diff(before, value) {
                    patch.insert(field.clone(), change);
                }
            }
            for (field, before) in seen {
                if !before.is_null() && !wanted.contains_key(field) {
                    patch.insert(field.clone(), Value::Null);
                }
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        _ => (seen != wanted).then(|| wanted.clone()),
    }
}

/// [`diff`] of what two values serialize to.
pub fn diff_of<S: Serialize, W: Serialize>(seen: &S, wanted: &W) -> Result<Option<Value>> {
    Ok(diff(&to_value(seen)?, &to_value(wanted)?))
}

/// What a value serializes to. By way of text: serde_json's own way would compile
/// each type for a second serializer.
pub fn to_value<S: Serialize + ?Sized>(value: &S) -> Result<Value> {
    read_back(serde_json::to_string(value))
}

fn read_back(text: serde_json::Result<String>) -> Result<Value> {
    let text = text.map_err(|e| Error::Terminal(format!("cannot write JSON: {e}")))?;
    from_json(&text).map_err(|e| Error::Terminal(format!("cannot read JSON: {e}")))
}

/// A value as compact JSON. Its `to_string` would bring a formatter for indented
/// JSON along.
pub fn text_of(value: &Value) -> String {
    // A value has nothing that could not be written.
    serde_json::to_string(value).unwrap_or_default()
}

/// Keeps the fields that pass, as the map's own `retain` would, and its `remove`;
/// those bring along how a tree is balanced again, 5 KB of a guest.
pub fn keep(fields: &mut Map<String, Value>, passes: &dyn Fn(&str, &Value) -> bool) {
    for (field, value) in std::mem::take(fields) {
        if passes(&field, &value) {
            fields.insert(field, value);
        }
    }
}

/// Takes a field out. See [`keep`].
pub fn take_out(fields: &mut Map<String, Value>, field: &str) {
    if fields.contains_key(field) {
        keep(fields, &|name, _| name != field);
    }
}

/// Applies a merge patch.
pub fn apply(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    if let Value::Object(fields) = target {
        for (field, value) in patch {
            if value.is_null() {
                take_out(fields, field);
            } else {
                apply(fields.entry(field.clone()).or_insert(Value::Null), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_taken_out_and_no_others() {
        let mut value = json!({"a": 1, "b": {"a": 2}, "c": null});
        let fields = value.as_object_mut().unwrap();
        take_out(fields, "a");
        take_out(fields, "z");
        assert_eq!(Value::Object(fields.clone()), json!({"b": {"a": 2}, "c": null}));
        keep(fields, &|_, value| !value.is_null());
        assert_eq!(value, json!({"b": {"a": 2}}));
    }

    #[test]
    fn the_patch_is_minimal_and_does_what_it_says() {
        for (seen, wanted, patch) in [
            (json!({"a": 1}), json!({"a": 1}), None),
            (json!({"a": 1}), json!({"a": 2}), Some(json!({"a": 2}))),
            (json!({"a": 1, "b": 2}), json!({"a": 1}), Some(json!({"b": null}))),
            (json!({}), json!({"a": {"b": 1}}), Some(json!({"a": {"b": 1}}))),
            (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 1, "c": 3}}), Some(json!({"a": {"c": 3}}))),
            (json!({"a": [1, 2]}), json!({"a": [1]}), Some(json!({"a": [1]}))),
            (json!({}), json!({"a": null}), None),
            (json!({"a": null}), json!({}), None),
            (json!({"a": 1}), json!({"a": null}), Some(json!({"a": null}))),
        ] {
            assert_eq!(diff(&seen, &wanted), patch, "{seen} -> {wanted}");
            let mut target = seen.clone();
            if let Some(patch) = patch {
                apply(&mut target, &patch);
                assert_eq!(diff(&target, &wanted), None, "{seen} -> {wanted} gave {target}");
            }
        }
    }
}
