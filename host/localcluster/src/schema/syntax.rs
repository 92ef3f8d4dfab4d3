//! Errors of malformed JSON in the words of Go's decoder.

use serde_json::error::Category;

/// The text that Go's `encoding/json` has for what serde_json found.
pub fn go_error(error: &serde_json::Error, body: &[u8]) -> String {
    match error.classify() {
        Category::Eof => "unexpected end of JSON input".into(),
        Category::Syntax => {
            let at = offset(error, body);
            if let Some(text) = broken_literal(body, at) {
                return text;
            }
            let Some(chunk) = body[at.min(body.len())..].utf8_chunks().next() else {
                return "unexpected end of JSON input".into();
            };
            let found = match chunk.valid().chars().next() {
                Some(c) => quote(c),
                None => format!("'\\x{:02x}'", chunk.invalid()[0]),
            };
            format!("invalid character {found} {}", place(body, at))
        }
        Category::Data if body.iter().find(|b| !b.is_ascii_whitespace()) != Some(&b'{') => {
            let what = match body.iter().find(|b| !b.is_ascii_whitespace()) {
                Some(b'[') => "array",
                Some(b'"') => "string",
                Some(b't' | b'f') => "bool",
                _ => "number",
            };
            not_an_object(what)
        }
        // The only fields looked for are texts: version and kind.
        Category::Data => {
            let at = offset(error, body);
            let before = String::from_utf8_lossy(&body[..at.min(body.len())]).into_owned();
            let field =
                if before.rfind("\"kind\"") > before.rfind("\"apiVersion\"") { "kind" } else { "apiVersion" };
            let what = match error.to_string() {
                text if text.contains("boolean") => "bool",
                text if text.contains("sequence") => "array",
                text if text.contains("map") => "object",
                _ => "number",
            };
            format!("json: cannot unmarshal {what} into Go struct field .{field} of type string")
        }
        Category::Io => error.to_string(),
    }
}

/// What a body is told that is no object at all.
pub fn not_an_object(what: &str) -> String {
    format!(
        "json: cannot unmarshal {what} into Go value of type struct {{ APIVersion string \
         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
    )
}

fn quote(c: char) -> String {
    match c {
        '\'' => r"'\''".into(),
        '"' => "'\"'".into(),
        c => format!("'{}'", c.escape_default()),
    }
}

/// What Go says of `true`, `false` and `null` with a wrong letter; `at` is in them.
fn broken_literal(body: &[u8], at: usize) -> Option<String> {
    let at = at.min(body.len().saturating_sub(1));
    let letters = body[..=at].iter().rev().take_while(|b| b.is_ascii_lowercase()).count();
    let start = (at + 1).saturating_sub(letters.max(1));
    ["true", "false", "null"].iter().find_map(|literal| {
        let sent = &body[start.min(body.len())..];
        if sent.first()? != literal.as_bytes().first()? {
            return None;
        }
        let right = literal.bytes().zip(sent).take_while(|(a, b)| a == *b).count();
        let expected = literal.as_bytes().get(right)?;
        let found = std::str::from_utf8(sent.get(right..)?).ok()?.chars().next()?;
        Some(format!(
            "invalid character {} in literal {literal} (expecting {})",
            quote(found),
            quote(char::from(*expected))
        ))
    })
}

/// What Go was looking for, as far as the text before tells.
fn place(body: &[u8], at: usize) -> &'static str {
    let before = body[..at].iter().rev().find(|b| !b.is_ascii_whitespace());
    match before {
        Some(b'-') => "in numeric literal",
        None | Some(b':' | b'[') => "looking for beginning of value",
        Some(b'{') => "looking for beginning of object key string",
        Some(b',') => "looking for beginning of object key string",
        Some(b'}' | b']') if depth(&body[..at]) == 0 => "after top-level value",
        Some(b'"') => "after object key",
        _ => "after object key:value pair",
    }
}

/// How many objects and lists are open at the end of a text.
fn depth(text: &[u8]) -> i64 {
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => depth += 1,
            b'}' | b']' if !quoted => depth -= 1,
            _ => {}
        }
    }
    depth
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
