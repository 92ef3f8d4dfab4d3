//! Errors of malformed JSON in the words of Go's decoder.

use serde_json::error::Category;

/// The text that Go's `encoding/json` has for what serde_json found.
pub fn go_error(error: &serde_json::Error, body: &[u8]) -> String {
    match error.classify() {
        Category::Eof => "unexpected end of JSON input".into(),
        Category::Syntax => {
            let at = offset(error, body);
            match std::str::from_utf8(&body[at.min(body.len())..]).ok().and_then(|s| s.chars().next()) {
                Some(c) => {
                    let where_ = place(body, at);
                    format!("invalid character {} {where_}", quote(c))
                }
                None => "unexpected end of JSON input".into(),
            }
        }
        Category::Data if body.iter().find(|b| !b.is_ascii_whitespace()) != Some(&b'{') => {
            let what = match body.iter().find(|b| !b.is_ascii_whitespace()) {
                Some(b'[') => "array",
                Some(b'"') => "string",
                Some(b't' | b'f') => "bool",
                _ => "number",
            };
            format!(
                "json: cannot unmarshal {what} into Go value of type struct {{ APIVersion string \
                 \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
            )
        }
        _ => error.to_string(),
    }
}

fn quote(c: char) -> String {
    match c {
        '\'' => r"'\''".into(),
        '"' => "'\"'".into(),
        c => format!("'{}'", c.escape_default()),
    }
}

/// What Go was looking for, as far as the text before tells.
fn place(body: &[u8], at: usize) -> &'static str {
    let before = body[..at].iter().rev().find(|b| !b.is_ascii_whitespace());
    match before {
        None | Some(b':' | b'[') => "looking for beginning of value",
        Some(b'{') => "looking for beginning of object key string",
        Some(b',') => "looking for beginning of object key string",
        Some(b'}' | b']') if at + 1 >= body.len() => "after top-level value",
        Some(b'"') => "after object key",
        _ => "after object key:value pair",
    }
}

fn offset(error: &serde_json::Error, body: &[u8]) -> usize {
    let mut at = 0;
    for (i, line) in body.split(|b| *b == b'\n').enumerate() {
        if i + 1 == error.line() {
            return (at + error.column().saturating_sub(1)).min(body.len());
        }
        at += line.len() + 1;
    }
    body.len()
}
