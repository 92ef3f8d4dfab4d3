//! JSON in the one form that Go writes maps in: members sorted, no blanks, HTML
//! escaped, numbers as floats.
//!
//! Kubernetes hashes and compares the bytes of what it keeps in
//! ControllerRevisions, which it has passed through Go maps. Writing the same
//! bytes lets either manager take over from the other.

use serde_json::{Number, Value};

use crate::merge::text_of;
use crate::sort::sorted_by;

/// Writes a value as Go's `json.Marshal` writes it once it was decoded into
/// maps.
pub fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => {
            out.push('{');
            for (at, (name, member)) in sorted_by(members, |a, b| a.0.cmp(b.0)).into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_text(name, out);
                out.push(':');
                write(member, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::String(text) => write_text(text, out),
        Value::Number(number) => write_number(number, out),
        Value::Bool(_) | Value::Null => out.push_str(&text_of(value)),
    }
}

fn write_text(text: &str, out: &mut String) {
    for c in text_of(&Value::from(text)).chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
}

/// Go decodes numbers into floats, so large integers lose their last digits.
fn write_number(number: &Number, out: &mut String) {
    const EXACT: u64 = 1 << 53;
    let small = number.as_i64().is_some_and(|i| i.unsigned_abs() <= EXACT);
    if small {
        out.push_str(&number.to_string());
    } else {
        write_float(number.as_f64().unwrap_or(0.0), out);
    }
}

/// The shortest digits that say a number, from serde_json: the standard library's
/// floats are 18 KB of code. Then Go's form: zeroes, or an exponent where the
/// number is very large or very small.
fn write_float(float: f64, out: &mut String) {
    let text = Number::from_f64(float).map(|number| number.to_string()).unwrap_or_default();
    let (sign, text) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = [whole, fraction].concat();
    let digits = all.trim_start_matches('0');
    let zeroes = all.len() - digits.len();
    let digits = digits.trim_end_matches('0');
    out.push_str(sign);
    if digits.is_empty() {
        out.push('0');
        return;
    }
    // Where the point is, counted from the first digit.
    let size = |len: usize| i32::try_from(len).unwrap_or(i32::MAX);
    let point = size(whole.len()) - size(zeroes) + exponent.parse::<i32>().unwrap_or(0);
    let missing = |places: i32| "0".repeat(usize::try_from(places).unwrap_or(0));
    if !(-5..=21).contains(&point) {
        let (first, rest) = digits.split_at(1);
        let dot = if rest.is_empty() { "" } else { "." };
        let sign = if point > 0 { "+" } else { "" };
        out.push_str(&[first, dot, rest, "e", sign, &(point - 1).to_string()].concat());
    } else if point <= 0 {
        out.push_str(&["0.", &missing(-point), digits].concat());
    } else if point >= size(digits.len()) {
        out.push_str(&[digits, &missing(point - size(digits.len()))].concat());
    } else {
        let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or(0));
        out.push_str(&[whole, ".", fraction].concat());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_as_short_as_those_of_the_standard_library() {
        let mut bits = 1_u64;
        for _ in 0..100_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Any float, and those of common size.
            for float in
                [f64::from_bits(bits), (bits >> 40) as f64 / 8.0 * 10_f64.powi((bits % 30) as i32 - 15)]
            {
                if !float.is_finite() {
                    continue;
                }
                let size = float.abs();
                let wanted = if size == 0.0 || (1e-6..1e21).contains(&size) {
                    float.to_string()
                } else {
                    format!("{float:e}").replace('e', "e+").replace("e+-", "e-")
                };
                let mut written = String::new();
                write_float(float, &mut written);
                // As short and as exact; where two texts are, Go takes the even one.
                assert_eq!(written.parse::<f64>().unwrap(), float, "{wanted}");
                assert_eq!((written.len(), written.contains('e')), (wanted.len(), wanted.contains('e')));
            }
        }
    }

    #[test]
    fn written_as_go_does() {
        for (json, written) in [
            (r#"{ "b": [1, {"d": null, "c": true}], "a": {} }"#, r#"{"a":{},"b":[1,{"c":true,"d":null}]}"#),
            (r#"{"$patch":"x","B":1,"a":2,"é":3}"#, r#"{"$patch":"x","B":1,"a":2,"é":3}"#),
            (
                r#""a <b> && \u2028 \"\\ / \t \b \f \u0001 \u007f""#,
                "\"a \\u003cb\\u003e \\u0026\\u0026 \\u2028 \\\"\\\\ / \\t \\b \\f \\u0001 \u{7f}\"",
            ),
            ("9007199254740992", "9007199254740992"),
            ("9223372036854775807", "9223372036854776000"),
            ("-9223372036854775808", "-9223372036854776000"),
            ("1.50", "1.5"),
            ("1.0", "1"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1e-7"),
            ("1e21", "1e+21"),
            ("1e20", "100000000000000000000"),
            ("-0.00000012345", "-1.2345e-7"),
            ("123.456", "123.456"),
            ("1888570120608320.25", "1888570120608320.2"),
            ("-0.0", "-0"),
            ("18446744073709551615", "18446744073709552000"),
        ] {
            let mut out = String::new();
            write(&serde_json::from_str(json).unwrap(), &mut out);
            assert_eq!(out, written, "{json}");
        }
    }
}
