//! The field paths of a view, derived from its `Deserialize`.
//!
//! In: a view type. Out: the paths a manifest declares for it. A recording
//! deserializer offers each struct every field it names; lists are entered,
//! maps and raw JSON end a path. Invariant: whatever the view can ever read is
//! under a recorded path, or among the metadata that is always kept.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

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
pub fn fields_of<V: DeserializeOwned>() -> Fields {
    let recorder = Recorder::default();
    // A type that accepts none of the made-up values (a time, say) ends a pass.
    // Its path is known by then, so the next pass leaves it out and gets further.
    while V::deserialize(Node { recorder: &recorder, path: String::new() }).is_err() {
        let Some(failed) = recorder.failed.borrow_mut().take() else { break };
        if !recorder.skipped.borrow_mut().insert(failed) {
            break;
        }
    }
    let found = recorder.found.into_inner();
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

#[derive(Default)]
struct Recorder {
    found: RefCell<BTreeSet<String>>,
    skipped: RefCell<BTreeSet<String>>,
    failed: RefCell<Option<String>>,
}

type Failed = serde::de::value::Error;

struct Node<'a> {
    recorder: &'a Recorder,
    path: String,
}

impl Node<'_> {
    fn record(&self) {
        // All elements, whole, are the whole list.
        let path = self.path.trim_end_matches("[*]");
        self.recorder.found.borrow_mut().insert(path.to_owned());
    }

    fn child(&self, field: &str) -> String {
        let field = if field.contains(['.', '/', '[', '{', '"', '*']) {
            format!("\"{field}\"")
        } else {
            field.to_owned()
        };
        if self.path.is_empty() { field } else { format!("{}.{field}", self.path) }
    }
}

macro_rules! leaf {
    ($($method:ident => $visit:ident($($value:expr)?)),* $(,)?) => {
        $(fn $method<W: Visitor<'de>>(self, visitor: W) -> Result<W::Value, Failed> {
            self.record();
            visitor.$visit($($value)?)
        })*
    };
}

impl<'de> Deserializer<'de> for Node<'_> {
    type Error = Failed;

    leaf! {
        deserialize_any => visit_unit(),
        deserialize_bool => visit_bool(false),
        deserialize_i8 => visit_i8(0),
        deserialize_i16 => visit_i16(0),
        deserialize_i32 => visit_i32(0),
        deserialize_i64 => visit_i64(0),
        deserialize_u8 => visit_u8(0),
        deserialize_u16 => visit_u16(0),
        deserialize_u32 => visit_u32(0),
        deserialize_u64 => visit_u64(0),
        deserialize_f32 => visit_f32(0.0),
        deserialize_f64 => visit_f64(0.0),
        deserialize_char => visit_char('0'),
        deserialize_str => visit_borrowed_str(""),
        deserialize_string => visit_borrowed_str(""),
        deserialize_bytes => visit_borrowed_bytes(b""),
        deserialize_byte_buf => visit_borrowed_bytes(b""),
        deserialize_unit => visit_unit(),
    }

    fn deserialize_ignored_any<W: Visitor<'de>>(self, visitor: W) -> Result<W::Value, Failed> {
        visitor.visit_unit()
    }

    fn deserialize_identifier<W: Visitor<'de>>(self, visitor: W) -> Result<W::Value, Failed> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<W: Visitor<'de>>(self, visitor: W) -> Result<W::Value, Failed> {
        visitor.visit_some(self)
    }

    fn deserialize_unit_struct<W: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: W,
    ) -> Result<W::Value, Failed> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<W: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: W,
    ) -> Result<W::Value, Failed> {
        if name.starts_with("$serde_json::private") {
            self.record();
            return Err(Failed::custom("raw JSON"));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<W: Visitor<'de>>(self, visitor: W) -> Result<W::Value, Failed> {
        let element = Node { recorder: self.recorder, path: format!("{}[*]", self.path) };
        visitor.visit_seq(One(Some(element)))
    }

    fn deserialize_tuple<W: Visitor<'de>>(self, _: usize, visitor: W) -> Result<W::Value, Failed> {
        self.record();
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<W: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: W,
    ) -> Result<W::Value, Failed> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<W: Visitor<'de>>(self, visitor: W) -> Result<W::Value, Failed> {
        self.record();
        visitor.visit_map(Named { node: self, fields: [].iter(), current: "" })
    }

    fn deserialize_struct<W: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: W,
    ) -> Result<W::Value, Failed> {
        if fields.is_empty() {
            self.record();
        }
        visitor.visit_map(Named { node: self, fields: fields.iter(), current: "" })
    }

    fn deserialize_enum<W: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: W,
    ) -> Result<W::Value, Failed> {
        self.record();
        visitor.visit_enum(Variant(variants.first().copied().unwrap_or_default()))
    }
}

struct One<'a>(Option<Node<'a>>);

impl<'de> SeqAccess<'de> for One<'_> {
    type Error = Failed;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Failed> {
        match self.0.take() {
            Some(node) => value(node, seed).map(Some),
            None => Ok(None),
        }
    }
}

struct Named<'a> {
    node: Node<'a>,
    fields: std::slice::Iter<'static, &'static str>,
    current: &'static str,
}

impl<'de> MapAccess<'de> for Named<'_> {
    type Error = Failed;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Failed> {
        for field in self.fields.by_ref() {
            if !self.node.recorder.skipped.borrow().contains(&self.node.child(field)) {
                self.current = field;
                return seed.deserialize(BorrowedStrDeserializer::new(field)).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Failed> {
        value(Node { recorder: self.node.recorder, path: self.node.child(self.current) }, seed)
    }
}

/// Makes a value up, and remembers the innermost path where that fails.
fn value<'de, S: DeserializeSeed<'de>>(node: Node<'_>, seed: S) -> Result<S::Value, Failed> {
    let (recorder, path) = (node.recorder, node.path.clone());
    if recorder.skipped.borrow().contains(&path) {
        return Err(Failed::custom("skipped"));
    }
    seed.deserialize(node).inspect_err(|_| {
        let mut failed = recorder.failed.borrow_mut();
        if failed.as_ref().is_none_or(|inner| recorder.skipped.borrow().contains(inner)) {
            *failed = Some(path);
        }
    })
}

struct Variant(&'static str);

impl<'de> EnumAccess<'de> for Variant {
    type Error = Failed;
    type Variant = Unit;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Unit), Failed> {
        Ok((seed.deserialize(BorrowedStrDeserializer::<Failed>::new(self.0))?, Unit))
    }
}

struct Unit;

impl<'de> VariantAccess<'de> for Unit {
    type Error = Failed;

    fn unit_variant(self) -> Result<(), Failed> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, _: S) -> Result<S::Value, Failed> {
        Err(Failed::custom("a variant with content"))
    }

    fn tuple_variant<W: Visitor<'de>>(self, _: usize, _: W) -> Result<W::Value, Failed> {
        Err(Failed::custom("a variant with content"))
    }

    fn struct_variant<W: Visitor<'de>>(self, _: &'static [&'static str], _: W) -> Result<W::Value, Failed> {
        Err(Failed::custom("a variant with content"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::value::RawValue;

    use super::*;
    use crate::meta::{ObjectMeta, StringMap};
    use crate::time::Time;

    fn paths<V: DeserializeOwned>() -> Vec<String> {
        match fields_of::<V>() {
            Fields::Paths(paths) => paths,
            Fields::Whole => vec!["(whole)".to_owned()],
        }
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    #[allow(dead_code, reason = "only the shape counts")]
    struct Inner {
        started_at: Time,
        name: String,
        later: Option<i64>,
    }

    #[derive(Deserialize)]
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
    }

    #[derive(Deserialize)]
    #[allow(dead_code, reason = "only the shape counts")]
    enum Mode {
        Content(String),
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
                "raw",
                "value"
            ]
        );
    }

    #[derive(Deserialize)]
    #[allow(dead_code, reason = "only the shape counts")]
    struct Annotated<A: Default> {
        #[serde(bound = "A: Deserialize<'de> + Default")]
        metadata: ObjectMeta<A>,
    }

    #[derive(Deserialize, Default)]
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

    #[test]
    fn raw_objects_are_whole() {
        assert_eq!(fields_of::<serde_json::Value>(), Fields::Whole);
        assert_eq!(fields_of::<Box<RawValue>>(), Fields::Whole);
    }
}
