//! Field paths, as manifests write them, and the trees they make.
//!
//! In: `status.conditions[*].{type,status}`. Out: a [`FieldTree`] that says for
//! each field of an object whether it is kept, in whole or in part. Invariant: a
//! tree is canonical, so that two modules that ask for the same fields in
//! another order share one view.

use std::collections::BTreeMap;

/// A path that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field path `{path}`: {reason} at character {at}")]
pub struct PathError {
    /// The path.
    pub path: String,
    /// What is wrong.
    pub reason: &'static str,
    /// Where, counted from 1.
    pub at: usize,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Into this field.
    Field(Box<str>),
    /// Into each element of an array.
    Each,
}

/// A path with its braces expanded.
pub type Path = Vec<Part>;

/// Reads a path; braces make several of it.
pub fn parse(text: &str) -> Result<Vec<Path>, PathError> {
    let mut parser = Parser { text, chars: text.char_indices().collect(), next: 0 };
    let paths = parser.path()?;
    if parser.next < parser.chars.len() {
        return Err(parser.error("unexpected character"));
    }
    Ok(paths)
}

struct Parser<'a> {
    text: &'a str,
    chars: Vec<(usize, char)>,
    next: usize,
}

impl Parser<'_> {
    fn error(&self, reason: &'static str) -> PathError {
        PathError { path: self.text.to_owned(), reason, at: self.next + 1 }
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.next).map(|(_, c)| *c)
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.next += usize::from(found);
        found
    }

    /// `part ('.' part)*`, where a part is a name, a quoted name or a brace
    /// group, each followed by any number of `[*]`.
    fn path(&mut self) -> Result<Vec<Path>, PathError> {
        let mut paths: Vec<Path> = vec![Vec::new()];
        loop {
            let tails = match self.peek() {
                Some('{') => self.group()?,
                Some('"') => vec![vec![Part::Field(self.quoted()?)]],
                _ => vec![vec![Part::Field(self.bare()?)]],
            };
            paths =
                paths.iter().flat_map(|head| tails.iter().map(|tail| [&head[..], tail].concat())).collect();
            while self.eat('[') {
                if !(self.eat('*') && self.eat(']')) {
                    return Err(self.error("expected `[*]`"));
                }
                paths.iter_mut().for_each(|path| path.push(Part::Each));
            }
            if !self.eat('.') {
                return Ok(paths);
            }
        }
    }

    fn group(&mut self) -> Result<Vec<Path>, PathError> {
        self.next += 1;
        let mut paths = Vec::new();
        loop {
            paths.extend(self.path()?);
            if self.eat('}') {
                return Ok(paths);
            }
            if !self.eat(',') {
                return Err(self.error("expected `,` or `}`"));
            }
        }
    }

    fn quoted(&mut self) -> Result<Box<str>, PathError> {
        self.next += 1;
        let mut name = String::new();
        loop {
            let Some(c) = self.peek() else { return Err(self.error("the quoted part does not end")) };
            self.next += 1;
            match c {
                '"' if name.is_empty() => return Err(self.error("the quoted part is empty")),
                '"' => return Ok(name.into()),
                '\\' => {
                    let Some(escaped) = self.peek() else {
                        return Err(self.error("the quoted part does not end"));
                    };
                    self.next += 1;
                    name.push(escaped);
                }
                c => name.push(c),
            }
        }
    }

    fn bare(&mut self) -> Result<Box<str>, PathError> {
        let mut name = String::new();
        while let Some(c) = self.peek() {
            if matches!(c, '.' | '[' | ']' | '{' | '}' | ',' | '"') {
                break;
            }
            if c.is_whitespace() || c == '*' {
                return Err(self.error("this character needs quotes"));
            }
            name.push(c);
            self.next += 1;
        }
        if name.is_empty() { Err(self.error("expected the name of a field")) } else { Ok(name.into()) }
    }
}

/// Which fields are kept below one value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldTree {
    /// Everything is kept; the rest is then empty.
    whole: bool,
    fields: BTreeMap<Box<str>, FieldTree>,
    each: Option<Box<FieldTree>>,
}

/// Parts of the metadata that are always kept, in a form of their own.
const PARSED: [&str; 6] = ["name", "namespace", "uid", "labels", "ownerReferences", "finalizers"];
/// Parts of the metadata that are always kept as they are.
const KEPT: [&str; 4] =
    ["creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation"];
/// Parts of the metadata that no module ever sees.
const NEVER: [&str; 2] = ["managedFields", "resourceVersion"];

impl FieldTree {
    /// What is always kept, and these paths.
    pub fn new(paths: impl IntoIterator<Item = Path>) -> Self {
        let mut tree = Self::default();
        for kept in KEPT {
            tree.insert(&[Part::Field("metadata".into()), Part::Field(kept.into())]);
        }
        for path in paths {
            match path.as_slice() {
                [Part::Field(top), ..] if matches!(&**top, "apiVersion" | "kind") => {}
                [Part::Field(top), Part::Field(sub), ..]
                    if &**top == "metadata"
                        && (PARSED.contains(&&**sub)
                            || NEVER.contains(&&**sub)
                            || KEPT.contains(&&**sub)) => {}
                path => tree.insert(path),
            }
        }
        tree
    }

    /// The whole object.
    pub fn everything() -> Self {
        Self { whole: true, ..Self::default() }
    }

    fn insert(&mut self, path: &[Part]) {
        if self.whole {
            return;
        }
        match path {
            [] => *self = Self::everything(),
            [Part::Field(name), rest @ ..] => self.fields.entry(name.clone()).or_default().insert(rest),
            [Part::Each, rest @ ..] => self.each.get_or_insert_default().insert(rest),
        }
    }

    /// Keeps what either keeps.
    pub fn join(&mut self, other: &Self) {
        if self.whole {
            return;
        }
        if other.whole {
            *self = Self::everything();
            return;
        }
        for (name, tree) in &other.fields {
            self.fields.entry(name.clone()).or_default().join(tree);
        }
        if let Some(tree) = &other.each {
            self.each.get_or_insert_default().join(tree);
        }
    }

    /// Whether all that `other` keeps is kept here as well.
    pub fn covers(&self, other: &Self) -> bool {
        if self.whole {
            return true;
        }
        let fields =
            other.fields.iter().all(|(name, tree)| self.fields.get(name).is_some_and(|own| own.covers(tree)));
        let each =
            other.each.as_ref().is_none_or(|tree| self.each.as_ref().is_some_and(|own| own.covers(tree)));
        !other.whole && fields && each
    }

    /// Paths of what `other` keeps and this does not, for people.
    pub fn missing(&self, other: &Self) -> Vec<String> {
        if self.whole {
            return Vec::new();
        }
        if other.whole {
            return vec!["(all)".to_owned()];
        }
        let nothing = Self::default();
        let mut paths = Vec::new();
        let mut below = |name: &str, ours: Option<&Self>, theirs: &Self| {
            if theirs.whole && ours.is_none_or(|ours| !ours.whole) {
                paths.push(name.to_owned());
                return;
            }
            let missing = ours.unwrap_or(&nothing).missing(theirs);
            paths.extend(missing.into_iter().map(|path| {
                if path.starts_with('[') { format!("{name}{path}") } else { format!("{name}.{path}") }
            }));
        };
        for (name, tree) in &other.fields {
            below(name, self.fields.get(name), tree);
        }
        if let Some(tree) = &other.each {
            below("[*]", self.each.as_deref(), tree);
        }
        paths
    }

    /// Whether all below is kept.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// What is kept of a field; none: nothing.
    pub fn field(&self, name: &str) -> Option<&Self> {
        if self.whole { Some(self) } else { self.fields.get(name) }
    }

    /// What is kept of each element of an array; none: nothing.
    pub fn each(&self) -> Option<&Self> {
        if self.whole { Some(self) } else { self.each.as_deref() }
    }

    /// Adds the names of all fields that are named.
    pub(super) fn names<'a>(&'a self, names: &mut Vec<&'a str>) {
        for (name, tree) in &self.fields {
            names.push(name);
            tree.names(names);
        }
        if let Some(tree) = &self.each {
            tree.names(names);
        }
    }

    /// Whether only metadata is kept.
    pub fn is_metadata_only(&self) -> bool {
        !self.whole && self.fields.keys().all(|name| &**name == "metadata")
    }

    /// Of an object only the metadata.
    pub fn metadata_part(&self) -> Self {
        let metadata = self.field("metadata").cloned();
        Self {
            fields: metadata.into_iter().map(|tree| ("metadata".into(), tree)).collect(),
            ..Self::default()
        }
    }

    /// Path of an array in a merge patch that would replace elements which are
    /// kept only in part.
    pub fn pruned_array(&self, patch: &serde_json::Value) -> Option<String> {
        if self.whole {
            return None;
        }
        match patch {
            serde_json::Value::Array(_) => self.each.is_some().then(String::new),
            serde_json::Value::Object(fields) => fields.iter().find_map(|(name, value)| {
                let below = self.fields.get(name.as_str())?.pruned_array(value)?;
                Some(if below.is_empty() { name.clone() } else { format!("{name}.{below}") })
            }),
            _ => None,
        }
    }
}

/// Whether a field of the metadata is kept in the parsed record.
pub(super) fn is_never_kept(name: &str) -> bool {
    NEVER.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(path: &Path) -> String {
        path.iter()
            .map(|part| match part {
                Part::Field(name) => format!("/{name}"),
                Part::Each => "/*".into(),
            })
            .collect()
    }

    fn tree(paths: &[&str]) -> FieldTree {
        FieldTree::new(paths.iter().flat_map(|path| parse(path).unwrap()))
    }

    #[test]
    fn paths_are_read() {
        let table: &[(&str, &[&str])] = &[
            ("spec", &["/spec"]),
            ("spec.replicas", &["/spec/replicas"]),
            (
                "status.conditions[*].{type,status}",
                &["/status/conditions/*/type", "/status/conditions/*/status"],
            ),
            ("a[*][*].b", &["/a/*/*/b"]),
            ("metadata.annotations.\"example.com/x\"", &["/metadata/annotations/example.com/x"]),
            ("{a,b.{c,d}}.e", &["/a/e", "/b/c/e", "/b/d/e"]),
            ("a.{b,c}[*].d", &["/a/b/*/d", "/a/c/*/d"]),
            (r#"a."b\"c\\d""#, &[r#"/a/b"c\d"#]),
            ("a.b-c_d/e", &["/a/b-c_d/e"]),
        ];
        for (text, expected) in table {
            let got: Vec<String> = parse(text).unwrap().iter().map(show).collect();
            assert_eq!(&got, expected, "{text}");
        }
    }

    #[test]
    fn broken_paths_are_refused_where_they_break() {
        let table = [
            ("", 1),
            (".a", 1),
            ("a.", 3),
            ("a..b", 3),
            ("a[0]", 3),
            ("a[*", 4),
            ("{a,b", 5),
            ("{}", 2),
            ("a}", 2),
            ("a b", 2),
            ("a.*", 3),
            ("\"a", 3),
            ("\"\"", 3),
            ("a[*]b", 5),
            ("{a,}", 4),
        ];
        for (text, at) in table {
            let error = parse(text).expect_err(text);
            assert_eq!((error.at, error.path.as_str()), (at, text), "{error}");
        }
    }

    #[test]
    fn order_and_repetition_do_not_matter() {
        assert_eq!(tree(&["spec.a", "spec.b", "metadata.name"]), tree(&["spec.{b,a}", "spec.a"]));
        assert_eq!(tree(&["spec", "spec.a"]), tree(&["spec.a", "spec"]));
        assert_ne!(tree(&["spec.a"]), tree(&["spec.a[*]"]));
    }

    #[test]
    fn covering_follows_joining() {
        let (a, b) = (tree(&["spec.a", "status.c[*].x"]), tree(&["spec.b", "status.c[*].y"]));
        let mut both = a.clone();
        both.join(&b);
        assert!(both.covers(&a) && both.covers(&b) && !a.covers(&b) && !a.covers(&both));
        assert!(
            tree(&["spec"]).covers(&tree(&["spec.a.b[*]"])) && !tree(&["spec.a"]).covers(&tree(&["spec"]))
        );
        assert!(FieldTree::everything().covers(&both) && !both.covers(&FieldTree::everything()));
    }

    #[test]
    fn a_patch_of_an_array_seen_in_part_is_found() {
        let tree = tree(&["spec.list", "status.conditions[*].type"]);
        assert_eq!(
            tree.pruned_array(&serde_json::json!({"status": {"conditions": []}})),
            Some("status.conditions".into())
        );
        assert_eq!(
            tree.pruned_array(&serde_json::json!({"spec": {"list": [1]}, "status": {"phase": "x"}})),
            None
        );
        assert_eq!(
            FieldTree::everything().pruned_array(&serde_json::json!({"status": {"conditions": []}})),
            None
        );
    }
}
