//! JSON whose objects keep the order of their keys.
//!
//! In: JSON or YAML. Out: the same as compact JSON. Kept: where the order of
//! keys is seen by a server (strict decoding names unknown fields in order) or
//! compared byte by byte (the data of a ControllerRevision).

use std::fmt;

use indexmap::IndexMap;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, SeqAccess, Visitor},
    ser::{SerializeMap, SerializeSeq},
};
use serde_json::Number;

/// A JSON value with ordered keys.
#[derive(Clone, Debug, PartialEq)]
pub enum Ordered {
    /// null
    Null,
    /// true or false
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Ordered>),
    /// An object.
    Object(IndexMap<String, Ordered>),
}

impl Ordered {
    /// The value without its order of keys.
    pub fn to_value(&self) -> serde_json::Value {
        use serde_json::Value;
        match self {
            Self::Null => Value::Null,
            Self::Bool(b) => Value::Bool(*b),
            Self::Number(n) => Value::Number(n.clone()),
            Self::Text(s) => Value::String(s.clone()),
            Self::List(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            Self::Object(fields) => {
                Value::Object(fields.iter().map(|(k, v)| (k.clone(), v.to_value())).collect())
            }
        }
    }

    /// The field of an object, to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Ordered> {
        match self {
            Self::Object(fields) => fields.get_mut(key),
            _ => None,
        }
    }

    /// Takes a field away; the others keep their order.
    pub fn remove(&mut self, key: &str) {
        if let Self::Object(fields) = self {
            fields.shift_remove(key);
        }
    }

    /// Lays `extra` over this: objects are merged, everything else is
    /// replaced; new keys come last.
    pub fn merge(&mut self, extra: &serde_json::Value) {
        let (Self::Object(fields), Some(extra)) = (self, extra.as_object()) else { return };
        for (key, value) in extra {
            match fields.get_mut(key) {
                Some(below @ Self::Object(_)) if value.is_object() => below.merge(value),
                _ => drop(fields.insert(key.clone(), value.into())),
            }
        }
    }

    /// JSON with a blank after commas and colons.
    pub fn spaced(&self) -> String {
        let mut out = Vec::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut out, Spaced);
        match self.serialize(&mut serializer) {
            // serde_json writes UTF-8, and writing to memory does not fail.
            Ok(()) => String::from_utf8_lossy(&out).into_owned(),
            Err(_) => self.to_string(),
        }
    }

    /// The field of an object.
    pub fn get(&self, key: &str) -> Option<&Ordered> {
        match self {
            Self::Object(fields) => fields.get(key),
            _ => None,
        }
    }
}

/// JSON with a blank after commas and colons, as Python writes it.
struct Spaced;

impl serde_json::ser::Formatter for Spaced {
    fn begin_array_value<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b": ")
    }
}

/// Compact JSON.
impl fmt::Display for Ordered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl From<&serde_json::Value> for Ordered {
    fn from(value: &serde_json::Value) -> Self {
        use serde_json::Value;
        match value {
            Value::Null => Self::Null,
            Value::Bool(b) => Self::Bool(*b),
            Value::Number(n) => Self::Number(n.clone()),
            Value::String(s) => Self::Text(s.clone()),
            Value::Array(items) => Self::List(items.iter().map(Self::from).collect()),
            Value::Object(fields) => {
                Self::Object(fields.iter().map(|(k, v)| (k.clone(), Self::from(v))).collect())
            }
        }
    }
}

impl Serialize for Ordered {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(b) => serializer.serialize_bool(*b),
            Self::Number(n) => n.serialize(serializer),
            Self::Text(s) => serializer.serialize_str(s),
            Self::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(item)?;
                }
                list.end()
            }
            Self::Object(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (key, value) in fields {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Ordered;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Ordered, E> {
        Ok(Ordered::Null)
    }

    fn visit_none<E>(self) -> Result<Ordered, E> {
        Ok(Ordered::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Ordered, D::Error> {
        Ordered::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Ordered, E> {
        Ok(Ordered::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Ordered, E> {
        Ok(Ordered::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Ordered, E> {
        Ok(Ordered::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Ordered, E> {
        Number::from_f64(value).map(Ordered::Number).ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Ordered, E> {
        Ok(Ordered::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Ordered, E> {
        Ok(Ordered::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Ordered, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Ordered::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Ordered, A::Error> {
        let mut fields = IndexMap::new();
        while let Some((key, value)) = access.next_entry()? {
            fields.insert(key, value);
        }
        Ok(Ordered::Object(fields))
    }
}

/// Reads YAML in which only `true` and `false` are booleans, so that `on` can
/// be a key.
pub fn from_yaml(text: &str) -> anyhow::Result<Ordered> {
    let options = serde_yaml::options! { strict_booleans: true };
    Ok(serde_yaml::from_str_with_options(text, options)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_keys_stays_and_on_is_a_key() {
        let read = from_yaml("on: pods\nb: [1, 0.5, null, true, 'x']\na: {z: 1, y: \"2\"}").unwrap();
        assert_eq!(read.to_string(), r#"{"on":"pods","b":[1,0.5,null,true,"x"],"a":{"z":1,"y":"2"}}"#);
        assert_eq!(serde_json::from_str::<Ordered>(&read.to_string()).unwrap(), read);
        let mut merged = read.clone();
        merged.remove("b");
        merged.merge(&serde_json::json!({"a": {"b": null, "z": 3}}));
        assert_eq!(merged.to_string(), r#"{"on":"pods","a":{"z":3,"y":"2","b":null}}"#);
        assert_eq!(
            read.spaced(),
            r#"{"on": "pods", "b": [1, 0.5, null, true, "x"], "a": {"z": 1, "y": "2"}}"#
        );
    }
}
