//! The field paths of a view, derived from how it is read.
//!
//! In: a view type. Out: the paths a manifest declares for it. A recording
//! reader has each struct read every field it names; lists are entered,
//! maps and raw JSON end a path. Invariant: whatever the view can ever read is
//! under a recorded path, or among the metadata that is always kept.

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::read::{FromJson, Reader};

/// Fields of the metadata that every view has, declared or not.
pub const ALWAYS: [&str; 12] = [
    "apiVersion",
    "kind",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.labels",
    "metadata.ownerReferences",
    "metadata.finalizers",
    "metadata.deletionTimestamp",
    "metadata.deletionGracePeriodSeconds",
    "metadata.generation",
    "metadata.creationTimestamp",
];

/// What a view reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fields {
    /// These paths, sorted, none of them under another.
    Paths(Vec<String>),
    /// The whole object.
    Whole,
}

/// The fields of a view.
pub fn fields_of<V: FromJson>() -> Fields {
    let recorder = Recorder::default();
    // What it says to made-up values is of no account.
    let _ = V::blank().read(Reader::shape(Node { recorder: &recorder, path: String::new() }));
    recorder.fields()
}

#[derive(Default)]
pub(crate) struct Recorder {
    found: RefCell<BTreeSet<String>>,
}

/// A place in a shape.
pub(crate) struct Node<'a> {
    recorder: &'a Recorder,
    path: String,
}

impl<'a> Node<'a> {
    /// Notes that the value here is read.
    pub(crate) fn record(&self) {
        // All elements, whole, are the whole list. A loop, since `trim_end_matches`
        // would bring a search for texts along: 0.8 KB in each guest.
        let mut path = self.path.as_str();
        while let Some(list) = path.strip_suffix("[*]") {
            path = list;
        }
        self.recorder.found.borrow_mut().insert(path.to_owned());
    }

    /// Notes that it is asked whether there is a value here. An object always is,
    /// so of the object itself that asks for nothing.
    pub(crate) fn record_presence(&self) {
        if !self.path.is_empty() {
            self.record();
        }
    }

    /// A field of the object here.
    pub(crate) fn child(&self, field: &str) -> Node<'a> {
        let quote = if field.contains(['.', '/', '[', '{', '"', '*']) { "\"" } else { "" };
        let dot = if self.path.is_empty() { "" } else { "." };
        self.at([self.path.as_str(), dot, quote, field, quote].concat())
    }

    /// Each element of the list here.
    pub(crate) fn element(&self) -> Node<'a> {
        self.at([self.path.as_str(), "[*]"].concat())
    }

    fn at(&self, path: String) -> Node<'a> {
        Node { recorder: self.recorder, path }
    }
}

impl Recorder {
    fn fields(self) -> Fields {
        let found = self.found.into_inner();
        if found.contains("") {
            return Fields::Whole;
        }
        let under = |path: &str, of: &str| {
            path.len() > of.len() && path.starts_with(of) && matches!(path.as_bytes()[of.len()], b'.' | b'[')
        };
        let kept = |path: &String| {
            !ALWAYS.iter().any(|always| path == always || under(path, always))
                && !found.iter().any(|other| under(path, other))
        };
        Fields::Paths(found.iter().filter(|path| kept(path)).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::value::RawValue;

    use super::*;
    use crate::meta::{ObjectMeta, StringMap};
    use crate::time::Time;

    fn paths<V: FromJson>() -> Vec<String> {
        match fields_of::<V>() {
            Fields::Paths(paths) => paths,
            Fields::Whole => vec!["(whole)".to_owned()],
        }
    }

    #[derive(FromJson)]
    #[serde(rename_all = "camelCase")]
    #[allow(dead_code, reason = "only the shape counts")]
    struct Inner {
        started_at: Time,
        name: String,
        later: Option<i64>,
    }

    #[derive(FromJson)]
    #[serde(rename_all = "camelCase")]
    #[allow(dead_code, reason = "only the shape counts")]
    struct Wide {
        metadata: ObjectMeta,
        raw: Box<RawValue>,
        value: serde_json::Value,
        items: Vec<Inner>,
        map: BTreeMap<String, Inner>,
        names: Vec<String>,
        mode: Mode,
        after: bool,
        pair: (Inner, Inner),
        there: Option<()>,
    }

    #[derive(FromJson)]
    #[allow(dead_code, reason = "only the shape counts")]
    enum Mode {
        Full,
        Empty,
    }

    #[test]
    fn paths_follow_the_shape_past_values_that_cannot_be_made_up() {
        assert_eq!(
            paths::<Wide>(),
            [
                "after",
                "items[*].later",
                "items[*].name",
                "items[*].startedAt",
                "map",
                "mode",
                "names",
                "pair",
                "raw",
                "there",
                "value"
            ]
        );
    }

    #[derive(FromJson)]
    #[allow(dead_code, reason = "only the shape counts")]
    struct Annotated<A: Default> {
        metadata: ObjectMeta<A>,
    }

    #[derive(FromJson, Default)]
    #[allow(dead_code, reason = "only the shape counts")]
    struct Cost {
        #[serde(rename = "controller.kubernetes.io/pod-deletion-cost")]
        cost: Option<String>,
    }

    #[test]
    fn annotations_are_declared_only_if_read() {
        assert_eq!(paths::<Annotated<crate::meta::NoAnnotations>>(), Vec::<String>::new());
        assert_eq!(paths::<Annotated<StringMap>>(), ["metadata.annotations"]);
        assert_eq!(
            paths::<Annotated<Cost>>(),
            ["metadata.annotations.\"controller.kubernetes.io/pod-deletion-cost\""]
        );
    }

    #[derive(FromJson)]
    struct Bare {}

    #[derive(FromJson)]
    #[allow(dead_code, reason = "only the shape counts")]
    struct Within {
        maybe: Option<Bare>,
        each: Vec<Bare>,
    }

    #[test]
    fn a_view_without_fields_reads_none_but_within_one_it_asks_for_a_value() {
        assert_eq!(fields_of::<Bare>(), Fields::Paths(vec![]));
        assert_eq!(paths::<Within>(), ["each", "maybe"]);
    }

    #[test]
    fn raw_objects_are_whole() {
        assert_eq!(fields_of::<BTreeMap<String, String>>(), Fields::Whole);
        assert_eq!(fields_of::<serde_json::Value>(), Fields::Whole);
        assert_eq!(fields_of::<Box<RawValue>>(), Fields::Whole);
    }
}
