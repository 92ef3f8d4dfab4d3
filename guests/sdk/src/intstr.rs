//! Numbers that may be percentages, such as `maxSurge: 25%`.

use serde::ser::{Serialize, Serializer};

use crate::read::{Failed, FromJson, Reader, Scalar};

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

impl FromJson for IntOrString {
    fn blank() -> Self {
        Self::Int(0)
    }

    fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
        let out_of_range = |_| Failed::new("number out of range");
        *self = match reader.scalar()? {
            Scalar::Text(text) => Self::Text(text.into_owned()),
            Scalar::Signed(value) => i32::try_from(value).map(Self::Int).map_err(out_of_range)?,
            Scalar::Unsigned(value) => i32::try_from(value).map(Self::Int).map_err(out_of_range)?,
            Scalar::Null | Scalar::Bool(_) | Scalar::Float(_) => {
                return Err(Failed::new("expected a number or a string"));
            }
        };
        Ok(())
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
            let value: IntOrString = crate::from_json(json).unwrap();
            assert_eq!(value.scaled(total, up).map_err(drop), wanted, "{json} of {total}");
            assert_eq!(serde_json::to_string(&value).unwrap(), json);
        }
    }
}
