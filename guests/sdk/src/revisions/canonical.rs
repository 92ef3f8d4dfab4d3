//! JSON in the one form that Go writes maps in: members sorted, no blanks, HTML
//! escaped, numbers as floats.
//!
//! Kubernetes hashes and compares the bytes of what it keeps in
//! ControllerRevisions, which it has passed through Go maps. Writing the same
//! bytes lets either manager take over from the other.

use serde_json::{Number, Value};

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
        Value::Bool(_) | Value::Null => out.push_str(&value.to_string()),
    }
}

fn write_text(text: &str, out: &mut String) {
    for c in Value::from(text).to_string().chars() {
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
    let float = number.as_f64().unwrap_or(0.0);
    let size = float.abs();
    let text = if small {
        number.to_string()
    } else if size == 0.0 || (1e-6..1e21).contains(&size) {
        // The shortest digits that say it, then zeroes.
        float.to_string()
    } else {
        // Rust writes 1e21 and 1e-7, Go 1e+21 and 1e-7.
        format!("{float:e}").replace('e', "e+").replace("e+-", "e-")
    };
    out.push_str(&text);
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("-0.0", "-0"),
            ("18446744073709551615", "18446744073709552000"),
        ] {
            let mut out = String::new();
            write(&serde_json::from_str(json).unwrap(), &mut out);
            assert_eq!(out, written, "{json}");
        }
    }
}
