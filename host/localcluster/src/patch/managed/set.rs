//! Sets of field paths, and their form in `managedFields`.
//!
//! In: paths. Out: set operations and the `FieldsV1` form. Invariant: no child set is empty.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Map, Value, json};

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// A field or map key.
    Field(String),
    /// An item told by its keys: canonical JSON of the key fields.
    Key(String),
    /// An item that is its own key: canonical JSON of the value.
    Value(String),
}

impl Element {
    fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" => Some(Self::Field(rest.to_owned())),
            "k" => {
                let value: Value = serde_json::from_str(rest).ok()?;
                value.is_object().then(|| Self::Key(value.to_string()))
            }
            "v" => serde_json::from_str::<Value>(rest).ok().map(|v| Self::Value(v.to_string())),
            _ => None,
        }
    }

    fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => format!("k:{keys}"),
            Self::Value(value) => format!("v:{value}"),
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Key(keys) => {
                let map: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                let parts: Vec<String> = map.iter().map(|(k, v)| format!("{k}={v}")).collect();
                write!(f, "[{}]", parts.join(","))
            }
        }
    }
}

/// A set of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    members: BTreeSet<Element>,
    children: BTreeMap<Element, FieldSet>,
}

impl FieldSet {
    /// Whether there is no path in it.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.is_empty()
    }

    /// Adds a path; the empty path is not kept.
    pub fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Whether a path is in it.
    pub fn contains(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.members.contains(last),
            [first, rest @ ..] => self.children.get(first).is_some_and(|c| c.contains(rest)),
        }
    }

    /// What is below a step.
    pub fn child(&self, step: &Element) -> Option<&Self> {
        self.children.get(step)
    }

    /// Whether a path of one step is in it.
    pub fn is_member(&self, step: &Element) -> bool {
        self.members.contains(step)
    }

    /// Everything in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.clone().joined(other.clone())
    }

    /// Everything in either, of sets that are not needed any more.
    #[must_use]
    pub fn joined(mut self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        self.members.extend(other.members);
        for (step, child) in other.children {
            let own = self.children.remove(&step).unwrap_or_default();
            self.children.insert(step, own.joined(child));
        }
        self
    }

    /// What is in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut out =
            Self { members: self.members.intersection(&other.members).cloned().collect(), ..Self::default() };
        for (step, child) in &self.children {
            if let Some(both) = other.children.get(step).map(|o| child.intersection(o)) {
                if !both.is_empty() {
                    out.children.insert(step.clone(), both);
                }
            }
        }
        out
    }

    /// What is in this one only; paths below a path of the other stay.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut out =
            Self { members: self.members.difference(&other.members).cloned().collect(), ..Self::default() };
        for (step, child) in &self.children {
            let left = match other.children.get(step) {
                Some(o) => child.difference(o),
                None => child.clone(),
            };
            if !left.is_empty() {
                out.children.insert(step.clone(), left);
            }
        }
        out
    }

    /// Drops paths and everything below them.
    #[must_use]
    pub fn without(mut self, paths: &[&[&str]]) -> Self {
        for path in paths {
            let path: Vec<Element> = path.iter().map(|s| Element::Field((*s).to_owned())).collect();
            self.cut(&path);
        }
        self
    }

    fn cut(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => {
                self.members.remove(last);
                self.children.remove(last);
            }
            [first, rest @ ..] => {
                if let Some(child) = self.children.get_mut(first) {
                    child.cut(rest);
                    if child.is_empty() {
                        self.children.remove(first);
                    }
                }
            }
        }
    }

    /// Adds every field on the way to a path as a path of its own; keys and values of lists are not added.
    #[must_use]
    pub fn with_parents(&self) -> Self {
        let mut out = self.clone();
        for (step, child) in &mut out.children {
            *child = child.with_parents();
            if matches!(step, Element::Field(_)) {
                out.members.insert(step.clone());
            }
        }
        out
    }

    /// All paths, in order.
    pub fn paths(&self) -> Vec<Vec<Element>> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, prefix: &mut Vec<Element>, out: &mut Vec<Vec<Element>>) {
        // What is here comes before what is deeper.
        for step in &self.members {
            prefix.push(step.clone());
            out.push(prefix.clone());
            prefix.pop();
        }
        for (step, child) in &self.children {
            prefix.push(step.clone());
            child.collect(prefix, out);
            prefix.pop();
        }
    }

    /// From `FieldsV1`.
    pub fn decode(value: &Value) -> Option<Self> {
        let mut out = Self::default();
        for (key, inner) in value.as_object()? {
            if key == "." {
                continue;
            }
            let step = Element::parse(key)?;
            let map = inner.as_object()?;
            if map.is_empty() || map.contains_key(".") {
                out.members.insert(step.clone());
            }
            let child = Self::decode(inner)?;
            if !child.is_empty() {
                out.children.insert(step, child);
            }
        }
        Some(out)
    }

    /// To `FieldsV1`.
    pub fn encode(&self) -> Value {
        let mut out = Map::new();
        for step in &self.members {
            out.insert(step.encode(), json!({}));
        }
        for (step, child) in &self.children {
            let mut inner = child.encode();
            if self.members.contains(step) {
                inner["."] = json!({});
            }
            out.insert(step.encode(), inner);
        }
        Value::Object(out)
    }
}

/// A path as messages show it: `.spec.containers[name="c"].image`.
pub fn show(path: &[Element]) -> String {
    path.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_survive_their_encoding() {
        let fields = json!({"f:data": {".": {}, "f:k": {}}, "f:spec": {"f:c": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}}}, "f:f": {"v:\"x\"": {}}}});
        let set = FieldSet::decode(&fields).expect("decodes");
        assert_eq!(set.encode(), fields);
        let shown: Vec<String> = set.paths().iter().map(|p| show(p)).collect();
        assert_eq!(
            shown,
            [".data", ".data.k", ".spec.c[name=\"c\"]", ".spec.c[name=\"c\"].image", ".spec.f[=\"x\"]"]
        );
        assert!(set.difference(&set).is_empty());
        assert_eq!(set.union(&set), set);
        assert_eq!(set.intersection(&set), set);
    }
}
