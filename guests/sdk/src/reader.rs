//! Reads JSON into views, or records which fields a view would read.
//!
//! One reader does both, and no function of it is generic: views are much of a
//! guest's code, and each type would compile it once more. What is within objects
//! and lists (texts, numbers, what is skipped or kept raw) is left to serde_json.

use std::borrow::Cow;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::cursor::{Cursor, Scalar};
use crate::paths::Node;
use crate::read::{Failed, Fields, FromJson};

/// Reads JSON. The error says where it stopped.
pub fn from_json<T: FromJson>(text: &str) -> Result<T, String> {
    let mut value = T::blank();
    read_whole(text, &mut |reader| value.read(reader))?;
    Ok(value)
}

fn read_whole(text: &str, read: &mut dyn FnMut(Reader<'_, '_>) -> Result<(), Failed>) -> Result<(), String> {
    let mut cursor = Cursor::new(text);
    let outcome = read(Reader(Place::Text(&mut cursor))).and_then(|()| match cursor.peek() {
        None => Ok(()),
        Some(_) => Err(Failed::new("something follows the value")),
    });
    outcome.map_err(|e| format!("{e} (byte {} of {})", cursor.at(), text.len()))
}

/// A place in a text, or in a shape.
pub struct Reader<'r, 'de>(Place<'r, 'de>);

enum Place<'r, 'de> {
    /// Reads what is there.
    Text(&'r mut Cursor<'de>),
    /// Records what would be read.
    Shape(Node<'r>),
}

/// Reads a part: the field or the entry of this number or name.
type Part<'p, 'de, At> = &'p mut dyn FnMut(At, Reader<'_, 'de>) -> Result<(), Failed>;

impl<'r, 'de> Reader<'r, 'de> {
    /// The root of a shape.
    pub(crate) fn shape(node: Node<'r>) -> Self {
        Self(Place::Shape(node))
    }

    /// An object, of which these fields are read. A null leaves a field as it is,
    /// as in Go; unknown fields are skipped.
    pub fn object(self, fields: &Fields, read: Part<'_, 'de, usize>) -> Result<(), Failed> {
        let cursor = match self.0 {
            Place::Text(cursor) => cursor,
            Place::Shape(node) => {
                if fields.is_whole {
                    node.record();
                    return Ok(());
                }
                // A struct without fields asks only whether there is something.
                if fields.names.is_empty() {
                    node.record_presence();
                }
                for (at, name) in fields.names.iter().enumerate() {
                    // What cannot be made up (a time, say) is recorded by now.
                    let _ = read(at, Reader(Place::Shape(node.child(name))));
                }
                return Ok(());
            }
        };
        cursor.enter(b'{')?;
        let (mut first, mut missing, mut from) = (true, fields.required, 0);
        while cursor.more(&mut first, b'}')? {
            let name = cursor.text()?;
            cursor.eat(b':')?;
            // Fields mostly come in one order, so the search goes on where it was.
            let (before, after) = fields.names.split_at(from);
            let found = after.iter().position(|field| *field == name).map(|at| at + from);
            let Some(at) = found.or_else(|| before.iter().position(|field| *field == name)) else {
                cursor.raw()?;
                continue;
            };
            from = at + 1;
            missing &= !(1 << at);
            if !cursor.null()? {
                read(at, Reader(Place::Text(cursor)))?;
            }
        }
        cursor.leave(b'}')?;
        match fields.names.get(missing.trailing_zeros() as usize) {
            Some(name) if missing != 0 => Err(Failed::new(["missing field ", name].concat())),
            _ => Ok(()),
        }
    }

    /// A list. Each element is read by a call; of a null the call is told that
    /// there is nothing to read.
    pub fn list(
        self,
        read: &mut dyn FnMut(Option<Reader<'_, 'de>>) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        match self.0 {
            Place::Text(cursor) => {
                cursor.enter(b'[')?;
                let mut first = true;
                while cursor.more(&mut first, b']')? {
                    read(Reader(Place::Text(cursor)).maybe()?)?;
                }
                cursor.leave(b']')
            }
            Place::Shape(node) => read(Some(Reader(Place::Shape(node.element())))),
        }
    }

    /// An object, all of its entries. A null stands for nothing to read.
    pub fn entries(
        self,
        read: &mut dyn FnMut(Cow<'de, str>, Option<Reader<'_, 'de>>) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        match self.0 {
            Place::Text(cursor) => {
                cursor.enter(b'{')?;
                let mut first = true;
                while cursor.more(&mut first, b'}')? {
                    let name = cursor.text()?;
                    cursor.eat(b':')?;
                    read(name, Reader(Place::Text(cursor)).maybe()?)?;
                }
                cursor.leave(b'}')
            }
            Place::Shape(node) => {
                node.record();
                Ok(())
            }
        }
    }

    /// Something that may be null: then there is nothing to read.
    pub fn maybe(self) -> Result<Option<Self>, Failed> {
        match self.0 {
            Place::Text(cursor) => Ok(if cursor.null()? { None } else { Some(Self(Place::Text(cursor))) }),
            Place::Shape(_) => Ok(Some(self)),
        }
    }

    /// The cursor, unless this is a shape, in which the place is then noted.
    fn whole(self) -> Option<&'r mut Cursor<'de>> {
        match self.0 {
            Place::Text(cursor) => Some(cursor),
            Place::Shape(node) => {
                node.record();
                None
            }
        }
    }

    /// The same, unless this is a shape: then all of the value counts as read.
    pub fn or_whole(self) -> Option<Self> {
        self.whole().map(|cursor| Self(Place::Text(cursor)))
    }

    /// A text.
    pub fn text(self) -> Result<Cow<'de, str>, Failed> {
        self.whole().map_or(Ok(Cow::Borrowed("")), Cursor::text)
    }

    /// A text, a number, a boolean or a null.
    pub fn scalar(self) -> Result<Scalar<'de>, Failed> {
        self.whole().map_or(Ok(Scalar::Null), Cursor::scalar)
    }

    /// An integer from `least` to `most`, as the low 64 bits of it.
    pub fn integer(self, least: i64, most: u64) -> Result<u64, Failed> {
        match self.numeral("an integer")? {
            None => Ok(0),
            Some(Scalar::Unsigned(number)) if number <= most => Ok(number),
            Some(Scalar::Signed(number)) if number >= least => Ok(number.cast_unsigned()),
            Some(Scalar::Unsigned(_) | Scalar::Signed(_)) => Err(Failed::new("the integer is out of range")),
            Some(_) => {
                Err(Failed::new("expected an integer of at most 64 bits, without fraction or exponent"))
            }
        }
    }

    /// A number, as near as 64 bits come to it.
    #[allow(clippy::cast_precision_loss, reason = "as every reader of JSON has it")]
    pub fn number(self) -> Result<f64, Failed> {
        Ok(match self.numeral("a number")? {
            Some(Scalar::Unsigned(number)) => number as f64,
            Some(Scalar::Signed(number)) => number as f64,
            Some(Scalar::Float(number)) => number,
            _ => 0.0,
        })
    }

    /// A number in digits; None of a shape.
    fn numeral(self, expected: &str) -> Result<Option<Scalar<'de>>, Failed> {
        let Some(cursor) = self.whole() else { return Ok(None) };
        match cursor.peek() {
            Some(b'-' | b'0'..=b'9') => cursor.scalar().map(Some),
            _ => Err(cursor.other_than(expected)),
        }
    }

    /// A boolean.
    pub fn boolean(self) -> Result<bool, Failed> {
        let Some(cursor) = self.whole() else { return Ok(false) };
        match cursor.peek() {
            Some(b't' | b'f') => Ok(cursor.scalar()? == Scalar::Bool(true)),
            _ => Err(cursor.other_than("a boolean")),
        }
    }

    /// Any value, as it is written. A null for the value of a shape.
    pub fn raw(self) -> Result<&'de RawValue, Failed> {
        self.whole().map_or(Ok(RawValue::NULL), Cursor::raw)
    }

    /// Any value.
    pub fn value(self) -> Result<Value, Failed> {
        let Some(cursor) = self.whole() else { return Ok(Value::Null) };
        match cursor.peek() {
            Some(b'{') => {
                let mut fields = Map::new();
                Reader(Place::Text(cursor)).entries(&mut |name, value| {
                    let value = value.map_or(Ok(Value::Null), Reader::value)?;
                    fields.insert(name.into_owned(), value);
                    Ok(())
                })?;
                Ok(Value::Object(fields))
            }
            Some(b'[') => {
                let mut elements = Vec::new();
                Reader(Place::Text(cursor)).list(&mut |element| {
                    elements.push(element.map_or(Ok(Value::Null), Reader::value)?);
                    Ok(())
                })?;
                Ok(Value::Array(elements))
            }
            _ => Ok(match cursor.scalar()? {
                Scalar::Null => Value::Null,
                Scalar::Bool(value) => Value::Bool(value),
                Scalar::Unsigned(number) => Value::from(number),
                Scalar::Signed(number) => Value::from(number),
                Scalar::Float(number) => Value::from(number),
                Scalar::Text(text) => Value::String(text.into_owned()),
            }),
        }
    }

    /// Leaves a value out: it is not read, so a shape does not note it either.
    pub fn skip(self) -> Result<(), Failed> {
        match self.0 {
            Place::Text(cursor) => cursor.raw().map(drop),
            Place::Shape(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    /// The same types for us and for serde.
    macro_rules! types {
        ($module:ident, $derive:path) => {
            mod $module {
                use super::*;

                #[derive(Debug, PartialEq, $derive)]
                #[serde(rename_all = "lowercase")]
                pub(super) enum Mode {
                    Plain,
                    #[serde(rename = "other")]
                    Another,
                }

                #[derive(Debug, PartialEq, $derive)]
                pub(super) struct Newtype(u32);

                #[derive(Debug, PartialEq, $derive)]
                pub(super) struct Pair(i8, String);

                #[derive(Debug, Default, PartialEq, $derive)]
                #[serde(rename_all = "camelCase", default)]
                pub(super) struct Inner {
                    two_words: String,
                    #[serde(rename = "a/b")]
                    renamed: i64,
                }

                #[derive(Debug, PartialEq, $derive)]
                pub(super) struct All {
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
                    newtype: Newtype,
                    pair: (Pair, u8),
                    #[serde(default)]
                    inner: Inner,
                    #[serde(default = "seven")]
                    seven: i32,
                }

                fn seven() -> i32 {
                    7
                }
            }
        };
    }
    types!(ours, crate::read::FromJson);
    types!(theirs, serde::Deserialize);

    const TEXT: &str = r#" { "text" : "a\"\u00e9\n" , "small":null,"large":-9007199254740993,
        "wide":18446744073709551615,"share":1.5e3,"yes":true,"list":["x",null,""],"map":{"k":{"l":[1,-2,2.5,"",{}]}},
        "modes":["plain","other"],"newtype":5,"pair":[[-3,"p"],255],"inner":{"a/b":1,"twoWords":"w","more":[0]}} "#;

    #[test]
    fn what_serde_reads_is_read_the_same() {
        let (ours, theirs) =
            (from_json::<ours::All>(TEXT).unwrap(), serde_json::from_str::<theirs::All>(TEXT).unwrap());
        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
        assert!(format!("{ours:?}").ends_with("seven: 7 }"));
        assert_eq!(from_json::<Value>(TEXT).unwrap(), serde_json::from_str::<Value>(TEXT).unwrap());
        assert_eq!(serde_json::from_str::<ours::All>(TEXT).unwrap(), ours, "by way of serde");
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_judged_as_by_serde() {
        for end in 0..TEXT.trim_end().len() {
            if let Some(cut) = TEXT.get(..end) {
                assert!(from_json::<ours::All>(cut).is_err(), "{cut}");
            }
        }
        for at in 0..TEXT.len() {
            for byte in [b'}', b']', b',', b':', b'"', b'0', b'-', b'n', b'.', b' ', b'\\', 1] {
                let mut changed = TEXT.as_bytes().to_vec();
                changed[at] = byte;
                let Ok(changed) = String::from_utf8(changed) else { continue };
                let (ours, theirs) = (from_json::<Value>(&changed), serde_json::from_str::<Value>(&changed));
                assert_eq!(ours.ok(), theirs.ok(), "{changed}");
                let ours = from_json::<ours::All>(&changed).map(|read| format!("{read:?}"));
                let theirs = serde_json::from_str::<theirs::All>(&changed).map(|read| format!("{read:?}"));
                assert_eq!(ours.as_ref().ok(), theirs.as_ref().ok(), "{changed}: {ours:?} {theirs:?}");
            }
        }
    }

    #[test]
    fn integers_keep_to_their_range() {
        for text in
            ["-129", "-128", "-1", "0", "127", "128", "255", "256", "1.0", "1e2", "-0", "true", "null"]
        {
            assert_eq!(from_json::<i8>(text).ok(), serde_json::from_str::<i8>(text).ok(), "{text}");
            assert_eq!(from_json::<u8>(text).ok(), serde_json::from_str::<u8>(text).ok(), "{text}");
        }
        for text in
            ["9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551616"]
        {
            assert_eq!(from_json::<i64>(text).ok(), serde_json::from_str::<i64>(text).ok(), "{text}");
            assert_eq!(from_json::<u64>(text).ok(), serde_json::from_str::<u64>(text).ok(), "{text}");
        }
    }

    #[test]
    fn null_leaves_what_is_there_as_in_go() {
        #[derive(Debug, PartialEq, FromJson)]
        #[serde(default)]
        struct Port {
            protocol: String,
            names: Vec<String>,
            map: BTreeMap<String, i32>,
            maybe: Option<i32>,
            value: Value,
        }
        impl Default for Port {
            fn default() -> Self {
                Self {
                    protocol: "TCP".to_owned(),
                    names: vec![],
                    map: BTreeMap::new(),
                    maybe: None,
                    value: json!(1),
                }
            }
        }
        let all = r#"{"protocol":null,"names":null,"map":null,"maybe":null,"value":null}"#;
        assert_eq!(from_json::<Port>(all).unwrap(), Port::default());
        let within: Port = from_json(r#"{"names":["a",null],"map":{"k":null}}"#).unwrap();
        assert_eq!(
            (within.names, within.map),
            (vec!["a".to_owned(), String::new()], [("k".to_owned(), 0)].into())
        );
        assert!(from_json::<Port>("null").is_err());
    }

    #[test]
    fn raw_json_stays_as_it_was() {
        #[derive(FromJson)]
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
        for (text, wanted) in [
            (r#"{"text": 5}"#, "invalid type: integer `5`, expected a string (byte 10 of 11)"),
            (r#"{"text": "a"}"#, "missing field large (byte 13 of 13)"),
            (r#"{"modes": ["grand"]}"#, "grand is no Mode (byte 18 of 20)"),
            (
                r#"{"large": 1.5}"#,
                "expected an integer of at most 64 bits, without fraction or exponent (byte 13 of 14)",
            ),
            (
                r#"{"wide": 18446744073709551616}"#,
                "expected an integer of at most 64 bits, without fraction or exponent (byte 29 of 30)",
            ),
            (r#"{"small": 2147483648}"#, "the integer is out of range (byte 20 of 21)"),
            (r#"{"share": "1"}"#, r#"invalid type: string "1", expected a number (byte 13 of 14)"#),
            ("{} x", "missing field text (byte 2 of 4)"),
        ] {
            assert_eq!(from_json::<ours::All>(text).unwrap_err(), wanted);
        }
        assert_eq!(from_json::<Value>("{} x").unwrap_err(), "something follows the value (byte 3 of 4)");
    }

    #[test]
    fn deep_nesting_is_an_error_and_skipping_it_is_not() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(from_json::<Value>(&deep).unwrap_err().contains("too deep"));
        from_json::<()>(&deep).unwrap();
        let mut value = json!(1);
        for _ in 0..100 {
            value = json!([value]);
        }
        assert_eq!(from_json::<Value>(&value.to_string()).unwrap(), value);

        // What is left again is no depth.
        #[derive(FromJson)]
        struct Nothing {}
        let beside = |what: &str| format!("[{}]", vec![what; 1_000].join(","));
        assert_eq!(from_json::<Vec<Vec<u8>>>(&beside("[]")).unwrap().len(), 1_000);
        assert_eq!(from_json::<Vec<BTreeMap<String, u8>>>(&beside("{}")).unwrap().len(), 1_000);
        assert_eq!(from_json::<Vec<Nothing>>(&beside("{}")).unwrap().len(), 1_000);
    }
}
