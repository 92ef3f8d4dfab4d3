//! Reading JSON: what a type must know to be read.
//!
//! A type is read in place: it begins blank, and reading fills it in. So little is
//! compiled for a type, where serde has a visitor for each type and each field;
//! and null and what is absent leave the blank, as in Go.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use litemap::LiteMap;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::time::Time;

pub use crate::cursor::Scalar;
pub use crate::reader::Reader;
pub use coxswain_sdk_derive::FromJson;
#[doc(hidden)]
pub use serde;

/// What can be read from JSON. Derived for structs, with serde's attributes:
///
/// ```
/// use coxswain_sdk::{FromJson, from_json};
///
/// #[derive(FromJson, Default)]
/// #[serde(rename_all = "camelCase", default)]
/// struct Spec {
///     node_name: String,
///     replicas: Option<i32>,
/// }
///
/// let spec: Spec = from_json(r#"{"nodeName": "n", "replicas": null, "other": 1}"#).unwrap();
/// assert_eq!((spec.node_name.as_str(), spec.replicas), ("n", None));
/// ```
pub trait FromJson: Sized {
    /// Whether a struct may lack it without a default.
    const IS_OPTIONAL: bool = false;

    /// What is there before anything is read, and stays where there is nothing.
    fn blank() -> Self;

    /// Reads what is there; that is no null, unless it stands alone. Of a shape it
    /// must ask for all that it would ever read, in one call of the reader; what
    /// it answers then is of no account.
    fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed>;
}

/// Why JSON could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed(
    #[allow(
        clippy::box_collection,
        reason = "a thin pointer: nearly every function of a view gives it back"
    )]
    Box<String>,
);

impl Failed {
    /// It cannot be read for this reason.
    #[cold]
    pub fn new(reason: impl Into<String>) -> Self {
        Self(Box::new(reason.into()))
    }

    #[cold]
    pub(crate) fn of(error: &serde_json::Error) -> Self {
        Self::new(error.to_string())
    }

    /// An enum has no such variant.
    #[cold]
    pub fn unknown(name: &str, of: &str) -> Self {
        Self::new([name, " is no ", of].concat())
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

/// Fields of a struct.
#[derive(Debug)]
pub struct Fields {
    /// Their names. Numbers of fields are places in here.
    pub names: &'static [&'static str],
    /// Bits of those that must be there.
    pub required: u64,
    /// Whether all of the object counts as read.
    pub is_whole: bool,
}

/// The bit of a field in [`Fields::required`].
#[doc(hidden)]
pub const fn required(at: usize, is_optional: bool) -> u64 {
    if is_optional { 0 } else { 1 << at }
}

/// Reads what serde_json reads from. Other formats have no raw JSON to give.
#[doc(hidden)]
pub fn through_serde<'de, T: FromJson, D: serde::Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let raw = <Box<RawValue> as serde::Deserialize>::deserialize(deserializer)?;
    crate::from_json(raw.get()).map_err(serde::de::Error::custom)
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl FromJson for $integer {
            fn blank() -> Self {
                0
            }

            #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::unnecessary_cast,
                    reason = "the reader keeps to the range")]
            fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
                *self = reader.integer(Self::MIN as i64, Self::MAX as u64)? as Self;
                Ok(())
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);

impl FromJson for f64 {
    fn blank() -> Self {
        0.0
    }

    fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
        *self = reader.number()?;
        Ok(())
    }
}

impl FromJson for bool {
    fn blank() -> Self {
        false
    }

    fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
        *self = reader.boolean()?;
        Ok(())
    }
}

/// Nothing of a value, but that it is there.
impl FromJson for () {
    fn blank() -> Self {}

    fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
        reader.raw().map(drop)
    }
}

impl FromJson for String {
    fn blank() -> Self {
        Self::new()
    }

    fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
        *self = reader.text()?.into_owned();
        Ok(())
    }
}

impl<T: FromJson> FromJson for Option<T> {
    const IS_OPTIONAL: bool = true;

    fn blank() -> Self {
        None
    }

    fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
        match reader.maybe()? {
            Some(reader) => self.insert(T::blank()).read(reader),
            None => {
                *self = None;
                Ok(())
            }
        }
    }
}

impl<T: FromJson> FromJson for Box<T> {
    const IS_OPTIONAL: bool = T::IS_OPTIONAL;

    fn blank() -> Self {
        Self::new(T::blank())
    }

    fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
        (**self).read(reader)
    }
}

impl<T: FromJson> FromJson for Vec<T> {
    fn blank() -> Self {
        Self::new()
    }

    fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
        self.clear();
        reader.list(&mut |element| {
            let place = self.push_mut(T::blank());
            element.map_or(Ok(()), |reader| place.read(reader))
        })
    }
}

impl FromJson for BTreeSet<String> {
    fn blank() -> Self {
        Self::new()
    }

    fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
        let mut texts = Vec::<String>::new();
        texts.read(reader)?;
        *self = crate::sort::set_of(texts);
        Ok(())
    }
}

macro_rules! maps {
    ($($map:ident),*) => {$(
        impl<T: FromJson> FromJson for $map<String, T> {
            fn blank() -> Self {
                Self::new()
            }

            fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
                self.clear();
                reader.entries(&mut |name, value| {
                    let mut read = T::blank();
                    if let Some(value) = value {
                        read.read(value)?;
                    }
                    self.insert(name.into_owned(), read);
                    Ok(())
                })
            }
        }
    )*};
}

maps!(BTreeMap, LiteMap);

impl FromJson for Value {
    fn blank() -> Self {
        Self::Null
    }

    fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
        *self = reader.value()?;
        Ok(())
    }
}

impl FromJson for Map<String, Value> {
    fn blank() -> Self {
        Self::new()
    }

    fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
        match reader.value()? {
            Value::Object(fields) => *self = fields,
            _ => return Err(Failed::new("expected an object")),
        }
        Ok(())
    }
}

/// Reads an object that is kept whole: the fields that are texts into their places,
/// where null is as good as absent. Returns the others.
pub(crate) fn texts(
    reader: Reader<'_, '_>,
    of: &str,
    places: &mut [(&str, &mut String)],
) -> Result<Map<String, Value>, Failed> {
    let mut fields = Map::blank();
    fields.read(reader)?;
    let mut rest = Map::new();
    for (field, value) in fields {
        match (places.iter_mut().find(|(name, _)| *name == field), value) {
            (None, value) => {
                rest.insert(field, value);
            }
            (Some(_), Value::Null) => {}
            (Some((_, place)), Value::String(text)) => **place = text,
            (Some(_), _) => return Err(Failed::new([of, ": ", &field, " is no string"].concat())),
        }
    }
    Ok(rest)
}

/// A time that may be empty.
pub(crate) fn optional_time(of: &str, text: &str) -> Result<Option<Time>, Failed> {
    if text.is_empty() {
        return Ok(None);
    }
    Time::parse(text).map(Some).ok_or_else(|| Failed::new([of, ": not a time: ", text].concat()))
}

impl FromJson for Box<RawValue> {
    fn blank() -> Self {
        RawValue::NULL.to_owned()
    }

    fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
        *self = reader.raw()?.to_owned();
        Ok(())
    }
}

macro_rules! tuples {
    ($(($($part:ident $at:tt),*) of $len:literal;)*) => {$(
        impl<$($part: FromJson),*> FromJson for ($($part,)*) {
            fn blank() -> Self {
                ($($part::blank(),)*)
            }

            fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
                // Each part is another type, and a shape asks only once what an element reads.
                let Some(reader) = reader.or_whole() else { return Ok(()) };
                let mut at = 0;
                reader.list(&mut |element| {
                    let this = at;
                    at += 1;
                    match (this, element) {
                        $(($at, Some(reader)) => self.$at.read(reader),)*
                        (..$len, None) => Ok(()),
                        _ => Err(Failed::new(concat!("more than ", $len, " elements"))),
                    }
                })?;
                if at == $len { Ok(()) } else { Err(Failed::new(concat!("fewer than ", $len, " elements"))) }
            }
        }
    )*};
}

tuples! {
    (A 0, B 1) of 2;
    (A 0, B 1, C 2) of 3;
}
