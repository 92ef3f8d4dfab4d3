//! Reads JSON into views, or records which fields a view would read.
//!
//! One deserializer does both, and offers objects only as maps: views are most
//! of a guest's code, and each further deserializer would compile all of them
//! once more. What is within objects and lists (texts, numbers, what is skipped
//! or kept raw) is left to serde_json.

use std::borrow::Cow;

use serde::de::value::{BorrowedStrDeserializer, Error as Failed};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde_json::value::RawValue;

use crate::paths::Node;

/// Reads JSON. The error says where it stopped.
pub fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let mut cursor = Cursor { text, at: 0, depth: 0 };
    let value = T::deserialize(Reader::Text(&mut cursor));
    let value = value.and_then(|value| match cursor.peek() {
        None => Ok(value),
        Some(_) => Err(cursor.error("something follows the value")),
    });
    value.map_err(|e| format!("{e} (byte {} of {})", cursor.at, text.len()))
}

/// How deep objects and lists may be nested.
const DEPTH: u32 = 128;

/// Where reading is.
pub(crate) struct Cursor<'de> {
    text: &'de str,
    at: usize,
    depth: u32,
}

impl<'de> Cursor<'de> {
    fn error(&self, what: &str) -> Failed {
        Failed::custom(what)
    }

    /// The next byte that is no space.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\t' | b'\r')).count();
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> Result<(), Failed> {
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(Failed::custom(format_args!("expected {}", char::from(byte))))
    }

    fn enter(&mut self, open: u8) -> Result<(), Failed> {
        self.eat(open)?;
        self.depth += 1;
        if self.depth > DEPTH { Err(self.error("nested too deeply")) } else { Ok(()) }
    }

    fn leave(&mut self, close: u8) -> Result<(), Failed> {
        self.depth -= 1;
        self.eat(close)
    }

    /// Whether there is a further element before `close`.
    fn more(&mut self, first: &mut bool, close: u8) -> Result<bool, Failed> {
        let first = std::mem::take(first);
        match self.peek() {
            Some(byte) if byte == close => Ok(false),
            Some(_) if first => Ok(true),
            _ => {
                self.eat(b',')?;
                if self.peek() == Some(close) {
                    Err(self.error("nothing follows the comma"))
                } else {
                    Ok(true)
                }
            }
        }
    }

    /// The whole next value.
    fn raw(&mut self) -> Result<&'de RawValue, Failed> {
        let mut values = serde_json::Deserializer::from_str(&self.text[self.at..]).into_iter::<&RawValue>();
        match values.next() {
            Some(Ok(raw)) => {
                self.at += values.byte_offset();
                Ok(raw)
            }
            Some(Err(e)) => Err(Failed::custom(e)),
            None => Err(self.error("the value is missing")),
        }
    }

    fn text(&mut self) -> Result<Cow<'de, str>, Failed> {
        if self.peek() != Some(b'"') {
            return Err(self.error("expected a string"));
        }
        let raw = self.raw()?.get();
        let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
        if inner.contains('\\') {
            return serde_json::from_str::<String>(raw).map(Cow::Owned).map_err(Failed::custom);
        }
        Ok(Cow::Borrowed(inner))
    }

    /// A value that is neither object nor list.
    fn scalar(&mut self) -> Result<Scalar<'de>, Failed> {
        match self.peek() {
            Some(b'"') => self.text().map(Scalar::Text),
            Some(b'{' | b'[') => Err(self.error("expected a plain value, found an object or a list")),
            _ => Ok(match self.raw()?.get() {
                "null" => Scalar::Null,
                "true" => Scalar::Bool(true),
                "false" => Scalar::Bool(false),
                number => {
                    if let Ok(number) = number.parse() {
                        Scalar::Unsigned(number)
                    } else if let Ok(number @ ..0) = number.parse() {
                        Scalar::Signed(number)
                    } else {
                        // Fractions, and -0, which no integer is.
                        Scalar::Float(serde_json::from_str(number).map_err(Failed::custom)?)
                    }
                }
            }),
        }
    }
}

/// A value that is neither object nor list. Made apart from visiting it, so that
/// making it is compiled once.
enum Scalar<'de> {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(Cow<'de, str>),
}

impl<'de> Scalar<'de> {
    fn visit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        match self {
            Self::Null => visitor.visit_unit(),
            Self::Bool(value) => visitor.visit_bool(value),
            Self::Unsigned(number) => visitor.visit_u64(number),
            Self::Signed(number) => visitor.visit_i64(number),
            Self::Float(number) => visitor.visit_f64(number),
            Self::Text(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            Self::Text(Cow::Owned(text)) => visitor.visit_string(text),
        }
    }
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
                // What has no fields of its own is a map, or a struct that asks
                // only whether there is something.
                if fields.is_empty() {
                    node.record();
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
                Some(node) => node.make_up(|node| seed.deserialize(Reader::Shape(node))).map(Some),
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
            Self::Shape { node, current, .. } => {
                node.child(current).make_up(|node| seed.deserialize(Reader::Shape(node)))
            }
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
