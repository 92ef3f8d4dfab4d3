//! The syntax of JSON, as far as [`crate::reader`] reads it itself: what is
//! around values. What is within them is serde_json's.

use std::borrow::Cow;

use serde::de::value::Error as Failed;
use serde::de::{Error as _, Visitor};
use serde_json::value::RawValue;

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

    pub(crate) fn error(&self, what: &str) -> Failed {
        Failed::custom(what)
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
        Err(Failed::custom(format_args!("expected {}", char::from(byte))))
    }

    pub(crate) fn enter(&mut self, open: u8) -> Result<(), Failed> {
        self.eat(open)?;
        self.depth += 1;
        if self.depth > DEPTH { Err(self.error("nested too deeply")) } else { Ok(()) }
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
                    Err(self.error("nothing follows the comma"))
                } else {
                    Ok(true)
                }
            }
        }
    }

    /// The whole next value.
    pub(crate) fn raw(&mut self) -> Result<&'de RawValue, Failed> {
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

    pub(crate) fn text(&mut self) -> Result<Cow<'de, str>, Failed> {
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
    pub(crate) fn scalar(&mut self) -> Result<Scalar<'de>, Failed> {
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
pub(crate) enum Scalar<'de> {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(Cow<'de, str>),
}

impl<'de> Scalar<'de> {
    pub(crate) fn visit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
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
