//! Values that are kept as they were sent: the field of a kind that holds a `runtime.RawExtension`.
//!
//! The typed server passes the bytes of such a field on: the order of its keys and the form of its numbers stay, only
//! spaces go and `<`, `>`, `&` are escaped, as Go's JSON writer does.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// The compact text of a field of a JSON object.
pub(crate) fn field(object: &[u8], name: &str) -> Option<Box<str>> {
    let fields: BTreeMap<&str, &RawValue> = serde_json::from_slice(object).ok()?;
    Some(compact(fields.get(name)?.get()))
}

/// Whether `raw` is a text of `value`.
pub(super) fn is_text_of(raw: &str, value: &Value) -> bool {
    serde_json::from_str::<Value>(raw).is_ok_and(|parsed| parsed == *value)
}

fn compact(text: &str) -> Box<str> {
    let mut out = String::with_capacity(text.len());
    let (mut quoted, mut escaped) = (false, false);
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", c as u32)),
            ' ' | '\n' | '\t' | '\r' if !quoted => {}
            c => out.push(c),
        }
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = quoted,
            '"' => quoted = !quoted,
            _ => {}
        }
    }
    out.into_boxed_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_kept_but_for_spaces_and_what_go_escapes() {
        let object = br#"{"z": 0, "data": {"z": 1, "a": {"y": "a \" b", "b": 2.50, "c": 1e3}, "m": "<&>"}}"#;
        let kept = field(object, "data").expect("is there");
        assert_eq!(&*kept, r#"{"z":1,"a":{"y":"a \" b","b":2.50,"c":1e3},"m":"\u003c\u0026\u003e"}"#);
        assert!(is_text_of(&kept, &serde_json::from_slice::<Value>(object).expect("JSON")["data"]));
        assert_eq!(field(object, "nothing"), None);
    }
}
