//! Decimal arithmetic on `mantissa` times ten to the power of an exponent.
//!
//! Invariant: a mantissa has at most [`DIGITS`] digits; what does not fit is
//! rounded away from zero.

use std::cmp::Ordering;

/// A mantissa and an exponent of ten.
pub(super) type Number = (i128, i32);

/// Digits of a mantissa. Two more fit, which alignment needs.
pub(super) const DIGITS: u32 = 36;

const LIMIT: i128 = 10i128.pow(DIGITS);

/// Whether a mantissa has no more digits than it may have.
pub(super) fn fits(mantissa: i128) -> bool {
    -LIMIT < mantissa && mantissa < LIMIT
}

/// The mantissa of the same number at another exponent, rounded away from zero.
/// None where it does not fit.
pub(super) fn rescale(mantissa: i128, exponent: i32, to: i32) -> Option<i128> {
    if mantissa == 0 || exponent == to {
        return Some(mantissa);
    }
    let by = exponent.abs_diff(to);
    if exponent > to {
        return if by > DIGITS { None } else { mantissa.checked_mul(10i128.pow(by)) };
    }
    if by > DIGITS + 1 {
        return Some(mantissa.signum());
    }
    let unit = 10i128.pow(by);
    let rest = mantissa % unit;
    Some(mantissa / unit + rest.signum())
}

/// Moves the factors of ten into the exponent.
pub(super) fn normal((mut mantissa, mut exponent): Number) -> Number {
    if mantissa == 0 {
        return (0, 0);
    }
    while mantissa % 10 == 0 {
        mantissa /= 10;
        exponent += 1;
    }
    (mantissa, exponent)
}

/// The number with a mantissa that fits.
fn fitted((mut mantissa, mut exponent): Number) -> Number {
    while !fits(mantissa) {
        mantissa = mantissa / 10 + (mantissa % 10).signum();
        exponent += 1;
    }
    (mantissa, exponent)
}

/// Exponent of the first digit, plus one.
fn magnitude((mantissa, exponent): Number) -> i32 {
    let digits = mantissa.unsigned_abs().checked_ilog10().map_or(0, |log| log + 1);
    exponent + digits as i32
}

/// The sum.
pub(super) fn sum(a: Number, b: Number) -> Number {
    if b.0 == 0 {
        return a;
    }
    if a.0 == 0 {
        return b;
    }
    let exact = |a: Number, b: Number| {
        let at = a.1.min(b.1);
        let sum = rescale(a.0, a.1, at)?.checked_add(rescale(b.0, b.1, at)?)?;
        fits(sum).then_some((sum, at))
    };
    exact(a, b).unwrap_or_else(|| {
        let (a, b) = (normal(a), normal(b));
        let at = a.1.min(b.1).max(magnitude(a).max(magnitude(b)) - DIGITS as i32);
        let part = |number: Number| rescale(number.0, number.1, at).unwrap_or(0);
        fitted((part(a) + part(b), at))
    })
}

/// The product with a count, where the mantissa alone would not fit.
pub(super) fn product(mantissa: i128, exponent: i32, count: i64) -> Number {
    // 18 digits by 19 fit.
    let (mut mantissa, mut exponent) = normal((mantissa, exponent));
    let (count, tens) = normal((count.into(), 0));
    while mantissa.checked_mul(count).is_none() {
        mantissa = mantissa / 10 + (mantissa % 10).signum();
        exponent += 1;
    }
    fitted((mantissa * count, exponent + tens))
}

/// Which number is the larger.
pub(super) fn compare(a: Number, b: Number) -> Ordering {
    if a.1 == b.1 || a.0 == 0 || b.0 == 0 || (a.0 < 0) != (b.0 < 0) {
        return a.0.cmp(&b.0);
    }
    let (a, b) = (normal(a), normal(b));
    let by_magnitude = magnitude(a).cmp(&magnitude(b));
    if by_magnitude != Ordering::Equal {
        return if a.0 < 0 { by_magnitude.reverse() } else { by_magnitude };
    }
    // Of one magnitude, both fit at the smaller exponent.
    let at = a.1.min(b.1);
    rescale(a.0, a.1, at).cmp(&rescale(b.0, b.1, at))
}
