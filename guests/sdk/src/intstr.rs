//! Numbers that may be percentages, such as `maxSurge: 25%`.

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

/// A number, or a percentage of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntOrString {
    /// A number.
    Int(i32),
    /// A text, which should be a percentage.
    Text(String),
}

impl IntOrString {
    /// The number that this is of `total`; a share is rounded up or down.
    pub fn scaled(&self, total: i32, round_up: bool) -> Result<i32, String> {
        match self {
            Self::Int(number) => Ok(*number),
            Self::Text(text) => {
                let percent: i64 = text
                    .strip_suffix('%')
                    .and_then(|digits| digits.parse().ok())
                    .ok_or_else(|| format!("invalid value {text:?}: neither a number nor a percentage"))?;
                let product = i64::from(total).saturating_mul(percent);
                let share = if round_up {
                    product.saturating_add(99).div_euclid(100)
                } else {
                    product.div_euclid(100)
                };
                i32::try_from(share).map_err(|_| format!("{text} of {total} is out of range"))
            }
        }
    }
}

impl<'de> Deserialize<'de> for IntOrString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = IntOrString;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number or a string")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<IntOrString, E> {
                i32::try_from(value).map(IntOrString::Int).map_err(|_| E::custom("number out of range"))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<IntOrString, E> {
                i32::try_from(value).map(IntOrString::Int).map_err(|_| E::custom("number out of range"))
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<IntOrString, E> {
                Ok(IntOrString::Text(value.to_owned()))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl Serialize for IntOrString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Int(number) => serializer.serialize_i32(*number),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_round_as_told() {
        for (json, total, up, wanted) in [
            ("3", 10, true, Ok(3)),
            ("\"25%\"", 10, true, Ok(3)),
            ("\"25%\"", 10, false, Ok(2)),
            ("\"0%\"", 10, true, Ok(0)),
            ("\"100%\"", 7, false, Ok(7)),
            ("\"3\"", 7, false, Err(())),
            ("\"x%\"", 7, false, Err(())),
        ] {
            let value: IntOrString = serde_json::from_str(json).unwrap();
            assert_eq!(value.scaled(total, up).map_err(drop), wanted, "{json} of {total}");
            assert_eq!(serde_json::to_string(&value).unwrap(), json);
        }
    }
}
