//! Reads JSON into views, or records which fields a view would read.
//!
//! One deserializer does both, and offers objects only as maps: views are most
//! of a guest's code, and each further deserializer would compile all of them
//! once more. What is within objects and lists (texts, numbers, what is skipped
//! or kept raw) is left to serde_json.

use std::borrow::Cow;

use crate::cursor::Cursor;
use crate::paths::Node;
use serde::de::value::{BorrowedStrDeserializer, Error as Failed};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

/// Reads JSON. The error says where it stopped.
pub fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let mut cursor = Cursor::new(text);
    let value = T::deserialize(Reader::Text(&mut cursor));
    let value = value.and_then(|value| match cursor.peek() {
        None => Ok(value),
        Some(_) => Err(cursor.error("something follows the value")),
    });
    value.map_err(|e| format!("{e} (byte {} of {})", cursor.at(), text.len()))
}

/// A place in a text, or in a shape.
pub(crate) enum Reader<'r, 'de> {
    /// Reads what is there.
    Text(&'r mut Cursor<'de>),
    /// Records what would be read.
    Shape(Node<'r>),
}

macro_rules! scalars {
    ($($method:ident => $visit:ident($($value:expr)?)),* $(,)?) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
            match self {
                Self::Text(cursor) => cursor.scalar()?.visit(visitor),
                Self::Shape(node) => {
                    node.record();
                    visitor.$visit($($value)?)
                }
            }
        })*
    };
}

impl<'de> Deserializer<'de> for Reader<'_, 'de> {
    type Error = Failed;

    scalars! {
        deserialize_bool => visit_bool(false),
        deserialize_i8 => visit_u64(0),
        deserialize_i16 => visit_u64(0),
        deserialize_i32 => visit_u64(0),
        deserialize_i64 => visit_u64(0),
        deserialize_u8 => visit_u64(0),
        deserialize_u16 => visit_u64(0),
        deserialize_u32 => visit_u64(0),
        deserialize_u64 => visit_u64(0),
        deserialize_f32 => visit_u64(0),
        deserialize_f64 => visit_u64(0),
        deserialize_char => visit_borrowed_str("0"),
        deserialize_str => visit_borrowed_str(""),
        deserialize_string => visit_borrowed_str(""),
        deserialize_bytes => visit_borrowed_str(""),
        deserialize_byte_buf => visit_borrowed_str(""),
        deserialize_unit => visit_unit(),
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        match self {
            Self::Text(cursor) => match cursor.peek() {
                Some(b'{') => Self::Text(cursor).deserialize_map(visitor),
                Some(b'[') => Self::Text(cursor).deserialize_seq(visitor),
                _ => cursor.scalar()?.visit(visitor),
            },
            Self::Shape(node) => {
                node.record();
                visitor.visit_unit()
            }
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        if let Self::Text(cursor) = self {
            cursor.peek();
            cursor.raw()?;
        }
        visitor.visit_unit()
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        if let Self::Text(cursor) = self {
            if cursor.peek() == Some(b'n') {
                cursor.raw()?;
                return visitor.visit_none();
            }
            return visitor.visit_some(Self::Text(cursor));
        }
        visitor.visit_some(self)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Failed> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Failed> {
        let raw = name.starts_with("$serde_json::private");
        match self {
            Self::Text(cursor) if raw => {
                cursor.peek();
                cursor.raw()?.deserialize_newtype_struct(name, visitor).map_err(Failed::custom)
            }
            Self::Shape(node) if raw => {
                node.record();
                Err(Failed::custom("raw JSON cannot be made up"))
            }
            reader => visitor.visit_newtype_struct(reader),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        match self {
            Self::Text(cursor) => {
                cursor.enter(b'[')?;
                let value = visitor.visit_seq(Elements::Text { cursor, first: true })?;
                cursor.leave(b']')?;
                Ok(value)
            }
            Self::Shape(node) => visitor.visit_seq(Elements::Shape(Some(node.element()))),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Failed> {
        if let Self::Shape(node) = &self {
            node.record();
        }
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Failed> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        if let Self::Shape(node) = &self {
            node.record();
        }
        self.deserialize_struct("", &[], visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failed> {
        match self {
            Self::Text(cursor) => {
                cursor.enter(b'{')?;
                let value = visitor.visit_map(Fields::Text { cursor, first: true })?;
                cursor.leave(b'}')?;
                Ok(value)
            }
            Self::Shape(node) => {
                // A struct without fields asks only whether there is something.
                if fields.is_empty() {
                    node.record_presence();
                }
                visitor.visit_map(Fields::Shape { node, fields: fields.iter(), current: "" })
            }
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failed> {
        match self {
            Self::Text(cursor) => {
                if cursor.peek() != Some(b'{') {
                    return visitor.visit_enum(Variant { name: cursor.text()?, content: None });
                }
                cursor.enter(b'{')?;
                let name = cursor.text()?;
                cursor.eat(b':')?;
                let value = visitor.visit_enum(Variant { name, content: Some(&mut *cursor) })?;
                cursor.leave(b'}')?;
                Ok(value)
            }
            Self::Shape(node) => {
                node.record();
                let name = Cow::Borrowed(variants.first().copied().unwrap_or_default());
                visitor.visit_enum(Variant { name, content: None })
            }
        }
    }
}

fn make_up<'de, S: DeserializeSeed<'de>>(node: Node<'_>, seed: S) -> Result<S::Value, Failed> {
    let attempt = node.begin()?;
    let value = seed.deserialize(Reader::Shape(node));
    if value.is_err() {
        attempt.failed();
    }
    value
}

/// Elements of a list.
enum Elements<'r, 'de> {
    Text { cursor: &'r mut Cursor<'de>, first: bool },
    Shape(Option<Node<'r>>),
}

impl<'de> SeqAccess<'de> for Elements<'_, 'de> {
    type Error = Failed;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Failed> {
        match self {
            Self::Text { cursor, first } => {
                if !cursor.more(first, b']')? {
                    return Ok(None);
                }
                seed.deserialize(Reader::Text(cursor)).map(Some)
            }
            Self::Shape(node) => match node.take() {
                Some(node) => make_up(node, seed).map(Some),
                None => Ok(None),
            },
        }
    }
}

/// Fields of an object.
enum Fields<'r, 'de> {
    Text { cursor: &'r mut Cursor<'de>, first: bool },
    Shape { node: Node<'r>, fields: std::slice::Iter<'static, &'static str>, current: &'static str },
}

impl<'de> MapAccess<'de> for Fields<'_, 'de> {
    type Error = Failed;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Failed> {
        match self {
            Self::Text { cursor, first } => {
                if !cursor.more(first, b'}')? {
                    return Ok(None);
                }
                seed.deserialize(Reader::Text(cursor)).map(Some)
            }
            Self::Shape { node, fields, current } => {
                let Some(field) = fields.find(|field| !node.is_skipped(field)) else { return Ok(None) };
                *current = field;
                seed.deserialize(BorrowedStrDeserializer::new(field)).map(Some)
            }
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Failed> {
        match self {
            Self::Text { cursor, .. } => {
                cursor.eat(b':')?;
                seed.deserialize(Reader::Text(cursor))
            }
            Self::Shape { node, current, .. } => make_up(node.child(current), seed),
        }
    }
}

/// A variant of an enum.
struct Variant<'r, 'de> {
    name: Cow<'de, str>,
    content: Option<&'r mut Cursor<'de>>,
}

impl<'r, 'de> EnumAccess<'de> for Variant<'r, 'de> {
    type Error = Failed;
    type Variant = Content<'r, 'de>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), Failed> {
        let name = serde::de::value::CowStrDeserializer::<Failed>::new(self.name);
        Ok((seed.deserialize(name)?, Content(self.content)))
    }
}

/// Content of a variant.
struct Content<'r, 'de>(Option<&'r mut Cursor<'de>>);

impl<'r, 'de> Content<'r, 'de> {
    fn reader(self) -> Result<Reader<'r, 'de>, Failed> {
        self.0.map(Reader::Text).ok_or_else(|| Failed::custom("the variant has no content"))
    }
}

impl<'de> VariantAccess<'de> for Content<'_, 'de> {
    type Error = Failed;

    fn unit_variant(self) -> Result<(), Failed> {
        if self.0.is_some() { Err(Failed::custom("the variant takes no content")) } else { Ok(()) }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Failed> {
        seed.deserialize(self.reader()?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Failed> {
        self.reader()?.deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failed> {
        self.reader()?.deserialize_struct("", fields, visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    enum Mode {
        Plain,
        With(i32),
        Both { a: i32 },
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct All {
        text: String,
        #[serde(default)]
        small: Option<i32>,
        large: i64,
        wide: u64,
        share: f64,
        yes: bool,
        list: Vec<Option<String>>,
        map: BTreeMap<String, Value>,
        modes: Vec<Mode>,
    }

    const TEXT: &str = r#" { "text" : "a\"\u00e9\n" , "small":null,"large":-9007199254740993,
        "wide":18446744073709551615,"share":1.5e3,"yes":true,"list":["x",null,""],"map":{"k":{"l":[1,-2,2.5,"",{}]}},
        "modes":["Plain",{"With":3},{"Both":{"a":1}}] } "#;

    #[test]
    fn what_serde_json_reads_is_read_the_same() {
        let ours: All = from_json(TEXT).unwrap();
        assert_eq!(ours, serde_json::from_str::<All>(TEXT).unwrap());
        assert_eq!(from_json::<Value>(TEXT).unwrap(), serde_json::from_str::<Value>(TEXT).unwrap());
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_judged_as_by_serde_json() {
        for end in 0..TEXT.trim_end().len() {
            if let Some(cut) = TEXT.get(..end) {
                assert!(from_json::<All>(cut).is_err(), "{cut}");
            }
        }
        for at in 0..TEXT.len() {
            for byte in [b'}', b']', b',', b':', b'"', b'0', b'-', b'n', b' ', b'\\', 1] {
                let mut changed = TEXT.as_bytes().to_vec();
                changed[at] = byte;
                let Ok(changed) = String::from_utf8(changed) else { continue };
                let (ours, theirs) = (from_json::<Value>(&changed), serde_json::from_str::<Value>(&changed));
                assert_eq!(ours.ok(), theirs.ok(), "{changed}");
                let (ours, theirs) = (from_json::<All>(&changed), serde_json::from_str::<All>(&changed));
                assert_eq!(ours.is_ok(), theirs.is_ok(), "{changed}: {ours:?} {theirs:?}");
            }
        }
    }

    #[test]
    fn raw_json_stays_as_it_was() {
        #[derive(Deserialize)]
        struct Holder {
            raw: Box<RawValue>,
            maybe: Option<Box<RawValue>>,
        }
        let holder: Holder = from_json(r#"{"raw": {"b":1.0, "a" :[ ]} , "maybe":null}"#).unwrap();
        assert_eq!(holder.raw.get(), r#"{"b":1.0, "a" :[ ]}"#);
        assert!(holder.maybe.is_none());
    }

    #[test]
    fn errors_say_where() {
        let error = from_json::<All>(r#"{"text": 5}"#).unwrap_err();
        assert_eq!(error, "invalid type: integer `5`, expected a string (byte 10 of 11)");
        let error = from_json::<Value>("{} x").unwrap_err();
        assert_eq!(error, "something follows the value (byte 3 of 4)");
    }

    #[test]
    fn deep_nesting_is_an_error_and_skipping_it_is_not() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(from_json::<Value>(&deep).unwrap_err().contains("too deep"));
        let mut value = json!(1);
        for _ in 0..100 {
            value = json!([value]);
        }
        assert_eq!(from_json::<Value>(&value.to_string()).unwrap(), value);
    }
}
