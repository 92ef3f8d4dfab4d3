//! Which fields an object has, and which differ between two.

use serde_json::Value;

use super::set::{Element, FieldSet};
use super::shape::{Node, Shape, item_element};

/// Differences from one object to another.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Only in the second.
    pub added: FieldSet,
    /// In both, unequal.
    pub modified: FieldSet,
    /// Only in the first.
    pub removed: FieldSet,
}

/// The fields of an object.
pub fn fields(node: Node<'_>, value: &Value) -> FieldSet {
    let mut out = FieldSet::default();
    collect(node, value, &mut Vec::new(), &mut out);
    out
}

fn collect(node: Node<'_>, value: &Value, path: &mut Vec<Element>, out: &mut FieldSet) {
    match (node.shape(value), value) {
        (Shape::Map, Value::Object(map)) => {
            for (key, value) in map {
                path.push(Element::Field(key.clone()));
                let child = node.child(key);
                collect(child, value, path, out);
                let nothing = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                if nothing {
                    out.insert(path);
                }
                path.pop();
            }
        }
        (shape @ (Shape::Set | Shape::Keyed(_)), Value::Array(items)) => {
            for item in items {
                let Some(element) = item_element(node, &shape, item) else { continue };
                path.push(element);
                if matches!(shape, Shape::Keyed(_)) {
                    collect(node.item(), item, path, out);
                }
                out.insert(path);
                path.pop();
            }
        }
        (Shape::Map | Shape::Set | Shape::Keyed(_), Value::Null) => {}
        _ => out.insert(path),
    }
}

/// Compares two objects of a kind.
pub fn compare(node: Node<'_>, old: &Value, new: &Value) -> Comparison {
    let mut out = Comparison::default();
    walk(node, Some(old), Some(new), &mut Vec::new(), &mut out);
    out
}

fn is_void(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

/// The items of a list by what tells them apart; several that are told apart by nothing stand together.
fn index<'v>(node: Node<'_>, shape: &Shape, list: Option<&'v Value>) -> Vec<(Element, Vec<&'v Value>)> {
    let items = list.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut out: Vec<(Element, Vec<&Value>)> = Vec::with_capacity(items.len());
    for item in items {
        let Some(element) = item_element(node, shape, item) else { continue };
        match out.iter_mut().find(|(known, _)| *known == element) {
            Some((_, same)) => same.push(item),
            None => out.push((element, vec![item])),
        }
    }
    out
}

/// The items that are told from others by this.
fn same<'a, 'v>(side: &'a [(Element, Vec<&'v Value>)], wanted: &Element) -> &'a [&'v Value] {
    side.iter().find(|(element, _)| element == wanted).map_or(&[], |(_, items)| items)
}

fn walk(
    node: Node<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    path: &mut Vec<Element>,
    out: &mut Comparison,
) {
    if old == new {
        return;
    }
    let sample = new.filter(|v| !v.is_null()).or(old).unwrap_or(&Value::Null);
    let shape = node.shape(sample);
    let container = |v: Option<&Value>| match shape {
        Shape::Map => v.is_none_or(|v| v.is_object() || v.is_null()),
        _ => v.is_none_or(|v| v.is_array() || v.is_null()),
    };
    let leaf = shape == Shape::Leaf || (is_void(old) && is_void(new)) || !container(old) || !container(new);
    match (old, new) {
        (None, Some(_)) => out.added.insert(path),
        (Some(_), None) => out.removed.insert(path),
        (Some(old), Some(new)) if leaf && old != new => out.modified.insert(path),
        _ => {}
    }
    if leaf {
        return;
    }
    if shape == Shape::Map {
        let empty = serde_json::Map::new();
        let (before, after) = (
            old.and_then(Value::as_object).unwrap_or(&empty),
            new.and_then(Value::as_object).unwrap_or(&empty),
        );
        let keys = before.keys().chain(after.keys().filter(|k| !before.contains_key(*k)));
        for key in keys {
            let (was, is) = (before.get(key), after.get(key));
            if was != is {
                path.push(Element::Field(key.clone()));
                walk(node.child(key), was, is, path, out);
                path.pop();
            }
        }
        return;
    }
    let (before, after) = (index(node, &shape, old), index(node, &shape, new));
    let fresh = after.iter().filter(|(element, _)| !before.iter().any(|(known, _)| known == element));
    for (element, _) in before.iter().chain(fresh) {
        let (was, is) = (same(&before, element), same(&after, element));
        path.push(element.clone());
        // Items that nothing tells apart have one owner together.
        match (was.len(), is.len()) {
            (0 | 1, 0 | 1) => walk(node.item(), was.first().copied(), is.first().copied(), path, out),
            (0 | 1, _) => {
                walk(node.item(), was.first().copied(), None, path, out);
                out.added.insert(path);
            }
            (_, 0 | 1) => {
                walk(node.item(), None, is.first().copied(), path, out);
                out.removed.insert(path);
            }
            _ if was != is => out.modified.insert(path),
            _ => {}
        }
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::schema;
    use serde_json::json;

    #[test]
    fn differences_name_items_by_key() {
        let id = schema().named("io.k8s.api.core.v1.PodSpec").expect("known");
        let node = Node::Struct(id, None);
        let old = json!({"containers": [{"name": "c", "image": "a"}], "nodeName": "n"});
        let new = json!({"containers": [{"name": "c", "image": "b"}, {"name": "d"}]});
        let found = compare(node, &old, &new);
        assert_eq!(found.modified.encode(), json!({"f:containers": {"k:{\"name\":\"c\"}": {"f:image": {}}}}));
        assert_eq!(
            found.added.encode(),
            json!({"f:containers": {"k:{\"name\":\"d\"}": {".": {}, "f:name": {}}}})
        );
        assert_eq!(found.removed.encode(), json!({"f:nodeName": {}}));
        assert_eq!(
            fields(node, &json!({"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]})).encode(),
            json!({"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}}})
        );
    }
}
