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
            Self::Object(fields) => Value::Object(fields.iter().map(|(k, v)| (k.clone(), v.to_value())).collect()),
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
            Value::Object(fields) => Self::Object(fields.iter().map(|(k, v)| (k.clone(), Self::from(v))).collect()),
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
    }
}
