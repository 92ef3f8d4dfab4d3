//! Paths of a manifest, and objects cut down to them.
//!
//! Invariant: what no path names is not there, as in the host's cache.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::contract::Read;
use crate::paths::ALWAYS;

/// Fields kept, as a tree.
#[derive(Debug, Default)]
pub(super) struct Tree {
    whole: bool,
    fields: BTreeMap<String, Tree>,
    elements: Option<Box<Tree>>,
}

/// One part of a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    /// A field.
    Field(String),
    /// Each element of an array.
    Each,
}

/// What a read keeps.
pub(super) fn kept(read: &Read) -> Result<Tree, String> {
    let mut tree = Tree::default();
    if read.whole {
        tree.whole = true;
        return Ok(tree);
    }
    for path in ALWAYS.into_iter().chain(read.fields.iter().map(String::as_str)) {
        for parts in parse(path)? {
            let mut node = &mut tree;
            for part in parts {
                node = match part {
                    Part::Field(name) => node.fields.entry(name).or_default(),
                    Part::Each => node.elements.get_or_insert_default(),
                };
            }
            node.whole = true;
        }
    }
    Ok(tree)
}

impl Tree {
    /// The part of a value that is kept.
    pub(super) fn cut(&self, value: &Value) -> Value {
        match value {
            _ if self.whole => value.clone(),
            Value::Object(fields) => {
                let kept = fields.iter().filter_map(|(name, value)| {
                    let node = self.fields.get(name)?;
                    Some((name.clone(), node.cut(value)))
                });
                Value::Object(kept.collect::<Map<_, _>>())
            }
            Value::Array(items) => match &self.elements {
                Some(node) => Value::Array(items.iter().map(|item| node.cut(item)).collect()),
                None => Value::Array(Vec::new()),
            },
            other => other.clone(),
        }
    }
}

/// Parses a path; `{a,b}` gives several.
pub(super) fn parse(path: &str) -> Result<Vec<Vec<Part>>, String> {
    let bad = || format!("{path:?} is not a path: see `read` in wit/manifest.wit");
    let mut paths: Vec<Vec<Part>> = vec![Vec::new()];
    let mut rest = path;
    while !rest.is_empty() {
        let names: Vec<&str>;
        if let Some(tail) = rest.strip_prefix('"') {
            let (name, tail) = tail.split_once('"').ok_or_else(bad)?;
            names = vec![name];
            rest = tail;
        } else if let Some(tail) = rest.strip_prefix('{') {
            let (list, tail) = tail.split_once('}').ok_or_else(bad)?;
            names = list.split(',').map(str::trim).collect();
            rest = tail;
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            names = vec![&rest[..end]];
            rest = &rest[end..];
        }
        if names.iter().any(|name| name.is_empty()) {
            return Err(bad());
        }
        let extend = |path: &Vec<Part>, name: &&str| {
            let mut path = path.clone();
            path.push(Part::Field((*name).to_owned()));
            path
        };
        paths = paths.iter().flat_map(|path| names.iter().map(|name| extend(path, name))).collect();
        while let Some(tail) = rest.strip_prefix("[*]") {
            paths.iter_mut().for_each(|path| path.push(Part::Each));
            rest = tail;
        }
        match rest.strip_prefix('.') {
            Some(tail) if !tail.is_empty() => rest = tail,
            Some(_) => return Err(bad()),
            None if rest.is_empty() => {}
            None => return Err(bad()),
        }
    }
    Ok(paths)
}

/// The values that a path finds, as texts.
pub(super) fn find(value: &Value, path: &[Part]) -> Vec<String> {
    let Some((part, rest)) = path.split_first() else {
        return match value {
            Value::String(text) => vec![text.clone()],
            Value::Bool(_) | Value::Number(_) => vec![value.to_string()],
            Value::Array(items) => items.iter().flat_map(|item| find(item, path)).collect(),
            Value::Null | Value::Object(_) => Vec::new(),
        };
    };
    match (part, value) {
        (Part::Field(name), Value::Object(fields)) => fields.get(name).map(|value| find(value, rest)),
        (Part::Each, Value::Array(items)) => Some(items.iter().flat_map(|item| find(item, rest)).collect()),
        _ => None,
    }
    .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::contract::GroupResource;

    fn read(fields: &[&str]) -> Read {
        Read {
            resource: GroupResource {
                group: String::new(),
                version: "v1".to_owned(),
                resource: "pods".to_owned(),
            },
            optional: false,
            fields: fields.iter().map(|field| (*field).to_owned()).collect(),
            whole: false,
            sensitive: Vec::new(),
            indexes: Vec::new(),
        }
    }

    #[test]
    fn only_what_is_named_is_left() {
        let object = json!({
            "kind": "Pod",
            "metadata": {"name": "a", "annotations": {"x.y/z": "1", "other": "2"}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True", "message": "m"}]},
        });
        let tree = kept(&read(&[
            "spec.containers[*].name",
            "status.conditions[*].{type,status}",
            "metadata.annotations.\"x.y/z\"",
        ]))
        .unwrap();
        assert_eq!(
            tree.cut(&object),
            json!({
                "kind": "Pod",
                "metadata": {"name": "a", "annotations": {"x.y/z": "1"}},
                "spec": {"containers": [{"name": "c"}]},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            })
        );
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for bad in ["a.", "a..b", ".a", "a[0]", "a.{b", "a.\"b", "{a,}"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn finding_goes_into_arrays() {
        let path = parse("spec.c[*].n").unwrap().remove(0);
        assert_eq!(find(&json!({"spec": {"c": [{"n": "a"}, {}, {"n": 2}]}}), &path), ["a", "2"]);
    }
}
