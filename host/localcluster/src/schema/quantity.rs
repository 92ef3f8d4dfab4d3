//! Quantities: `500m`, `1.5Gi`, `3e2`, and their canonical text.
//!
//! In: text. Out: a number of billionths and the family of suffixes. Invariant: `canonical` of a parsed quantity
//! parses to the same quantity.

use std::cmp::Ordering;
use std::fmt;

/// What a malformed quantity is answered with.
pub const BAD_QUANTITY: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const NANO: i128 = 1_000_000_000;
const MAX: i128 = i64::MAX as i128 * NANO;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Decimal,
    Exponent,
    Binary,
}

/// An amount, exact to a billionth.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.nano.cmp(&other.nano))
    }
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { nano: 0, format: Format::Decimal };

    /// A whole number.
    pub fn whole(n: i64) -> Self {
        Self { nano: i128::from(n) * NANO, format: Format::Decimal }
    }

    /// Parses the text of a quantity.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.len() + fraction.len() == 0 || fraction.contains('.') {
            return None;
        }
        let (base, exponent, format) = suffix_of(suffix)?;
        let mut nano = 0i128;
        let digits = || whole.bytes().chain(fraction.bytes()).map(|b| i128::from(b - b'0'));
        // Digits past what 128 bits hold cannot matter: the amount is capped or below a billionth.
        let mut scale = 9 - fraction.len() as i32 + if base == 10 { exponent } else { 0 };
        let mut rounded_up = false;
        for digit in digits() {
            match nano.checked_mul(10).and_then(|n| n.checked_add(digit)) {
                Some(n) => nano = n,
                None => {
                    rounded_up |= digit > 0;
                    scale += 1;
                }
            }
        }
        while scale > 0 && nano <= MAX && nano != 0 {
            nano *= 10;
            scale -= 1;
        }
        // Binary suffixes multiply before anything is rounded away.
        if base == 2 {
            nano = nano.saturating_mul(1i128 << exponent);
        }
        while scale < 0 && nano != 0 {
            rounded_up |= nano % 10 != 0;
            nano /= 10;
            scale += 1;
        }
        nano = (nano + i128::from(rounded_up)).min(MAX);
        Some(Self { nano: if negative { -nano } else { nano }, format })
    }

    /// The text that the server writes for `text`: canonical, except where its parser takes the text for canonical
    /// already, as it does with `+5` and `1.500`.
    pub fn written(text: &str) -> Option<String> {
        let quantity = Self::parse(text)?;
        Some(if taken_for_canonical(text) { text.to_owned() } else { quantity.to_string() })
    }

    /// Whether it is nothing.
    pub fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// Whether it is below nothing.
    pub fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// Whether it is a whole number.
    pub fn is_whole(self) -> bool {
        self.nano % NANO == 0
    }

    /// Rounded up to a whole number.
    pub fn value(self) -> i64 {
        let up = i128::from(self.nano % NANO > 0);
        (self.nano / NANO + up) as i64
    }

    /// Rounded up to thousandths.
    pub fn milli_value(self) -> i64 {
        let up = i128::from(self.nano % 1_000_000 > 0);
        (self.nano / 1_000_000 + up).clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// Sum, with the suffixes of the left one unless that is nothing.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { nano: (self.nano + other.nano).clamp(-MAX, MAX), format }
    }

    /// Difference.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.plus(Self { nano: -other.nano, format: other.format })
    }
}

/// What the parser of `k8s.io/apimachinery/pkg/api/resource` does not print anew: numbers of few digits whose exponent
/// is a multiple of three (of ten bits for binary ones) and that do not end as if a larger suffix would do.
fn taken_for_canonical(text: &str) -> bool {
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    let Some((base, exponent, _)) = suffix_of(suffix) else { return false };
    let digits = (whole.len() + fraction.len()) as i32;
    if base == 2 {
        let room = 15 - digits - exponent * 3 / 10 - 1;
        return fraction.is_empty() && room >= 0 && whole.parse::<i64>().is_ok_and(|n| n & 7 != 0);
    }
    let scale = exponent - fraction.len() as i32;
    let shifted = format!("{whole}{fraction}");
    text == "0"
        || (digits <= 18
            && scale >= -9
            && scale % 3 == 0
            && !shifted.ends_with("000")
            && !shifted.starts_with('0'))
}

/// Base, exponent and family of a suffix.
fn suffix_of(suffix: &str) -> Option<(u32, i32, Format)> {
    let decimal = |e| Some((10, e, Format::Decimal));
    let binary = |e| Some((2, e, Format::Binary));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?;
            Some((10, exponent.clamp(-60, 60), Format::Exponent))
        }
    }
}

/// The canonical text: no fraction, the largest suffix that loses nothing.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nano == 0 {
            return f.write_str("0");
        }
        let whole = self.nano / NANO;
        if self.format == Format::Binary && self.is_whole() && whole.abs() >= 1024 {
            let (mut number, mut power) = (whole, 0);
            while number % 1024 == 0 && power < 6 {
                number /= 1024;
                power += 1;
            }
            let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power];
            return write!(f, "{number}{suffix}");
        }
        let (mut number, mut exponent) = (self.nano, -9);
        while number % 1000 == 0 && exponent < 18 {
            number /= 1000;
            exponent += 3;
        }
        if self.format == Format::Exponent {
            return match exponent {
                0 => write!(f, "{number}"),
                e => write!(f, "{number}e{e}"),
            };
        }
        let suffix = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][(exponent / 3 + 3) as usize];
        write!(f, "{number}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_text_is_that_of_the_real_server() {
        for (given, want) in [
            ("0.5", "500m"),
            ("1000", "1k"),
            ("1024", "1024"),
            ("1.5Gi", "1536Mi"),
            ("1024Mi", "1Gi"),
            ("0.5Ki", "512"),
            ("1e3", "1e3"),
            ("128974848", "128974848"),
            ("100m", "100m"),
            ("1.0", "1"),
            ("-2", "-2"),
            ("0Gi", "0"),
            ("0.0001m", "100n"),
            ("0.1n", "1n"),
            ("12E", "9223372036854775807"),
            ("110", "110"),
        ] {
            let got = Quantity::parse(given).map(|q| q.to_string());
            assert_eq!(got.as_deref(), Some(want), "{given}");
        }
        for (given, want) in [
            ("+5", "+5"),
            ("1.500", "1.500"),
            ("1E3", "1E3"),
            ("5.", "5."),
            ("010", "010"),
            ("1e6", "1e6"),
            ("0.10", "100m"),
            ("+1.0", "1"),
            ("1024Ki", "1Mi"),
            ("1000000", "1M"),
            ("1000m", "1"),
            ("0.001", "1m"),
            ("00.5", "500m"),
            ("-0", "0"),
            ("1.5Gi", "1536Mi"),
        ] {
            assert_eq!(Quantity::written(given).as_deref(), Some(want), "{given}");
        }
        for bad in ["", "lots", "1.2.3", "1Kib", "1 Gi", ".", "1ee3", "--1"] {
            assert!(Quantity::parse(bad).is_none(), "{bad}");
        }
    }
}
