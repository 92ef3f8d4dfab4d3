//! Reads quantities.

use super::digits::{self, DIGITS, Number};
use super::{Family, Quantity};

/// Why a text is no quantity, in the words of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// It is not a number with a suffix.
    Format,
    /// There is no such suffix.
    Suffix,
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Format => {
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            }
            Self::Suffix => "unable to parse quantity's suffix",
        })
    }
}

impl std::error::Error for ParseError {}

/// The finest there is: `1n`.
const FINEST: i32 = -9;
/// Exponents beyond this mean nothing any more; a limit keeps sums of them small.
const FARTHEST: i64 = 1_000_000;
const LARGEST_BINARY: i128 = i64::MAX as i128;

enum Suffix {
    Ten(i32, Family),
    Two(u32),
}

pub(super) fn parse(text: &str) -> Result<Quantity, ParseError> {
    if text.is_empty() {
        return Err(ParseError::Format);
    }
    let (negative, rest) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (whole, rest) = digits_of(rest);
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => digits_of(rest),
        None => ("", rest),
    };
    let number = number(whole, fraction);
    let suffix = read_suffix(suffix)?;
    let (number, mut family) = match suffix {
        Suffix::Ten(power, family) => (raised(number, i64::from(power)), family),
        Suffix::Two(power) => (doubled(number, power), Family::Binary),
    };
    let (mut mantissa, mut exponent) = number;
    if exponent < FINEST {
        mantissa = digits::rescale(mantissa, exponent, FINEST).unwrap_or(0);
        exponent = FINEST;
    }
    if family == Family::Binary {
        if digits::compare((mantissa, exponent), (LARGEST_BINARY, 0)).is_gt() {
            (mantissa, exponent) = (LARGEST_BINARY, 0);
        }
        if mantissa != 0 && digits::compare((mantissa, exponent), (1, 0)).is_lt() {
            family = Family::Decimal;
        }
    }
    Ok(Quantity { mantissa: if negative { -mantissa } else { mantissa }, exponent, family })
}

fn digits_of(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// A number from its digits before and after the point.
fn number(whole: &str, fraction: &str) -> Number {
    let fraction = fraction.trim_end_matches('0');
    let (mut mantissa, mut dropped, mut inexact) = (0i128, 0usize, false);
    for digit in whole.bytes().chain(fraction.bytes()) {
        if mantissa < 10i128.pow(DIGITS - 1) {
            mantissa = mantissa * 10 + i128::from(digit - b'0');
        } else {
            dropped += 1;
            inexact |= digit != b'0';
        }
    }
    let exponent = (dropped as i64 - fraction.len() as i64).clamp(-FARTHEST, FARTHEST);
    (mantissa + i128::from(inexact), exponent as i32)
}

fn raised((mantissa, exponent): Number, power: i64) -> Number {
    let exponent = (i64::from(exponent) + power).clamp(-FARTHEST, FARTHEST);
    (mantissa, if mantissa == 0 { 0 } else { exponent as i32 })
}

fn doubled(number: Number, times: u32) -> Number {
    let (mut mantissa, mut exponent) = digits::normal(number);
    for _ in 0..times {
        mantissa *= 2;
        if !digits::fits(mantissa) {
            mantissa = mantissa / 10 + (mantissa % 10).signum();
            exponent += 1;
        }
        if mantissa % 10 == 0 {
            (mantissa, exponent) = digits::normal((mantissa, exponent));
        }
    }
    (mantissa, exponent)
}

fn read_suffix(text: &str) -> Result<Suffix, ParseError> {
    let ten = |power| Ok(Suffix::Ten(power, Family::Decimal));
    match text {
        "" => ten(0),
        "n" => ten(-9),
        "u" => ten(-6),
        "m" => ten(-3),
        "k" => ten(3),
        "M" => ten(6),
        "G" => ten(9),
        "T" => ten(12),
        "P" => ten(15),
        "E" => ten(18),
        "Ki" => Ok(Suffix::Two(10)),
        "Mi" => Ok(Suffix::Two(20)),
        "Gi" => Ok(Suffix::Two(30)),
        "Ti" => Ok(Suffix::Two(40)),
        "Pi" => Ok(Suffix::Two(50)),
        "Ei" => Ok(Suffix::Two(60)),
        _ => match text.strip_prefix(['e', 'E']).map(str::parse::<i64>) {
            Some(Ok(power)) => Ok(Suffix::Ten(power.clamp(-FARTHEST, FARTHEST) as i32, Family::Exponent)),
            _ if has_form(text) => Err(ParseError::Suffix),
            _ => Err(ParseError::Format),
        },
    }
}

/// Whether a text could be a suffix: letters, then perhaps a signed number.
fn has_form(text: &str) -> bool {
    let rest = text.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    rest.bytes().all(|c| c.is_ascii_digit())
}
