//! Writes quantities in their canonical form: no fraction, and the largest
//! suffix of the family that allows it.

use std::fmt::Formatter;

use super::Family;
use super::digits::{self, Number};

const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

pub(super) fn write(
    f: &mut Formatter<'_>,
    mantissa: i128,
    exponent: i32,
    family: Family,
) -> std::fmt::Result {
    let number = digits::normal((mantissa, exponent));
    if family == Family::Binary {
        if let Some((number, suffix)) = binary(number) {
            return write!(f, "{number}{suffix}");
        }
    }
    let (mantissa, exponent) = number;
    let odd = exponent.rem_euclid(3);
    let mantissa = mantissa * 10i128.pow(odd.unsigned_abs());
    match (exponent - odd, family) {
        (0, _) => write!(f, "{mantissa}"),
        (exponent, Family::Decimal | Family::Binary) if (-9..=18).contains(&exponent) => {
            write!(f, "{mantissa}{}", decimal(exponent))
        }
        (exponent, _) => write!(f, "{mantissa}e{exponent}"),
    }
}

fn decimal(exponent: i32) -> &'static str {
    match exponent {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        _ => "",
    }
}

/// The binary form. None where it would lose something, or is no shorter.
fn binary((mantissa, exponent): Number) -> Option<(i128, &'static str)> {
    if exponent < 0 {
        return None;
    }
    let mut number = digits::rescale(mantissa, exponent, 0)?;
    if (-1023..=1023).contains(&number) {
        return None;
    }
    let mut power = 0;
    while number % 1024 == 0 && power + 1 < BINARY.len() {
        number /= 1024;
        power += 1;
    }
    Some((number, BINARY[power]))
}
