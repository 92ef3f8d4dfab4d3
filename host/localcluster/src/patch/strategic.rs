//! Strategic merge patch: lists merged by key, with the directives `$patch`, `$retainKeys`,
//! `$deleteFromPrimitiveList/…` and `$setElementOrder/…`.
//!
//! In: an object, a patch, the type of both. Out: the merged object. Invariant: the type decides how a list merges;
//! where it knows nothing, lists are replaced.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::go::{go_fmt, go_string, go_type};
use crate::schema::types::Field;
use crate::schema::{StructId, Type, schema};
use crate::status::Status;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_PREFIX: &str = "$deleteFromPrimitiveList/";
const ORDER_PREFIX: &str = "$setElementOrder/";

type Object = Map<String, Value>;

/// Merges `patch` into `original`, both of the structure `id`.
pub fn merge(id: StructId, original: Object, patch: Object) -> Result<Object, Status> {
    merge_map(Some(id), original, patch)
}

fn bad(message: &str) -> Status {
    Status::bad_request(message)
}

fn merge_map(id: Option<StructId>, mut original: Object, mut patch: Object) -> Result<Object, Status> {
    if let Some(directive) = patch.get(PATCH) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(PATCH);
                Ok(patch)
            }
            Some("delete") => Ok(Object::new()),
            _ => Err(unknown_directive(&patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    set_element_order(id, &mut original, &mut patch)?;
    for (key, value) in patch {
        let (key, is_delete_list) = match key.strip_prefix(DELETE_PREFIX) {
            Some(name) => (name.to_owned(), true),
            None => (key, false),
        };
        if value.is_null() {
            original.remove(&key);
            continue;
        }
        let field = id.and_then(|id| schema().get(id).field(&key));
        let merged = match (original.remove(&key), value) {
            (Some(Value::Object(_)), new @ Value::Object(_)) if field.is_some_and(|f| f.replace) => Some(new),
            (Some(Value::Object(old)), Value::Object(new)) => {
                Some(Value::Object(merge_map(field.and_then(struct_of), old, new)?))
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                Some(Value::Array(merge_list(field, old, new, is_delete_list)?))
            }
            (old, _) if is_delete_list => old,
            (_, new) => without_directives(without_nulls(new)),
        };
        if let Some(value) = merged {
            original.insert(key, value);
        }
    }
    Ok(original)
}

/// The structure of a field's value or of its items.
fn struct_of(field: &Field) -> Option<StructId> {
    match &field.ty {
        Type::Struct(id) => Some(*id),
        Type::List(item) | Type::Map(item) => match item.as_ref() {
            Type::Struct(id) => Some(*id),
            _ => None,
        },
        _ => None,
    }
}

fn unknown_directive(map: &Object) -> Status {
    let directive = map.get(PATCH).map(go_string).unwrap_or_default();
    let map = go_fmt(&Value::Object(map.clone()));
    Status::server_error(format!("unknown patch type: {directive} in map: {map}"))
}

fn unexpected(expected: &str, found: &str) -> Status {
    Status::server_error(format!("expected a {expected}, but received a {found}"))
}

fn no_merge_key(item: &Value, key: &str) -> Status {
    if !item.is_object() {
        return unexpected("map[string]interface {}", go_type(item));
    }
    Status::server_error(format!("map: {} does not contain declared merge key: {key}", go_fmt(item)))
}

fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), Status> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(keys) = keys else { return Err(bad("invalid patch format of retainKeys")) };
    let kept = |name: &str| keys.iter().any(|k| k.as_str() == Some(name));
    for (name, value) in patch.iter() {
        let directive = name.starts_with(DELETE_PREFIX) || name.starts_with(ORDER_PREFIX);
        if !value.is_null() && !directive && !kept(name) {
            return Err(bad("invalid patch format of retainKeys"));
        }
    }
    original.retain(|name, _| kept(name));
    Ok(())
}

/// Handles every `$setElementOrder/…` together with the list it is about.
fn set_element_order(id: Option<StructId>, original: &mut Object, patch: &mut Object) -> Result<(), Status> {
    let directives: Vec<String> = patch.keys().filter(|k| k.starts_with(ORDER_PREFIX)).cloned().collect();
    for directive in directives {
        let order = match patch.remove(&directive) {
            Some(Value::Array(order)) => order,
            other => {
                let found = go_type(&other.unwrap_or(Value::Null));
                return Err(unexpected("[]interface {}", found));
            }
        };
        let name = &directive[ORDER_PREFIX.len()..];
        let structure = id.map(|id| schema().get(id));
        let field = structure.and_then(|s| s.field(name));
        if let (Some(structure), None) = (structure, field) {
            return Err(Status::server_error(format!(
                "unable to find api field in struct {} for the json field {name:?}",
                structure.short_name()
            )));
        }
        let key = field.and_then(|f| f.merge_key.as_deref()).unwrap_or("");
        let new = list_of(patch.remove(name))?;
        if let Some(new) = &new {
            check_order(new, &order, key)?;
        }
        let old = list_of(original.remove(name))?;
        let before = old.clone().unwrap_or_default();
        let merged = match (old, new) {
            (None, None) => continue,
            (Some(old), None) => old,
            (None, Some(new)) => match without_directives(Value::Array(new)) {
                Some(Value::Array(items)) => items,
                _ => continue,
            },
            (Some(old), Some(new)) => merge_list(field, old, new, false)?,
        };
        let sorted = by_order(merged, &order, &before, key)?;
        original.insert(name.to_owned(), Value::Array(sorted));
    }
    Ok(())
}

fn list_of(value: Option<Value>) -> Result<Option<Vec<Value>>, Status> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => Err(unexpected("[]interface {}", go_type(&other))),
    }
}

/// The items of the patch must stand in the order that the directive gives.
fn check_order(patch: &[Value], order: &[Value], key: &str) -> Result<(), Status> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut at = order.iter();
    for item in patch.iter().filter(|i| i.get(PATCH).is_none()) {
        loop {
            let Some(next) = at.next() else {
                return Err(Status::server_error(format!(
                    "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                    go_fmt(&Value::Array(patch.to_vec())),
                    go_fmt(&Value::Array(order.to_vec()))
                )));
            };
            if same_item(item, next, key)? {
                break;
            }
        }
    }
    Ok(())
}

fn same_item(a: &Value, b: &Value, key: &str) -> Result<bool, Status> {
    if key.is_empty() {
        return Ok(a == b);
    }
    let a_key = a.get(key).ok_or_else(|| no_merge_key(a, key))?;
    let b_key = b.get(key).ok_or_else(|| no_merge_key(b, key))?;
    Ok(a_key == b_key)
}

fn merge_list(
    field: Option<&Field>,
    mut old: Vec<Value>,
    new: Vec<Value>,
    is_delete_list: bool,
) -> Result<Vec<Value>, Status> {
    if !is_delete_list && !field.is_some_and(|f| f.merge) {
        return Ok(new);
    }
    if old.is_empty() && new.is_empty() {
        return Ok(old);
    }
    if old.iter().chain(&new).any(Value::is_array) {
        return Err(Status::unprocessable("lists of lists are not supported"));
    }
    let mut types = old.iter().chain(&new).map(go_type);
    let first = types.next();
    if types.any(|ty| Some(ty) != first) {
        let lists = [Value::Array(old), Value::Array(new)];
        let shown: Vec<String> = lists.iter().map(go_fmt).collect();
        return Err(Status::server_error(format!(
            "list element types are not identical: [{}]",
            shown.join(" ")
        )));
    }
    if !old.iter().chain(&new).any(Value::is_object) {
        if is_delete_list {
            old.retain(|item| !new.contains(item));
            return Ok(old);
        }
        let before = old.clone();
        for item in &new {
            if !old.contains(item) {
                old.push(item.clone());
            }
        }
        return by_order(old, &new, &before, "");
    }
    let key = field.and_then(|f| f.merge_key.as_deref()).unwrap_or("");
    if key.is_empty() {
        let name = field.and_then(struct_of).map(|id| schema().get(id).short_name()).unwrap_or("");
        return Err(Status::server_error(format!("cannot merge lists without merge key for {name}")));
    }
    let (mut old, new) = list_directives(old, new, key)?;
    let before = old.clone();
    for item in &new {
        let value = item.get(key).ok_or_else(|| no_merge_key(item, key))?;
        let found = old.iter().position(|o| o.get(key) == Some(value));
        match (found, item) {
            (Some(at), Value::Object(item)) => {
                let Value::Object(current) = old[at].take() else { continue };
                let merged = merge_map(field.and_then(struct_of), current, item.clone())?;
                old[at] = Value::Object(merged);
            }
            _ => old.push(item.clone()),
        }
    }
    by_order(old, &new, &before, key)
}

/// Takes the items with `$patch` out of a list and does what they say.
fn list_directives(
    mut old: Vec<Value>,
    new: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Status> {
    let mut rest = Vec::new();
    let mut replace = false;
    for item in new {
        match item.get(PATCH).map(|d| d.as_str().unwrap_or("")) {
            None => rest.push(item),
            Some("delete") => {
                let value = item.get(key).ok_or_else(|| no_merge_key(&item, key))?;
                old.retain(|o| o.get(key) != Some(value));
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(Status::server_error("merging lists cannot yet be specified in the patch"));
            }
            Some(_) => {
                let map = item.as_object().cloned().unwrap_or_default();
                return Err(unknown_directive(&map));
            }
        }
    }
    if replace { Ok((rest, Vec::new())) } else { Ok((old, rest)) }
}

/// Items named in `order` follow it; the others keep the place they had before, as far as both allow.
fn by_order(items: Vec<Value>, order: &[Value], before: &[Value], key: &str) -> Result<Vec<Value>, Status> {
    if !key.is_empty() {
        for item in items.iter().chain(order) {
            item.get(key).ok_or_else(|| no_merge_key(item, key))?;
        }
    }
    let at = |list: &[Value], item: &Value| {
        list.iter().position(|o| if key.is_empty() { o == item } else { o.get(key) == item.get(key) })
    };
    let (mut ours, mut rest): (Vec<Value>, Vec<Value>) =
        items.into_iter().partition(|item| at(order, item).is_some());
    let compare = |list: &[Value], a: &Value, b: &Value| match (at(list, a), at(list, b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => Ordering::Equal,
    };
    ours.sort_by(|a, b| compare(order, a, b));
    rest.sort_by(|a, b| compare(before, a, b));
    let mut out = Vec::with_capacity(ours.len() + rest.len());
    let (mut ours, mut rest) = (ours.into_iter().peekable(), rest.into_iter().peekable());
    loop {
        let next = match (rest.peek(), ours.peek()) {
            (None, None) => return Ok(out),
            (Some(left), Some(right)) => match (at(before, left), at(before, right)) {
                (Some(l), Some(r)) if l < r => rest.next(),
                _ => ours.next(),
            },
            (Some(_), None) => rest.next(),
            (None, Some(_)) => ours.next(),
        };
        out.extend(next);
    }
}

/// Drops maps that carry a directive; None if the value itself is one.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(PATCH) => None,
        Value::Object(map) => Some(Value::Object(
            map.into_iter().filter_map(|(k, v)| Some((k, without_directives(v)?))).collect(),
        )),
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, without_nulls(v))).collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
