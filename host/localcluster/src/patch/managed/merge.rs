//! Merging an applied configuration into an object, and taking away what nobody wants any more.

use serde_json::{Map, Value};

use super::set::{Element, FieldSet};
use super::shape::{Node, Shape, item_element};

/// `live` with what `config` says.
pub fn merge(node: Node<'_>, live: &Value, config: &Value) -> Value {
    match (node.shape(config), live, config) {
        (Shape::Map, Value::Object(live), Value::Object(config)) => {
            let mut out = live.clone();
            for (key, value) in config {
                let merged = match live.get(key) {
                    Some(old) => merge(node.child(key), old, value),
                    None => value.clone(),
                };
                out.insert(key.clone(), merged);
            }
            Value::Object(out)
        }
        (shape @ (Shape::Set | Shape::Keyed(_)), Value::Array(live), Value::Array(config)) => {
            Value::Array(merge_lists(node, &shape, live, config))
        }
        // Nothing is asked for: a map or a list whose items have owners of their own keeps them.
        (_, live, Value::Null) if node.shape(live) != Shape::Leaf && !crate::kinds::value::empty(live) => {
            live.clone()
        }
        _ => config.clone(),
    }
}

/// Items of `config` keep their order, items only in `live` keep their place between them.
fn merge_lists(node: Node<'_>, shape: &Shape, live: &[Value], config: &[Value]) -> Vec<Value> {
    let keyed = |items: &[Value]| -> Vec<(Element, Value)> {
        items.iter().filter_map(|i| Some((item_element(node, shape, i)?, i.clone()))).collect()
    };
    let (left, right) = (keyed(live), keyed(config));
    let find = |list: &[(Element, Value)], e: &Element| {
        list.iter().find(|(own, _)| own == e).map(|(_, v)| v.clone())
    };
    let mut shared = right.iter().map(|r| &r.0).filter(|e| find(&left, e).is_some());
    let mut next_shared = shared.next();
    let both = |element: &Element| {
        let config = find(&right, element).unwrap_or_default();
        match (shape, find(&left, element)) {
            (Shape::Keyed(_), Some(live)) => merge(node.item(), &live, &config),
            _ => config,
        }
    };
    let (mut out, mut done): (Vec<Value>, Vec<&Element>) = (Vec::new(), Vec::new());
    let (mut l, mut r) = (0, 0);
    while l < left.len() || r < right.len() {
        if l < left.len() && r < right.len() {
            let element = &left[l].0;
            if *element == right[r].0 {
                out.push(both(element));
                done.push(element);
                (l, r) = (l + 1, r + 1);
                next_shared = shared.next();
                continue;
            }
            let in_config = find(&right, element).is_some();
            if in_config && next_shared.is_some_and(|n| n != element) {
                l += 1;
                continue;
            }
        }
        if l < left.len() {
            let element = &left[l].0;
            if find(&right, element).is_none() {
                out.push(left[l].1.clone());
                l += 1;
                continue;
            }
            if done.contains(&element) {
                l += 1;
            }
        }
        if r < right.len() {
            let element = &right[r].0;
            out.push(both(element));
            done.push(element);
            r += 1;
            if next_shared == Some(element) {
                next_shared = shared.next();
            }
        }
    }
    out
}

/// `value` without the paths of `gone`, and without what is below them.
pub fn remove(node: Node<'_>, value: &Value, gone: &FieldSet) -> Value {
    match (node.shape(value), value) {
        (Shape::Map, Value::Object(map)) => {
            let mut out = Map::new();
            for (key, value) in map {
                let step = Element::Field(key.clone());
                if gone.is_member(&step) {
                    continue;
                }
                let kept = match gone.child(&step) {
                    Some(below) => remove(node.child(key), value, below),
                    None => value.clone(),
                };
                out.insert(key.clone(), kept);
            }
            Value::Object(out)
        }
        (shape @ (Shape::Set | Shape::Keyed(_)), Value::Array(items)) => {
            let mut out = Vec::new();
            for item in items {
                let Some(step) = item_element(node, &shape, item) else {
                    out.push(item.clone());
                    continue;
                };
                if gone.is_member(&step) {
                    continue;
                }
                out.push(match gone.child(&step) {
                    Some(below) => remove(node.item(), item, below),
                    None => item.clone(),
                });
            }
            Value::Array(out)
        }
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::schema;
    use serde_json::json;

    #[test]
    fn null_asks_for_nothing_of_what_is_owned_piece_by_piece() {
        let id = schema().named("io.k8s.api.core.v1.PodSpec").expect("known");
        let merged = |live: Value, config: Value| merge(Node::Struct(id, None), &live, &config);
        let live = json!({"containers": [{"name": "a"}], "nodeName": "n", "nodeSelector": {}});
        let config = json!({"containers": null, "nodeName": null, "nodeSelector": null});
        let want = json!({"containers": [{"name": "a"}], "nodeName": null, "nodeSelector": null});
        assert_eq!(merged(live, config), want);
    }

    #[test]
    fn lists_keep_the_order_of_both_sides() {
        let id = schema().named("io.k8s.api.core.v1.PodSpec").expect("known");
        let node = Node::Struct(id, None).child("containers");
        let names = |names: &[&str]| Value::Array(names.iter().map(|n| json!({"name": n})).collect());
        for (live, config, want) in [
            (vec!["a", "b"], vec!["c"], vec!["a", "b", "c"]),
            (vec!["a", "b", "c"], vec!["c", "a"], vec!["b", "c", "a"]),
            (vec!["a"], vec!["b", "a"], vec!["b", "a"]),
        ] {
            assert_eq!(merge(node, &names(&live), &names(&config)), names(&want), "{live:?} {config:?}");
        }
    }
}
