//! The syntax of JSON, as far as [`crate::reader`] reads it itself: what is
//! around values. What is within them is serde_json's.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::read::Failed;

/// How deep objects and lists may be nested.
const DEPTH: u32 = 128;

/// Where reading is.
pub(crate) struct Cursor<'de> {
    text: &'de str,
    at: usize,
    depth: u32,
}

impl<'de> Cursor<'de> {
    /// The beginning of a text.
    pub(crate) fn new(text: &'de str) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    /// How many bytes are behind it.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The next byte that is no space.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\t' | b'\r')).count();
        self.text.as_bytes().get(self.at).copied()
    }

    pub(crate) fn eat(&mut self, byte: u8) -> Result<(), Failed> {
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(Failed::new(match byte {
            b'{' => "expected {",
            b'[' => "expected [",
            b'}' => "expected }",
            b']' => "expected ]",
            b':' => "expected :",
            _ => "expected ,",
        }))
    }

    pub(crate) fn enter(&mut self, open: u8) -> Result<(), Failed> {
        self.eat(open)?;
        self.depth += 1;
        if self.depth > DEPTH { Err(Failed::new("nested too deeply")) } else { Ok(()) }
    }

    pub(crate) fn leave(&mut self, close: u8) -> Result<(), Failed> {
        self.depth -= 1;
        self.eat(close)
    }

    /// Whether there is a further element before `close`.
    pub(crate) fn more(&mut self, first: &mut bool, close: u8) -> Result<bool, Failed> {
        let first = std::mem::take(first);
        match self.peek() {
            Some(byte) if byte == close => Ok(false),
            Some(_) if first => Ok(true),
            _ => {
                self.eat(b',')?;
                if self.peek() == Some(close) {
                    Err(Failed::new("nothing follows the comma"))
                } else {
                    Ok(true)
                }
            }
        }
    }

    /// Whether the next value is a null, which is then behind.
    pub(crate) fn null(&mut self) -> Result<bool, Failed> {
        if self.peek() != Some(b'n') {
            return Ok(false);
        }
        self.raw().map(|_| true)
    }

    fn next<T: Deserialize<'de>>(&mut self) -> Result<T, Failed> {
        self.peek();
        let mut values = serde_json::Deserializer::from_str(&self.text[self.at..]).into_iter::<T>();
        match values.next() {
            Some(Ok(value)) => {
                self.at += values.byte_offset();
                Ok(value)
            }
            Some(Err(e)) => Err(Failed::of(&e)),
            None => Err(Failed::new("the value is missing")),
        }
    }

    /// The whole next value, as it is.
    pub(crate) fn raw(&mut self) -> Result<&'de RawValue, Failed> {
        self.next()
    }

    pub(crate) fn text(&mut self) -> Result<Cow<'de, str>, Failed> {
        if self.peek() != Some(b'"') {
            return Err(self.other_than("a string"));
        }
        let start = self.at;
        let raw = self.raw()?.get();
        let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
        if !inner.contains('\\') {
            return Ok(Cow::Borrowed(inner));
        }
        self.at = start;
        match self.next()? {
            Scalar::Text(text) => Ok(text),
            _ => Err(Failed::new("expected a string")),
        }
    }

    /// The next value is not what was expected.
    #[cold]
    pub(crate) fn other_than(&mut self, expected: &str) -> Failed {
        let first = self.peek();
        let raw = match self.raw() {
            Ok(raw) => raw.get(),
            Err(failed) => return failed,
        };
        let found = match first {
            Some(b'{') => "map".to_owned(),
            Some(b'[') => "sequence".to_owned(),
            Some(b'n') => "null".to_owned(),
            Some(b'"') => ["string ", raw].concat(),
            Some(b't' | b'f') => ["boolean `", raw, "`"].concat(),
            _ if raw.contains(['.', 'e', 'E']) => ["floating point `", raw, "`"].concat(),
            _ => ["integer `", raw, "`"].concat(),
        };
        Failed::new(["invalid type: ", &found, ", expected ", expected].concat())
    }

    /// A value that is neither object nor list.
    pub(crate) fn scalar(&mut self) -> Result<Scalar<'de>, Failed> {
        match self.peek() {
            Some(b'"') => self.text().map(Scalar::Text),
            Some(b'{' | b'[') => Err(self.other_than("a plain value")),
            _ => self.next(),
        }
    }
}

/// A value that is neither object nor list.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar<'de> {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer from zero on.
    Unsigned(u64),
    /// An integer below zero.
    Signed(i64),
    /// Any other number, and -0.
    Float(f64),
    /// A text.
    Text(Cow<'de, str>),
}

/// Takes whatever serde_json finds. To ask it for a string or a number, or for a
/// [`serde_json::Value`], would be 30 KB of code more, most of it for what it
/// says of other types, floats among them.
impl<'de> Deserialize<'de> for Scalar<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        macro_rules! visits {
            ($($method:ident($argument:ty) => $made:expr;)*) => {$(
                fn $method<E: Error>(self, value: $argument) -> Result<Scalar<'de>, E> {
                    Ok($made(value))
                }
            )*};
        }

        impl<'de> Visitor<'de> for Any {
            type Value = Scalar<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a plain value")
            }

            visits! {
                visit_bool(bool) => Scalar::Bool;
                visit_u64(u64) => Scalar::Unsigned;
                visit_i64(i64) => Scalar::Signed;
                visit_f64(f64) => Scalar::Float;
                visit_borrowed_str(&'de str) => |text| Scalar::Text(Cow::Borrowed(text));
                visit_str(&str) => |text: &str| Scalar::Text(Cow::Owned(text.to_owned()));
            }

            fn visit_unit<E: Error>(self) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Null)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Scalar<'de>, A::Error> {
                Err(A::Error::custom("expected a plain value"))
            }

            fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<Scalar<'de>, A::Error> {
                Err(A::Error::custom("expected a plain value"))
            }
        }
        deserializer.deserialize_any(Any)
    }
}
