//! Resource quantities: `500m`, `1.5Gi`, `2e3`.
//!
//! In: the API's texts. Out: numbers that compare, add and print as the API
//! server has them, in the family of suffixes they came in. What is finer than
//! `1n` is rounded away from zero; binary quantities end at 2^63-1; numbers of
//! more than 36 digits keep the first 36, rounded away from zero as well.
//! Invariant: no text and no arithmetic panics or wraps.

mod digits;
mod format;
mod parse;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};

use serde::ser::{Serialize, Serializer};

use crate::read::{Failed, FromJson, Reader, Scalar};

pub use parse::ParseError;

/// Families of suffixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// `m`, none, `k`, `M`: powers of ten.
    #[default]
    Decimal,
    /// `Ki`, `Mi`: powers of two.
    Binary,
    /// `e3`, `e6`.
    Exponent,
}

/// A quantity: `mantissa` times ten to the power of `exponent`. Quantities are
/// equal if their numbers are, whatever they look like.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    mantissa: i128,
    exponent: i32,
    family: Family,
}

impl Quantity {
    /// Zero, of no particular family: it takes on that of what is added.
    pub const ZERO: Self = Self { mantissa: 0, exponent: 0, family: Family::Decimal };

    /// A whole number.
    pub fn new(value: i64, family: Family) -> Self {
        Self { mantissa: value.into(), exponent: 0, family }
    }

    /// A number of thousandths.
    pub fn from_milli(value: i64, family: Family) -> Self {
        Self { mantissa: value.into(), exponent: -3, family }
    }

    /// Reads a quantity.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse::parse(text)
    }

    /// Its family of suffixes.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// Whether it is below zero.
    pub fn is_negative(&self) -> bool {
        self.mantissa < 0
    }

    /// The number, rounded away from zero to a whole one. What is too large for
    /// it is the largest there is.
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// The number of thousandths, rounded and capped like [`Quantity::value`].
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(-3)
    }

    /// The number of units of ten to the power of `scale`, rounded and capped
    /// like [`Quantity::value`].
    pub fn scaled_value(&self, scale: i32) -> i64 {
        let at_limit = if self.is_negative() { i64::MIN } else { i64::MAX };
        let units = digits::rescale(self.mantissa, self.exponent, scale);
        units.and_then(|units| i64::try_from(units).ok()).unwrap_or(at_limit)
    }

    /// So many times this.
    pub fn times(self, count: i64) -> Self {
        let (mantissa, exponent) = match self.mantissa.checked_mul(count.into()) {
            Some(product) if digits::fits(product) => (product, self.exponent),
            _ => digits::product(self.mantissa, self.exponent, count),
        };
        Self { mantissa, exponent, ..self }
    }

    /// The larger of two; of equal ones this.
    pub fn max(self, other: Self) -> Self {
        if other > self { other } else { self }
    }

    /// The smaller of two; of equal ones this.
    pub fn min(self, other: Self) -> Self {
        if other < self { other } else { self }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        digits::compare((self.mantissa, self.exponent), (other.mantissa, other.exponent))
    }
}

/// A sum is of the first summand's family, unless that is zero.
impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        if self.is_zero() {
            return other;
        }
        let (mantissa, exponent) =
            digits::sum((self.mantissa, self.exponent), (other.mantissa, other.exponent));
        Self { mantissa, exponent, ..self }
    }
}

impl Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Neg for Quantity {
    type Output = Self;

    fn neg(self) -> Self {
        Self { mantissa: -self.mantissa, ..self }
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(quantities: I) -> Self {
        quantities.fold(Self::ZERO, Add::add)
    }
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        format::write(f, self.mantissa, self.exponent, self.family)
    }
}

impl std::str::FromStr for Quantity {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse::parse(text)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Read from a text or from a number, as the API takes both.
impl FromJson for Quantity {
    fn blank() -> Self {
        Self::ZERO
    }

    fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
        let refused = |error: ParseError| Failed::new(error.to_string());
        *self = match reader.scalar()? {
            Scalar::Text(text) => parse::parse(text.trim()).map_err(refused)?,
            Scalar::Unsigned(value) => Self { mantissa: value.into(), ..Self::ZERO },
            Scalar::Signed(value) => Self::new(value, Family::Decimal),
            // As JSON has it: printing floats otherwise is 20 KB of code.
            Scalar::Float(value) => match serde_json::Number::from_f64(value) {
                Some(number) => parse::parse(&number.to_string()).map_err(refused)?,
                None => return Err(Failed::new("not a number")),
            },
            Scalar::Null | Scalar::Bool(_) => return Err(Failed::new("expected a quantity")),
        };
        Ok(())
    }
}
