//! Errors of malformed JSON in the words of Go's decoder.

use serde_json::error::Category;

use crate::patch::go::json_type;

/// Whose words a complaint is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoder {
    /// `encoding/json` as of Go 1.27: for versions and kinds, page tokens and data of secrets.
    Standard,
    /// `sigs.k8s.io/json`, which is as `encoding/json` was before: for objects and patches.
    Own,
}

/// The text that a decoder has for what serde_json found.
pub fn go_error(decoder: Decoder, error: &serde_json::Error, body: &[u8]) -> String {
    // Go looks at all of a text before it looks at what it means.
    if let Some(text) = malformed(decoder, body) {
        return text;
    }
    match error.classify() {
        Category::Data if body.iter().find(|b| !b.is_ascii_whitespace()) != Some(&b'{') => {
            let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
            not_an_object(json_type(&value))
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
        Category::Syntax | Category::Eof | Category::Io => error.to_string(),
    }
}

/// What a body is told that is no object at all.
pub fn not_an_object(what: &str) -> String {
    format!(
        "json: cannot unmarshal {what} into Go value of type struct {{ APIVersion string \
         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
    )
}

/// The character at the start of a text as Go shows it.
fn quote(decoder: Decoder, text: &[u8]) -> String {
    let first = text.first().copied().unwrap_or_default();
    let read = text.utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next());
    match (decoder, read) {
        (Decoder::Standard, Some(c)) => quoted(c),
        (Decoder::Standard, None) => format!("'\\x{first:02x}'"),
        // Bytes for characters.
        (Decoder::Own, _) => quoted(char::from(first)),
    }
}

fn quoted(c: char) -> String {
    let shown = match c {
        '\'' => r"\'".into(),
        '\\' => r"\\".into(),
        '\u{7}' => r"\a".into(),
        '\u{8}' => r"\b".into(),
        '\u{b}' => r"\v".into(),
        '\u{c}' => r"\f".into(),
        '\n' => r"\n".into(),
        '\r' => r"\r".into(),
        '\t' => r"\t".into(),
        ..=' ' if c != ' ' => format!("\\x{:02x}", u32::from(c)),
        '\u{7f}' => r"\x7f".into(),
        // What Rust would escape Go does not print either.
        c if c == '"' || c.escape_debug().len() == 1 => c.to_string(),
        c if u32::from(c) < 0x10000 => format!("\\u{:04x}", u32::from(c)),
        c => format!("\\U{:08x}", u32::from(c)),
    };
    format!("'{shown}'")
}

/// What a text is, byte by byte.
#[derive(Clone, Copy, PartialEq)]
enum Expect {
    Value,
    /// A value, or the end of a list that has none yet.
    ValueOrEnd,
    Key,
    /// A key, or the end of an object that has none yet.
    KeyOrEnd,
    /// What may follow a value.
    After,
    Text,
    Escape,
    /// So many hexadecimal digits.
    Hex(u8),
    /// The rest of `true`, `false` or `null`.
    Literal(&'static str, usize),
    Minus,
    /// Digits before a point.
    Digits,
    /// The same after a zero, which is alone.
    Zero,
    Point,
    Decimals,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

/// In what a value stands.
#[derive(Clone, Copy, PartialEq)]
enum Within {
    Key,
    Field,
    List,
}

/// What Go has against a text that is no JSON.
fn malformed(decoder: Decoder, body: &[u8]) -> Option<String> {
    let mut within = Vec::new();
    let mut expect = Expect::Value;
    let mut escape = 0;
    for (at, byte) in body.iter().enumerate() {
        if expect == Expect::Text {
            escape = at;
        }
        match step(expect, &mut within, *byte) {
            Ok(next) => expect = next,
            Err(place) => {
                let place = match (decoder, place) {
                    (Decoder::Own, place) => place,
                    (Decoder::Standard, Place::Escape | Place::Hex) => {
                        let end = if place == Place::Hex { escape + 6 } else { at + 1 };
                        let sequence = String::from_utf8_lossy(&body[escape..end.min(body.len())]);
                        return Some(format!("invalid escape sequence `{sequence}` in string"));
                    }
                    (Decoder::Standard, Place::Decimals | Place::Exponent) => Place::Number,
                    (Decoder::Standard, place) => place,
                };
                let short = decoder == Decoder::Standard && place == Place::Text;
                let found = quote(decoder, &body[at..]);
                let place = if short { "in string".to_owned() } else { place.show() };
                return Some(format!("invalid character {found} {place}"));
            }
        }
    }
    // A space ends a number.
    let done = step(expect, &mut within, b' ') == Ok(Expect::After) && within.is_empty();
    (!done).then(|| "unexpected end of JSON input".into())
}

/// Where a character stands that may not.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Value,
    Key,
    AfterKey,
    AfterField,
    AfterItem,
    End,
    Text,
    Escape,
    Hex,
    Number,
    Decimals,
    Exponent,
    Literal(&'static str, usize),
}

impl Place {
    fn show(self) -> String {
        match self {
            Self::Value => "looking for beginning of value",
            Self::Key => "looking for beginning of object key string",
            Self::AfterKey => "after object key",
            Self::AfterField => "after object key:value pair",
            Self::AfterItem => "after array element",
            Self::End => "after top-level value",
            Self::Text => "in string literal",
            Self::Escape => "in string escape code",
            Self::Hex => "in \\u hexadecimal character escape",
            Self::Number => "in numeric literal",
            Self::Decimals => "after decimal point in numeric literal",
            Self::Exponent => "in exponent of numeric literal",
            Self::Literal(word, at) => {
                let expected = quoted(char::from(word.as_bytes()[at]));
                return format!("in literal {word} (expecting {expected})");
            }
        }
        .to_owned()
    }
}

fn step(expect: Expect, within: &mut Vec<Within>, byte: u8) -> Result<Expect, Place> {
    let space = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    Ok(match (expect, byte) {
        (Expect::Value | Expect::ValueOrEnd | Expect::Key | Expect::KeyOrEnd | Expect::After, _) if space => {
            expect
        }
        (Expect::ValueOrEnd, b']') | (Expect::KeyOrEnd, b'}') => {
            within.pop();
            Expect::After
        }
        (Expect::Value | Expect::ValueOrEnd, _) => match byte {
            b'{' => {
                within.push(Within::Key);
                Expect::KeyOrEnd
            }
            b'[' => {
                within.push(Within::List);
                Expect::ValueOrEnd
            }
            b'"' => Expect::Text,
            b'-' => Expect::Minus,
            b'0' => Expect::Zero,
            b'1'..=b'9' => Expect::Digits,
            b't' => Expect::Literal("true", 1),
            b'f' => Expect::Literal("false", 1),
            b'n' => Expect::Literal("null", 1),
            _ => return Err(Place::Value),
        },
        (Expect::Key | Expect::KeyOrEnd, b'"') => Expect::Text,
        (Expect::Key | Expect::KeyOrEnd, _) => {
            return Err(Place::Key);
        }
        (Expect::Text, b'"') => Expect::After,
        (Expect::Text, b'\\') => Expect::Escape,
        (Expect::Text, ..0x20) => return Err(Place::Text),
        (Expect::Text, _) => Expect::Text,
        (Expect::Escape, b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => Expect::Text,
        (Expect::Escape, b'u') => Expect::Hex(4),
        (Expect::Escape, _) => return Err(Place::Escape),
        (Expect::Hex(left), _) if byte.is_ascii_hexdigit() => {
            if left == 1 {
                Expect::Text
            } else {
                Expect::Hex(left - 1)
            }
        }
        (Expect::Hex(_), _) => return Err(Place::Hex),
        (Expect::Literal(word, at), _) => {
            if byte != word.as_bytes()[at] {
                return Err(Place::Literal(word, at));
            }
            if at + 1 == word.len() { Expect::After } else { Expect::Literal(word, at + 1) }
        }
        (Expect::Minus, b'0') => Expect::Zero,
        (Expect::Minus, b'1'..=b'9') => Expect::Digits,
        (Expect::Minus, _) => return Err(Place::Number),
        (Expect::Digits, b'0'..=b'9') => Expect::Digits,
        (Expect::Digits | Expect::Zero, b'.') => Expect::Point,
        (Expect::Digits | Expect::Zero | Expect::Decimals, b'e' | b'E') => Expect::Exponent,
        (Expect::Point | Expect::Decimals, b'0'..=b'9') => Expect::Decimals,
        (Expect::Point, _) => return Err(Place::Decimals),
        (Expect::Exponent, b'+' | b'-') => Expect::ExponentSign,
        (Expect::Exponent | Expect::ExponentSign | Expect::ExponentDigits, b'0'..=b'9') => {
            Expect::ExponentDigits
        }
        (Expect::Exponent | Expect::ExponentSign, _) => {
            return Err(Place::Exponent);
        }
        (Expect::Digits | Expect::Zero | Expect::Decimals | Expect::ExponentDigits, _) if space => {
            Expect::After
        }
        (Expect::After | Expect::Digits | Expect::Zero | Expect::Decimals | Expect::ExponentDigits, _) => {
            match (within.last_mut(), byte) {
                (None, _) => return Err(Place::End),
                (Some(state @ Within::Key), b':') => {
                    *state = Within::Field;
                    Expect::Value
                }
                (Some(Within::Key), _) => return Err(Place::AfterKey),
                (Some(state @ Within::Field), b',') => {
                    *state = Within::Key;
                    Expect::Key
                }
                (Some(Within::Field), b'}') | (Some(Within::List), b']') => {
                    within.pop();
                    Expect::After
                }
                (Some(Within::Field), _) => return Err(Place::AfterField),
                (Some(Within::List), b',') => Expect::Value,
                (Some(Within::List), _) => return Err(Place::AfterItem),
            }
        }
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Both decoders say the same of most.
    #[test]
    fn malformed_texts_are_told_where_they_are_wrong() {
        for (text, wrong) in [
            ("{\"a\":[1,-2.5e3,true,null,\"\\u00e4\"]} \n", None),
            ("1", None),
            ("", Some("unexpected end of JSON input")),
            ("{\"a\":", Some("unexpected end of JSON input")),
            ("{} x", Some("invalid character 'x' after top-level value")),
            ("{} trailing", Some("invalid character 't' after top-level value")),
            ("{a:1}", Some("invalid character 'a' looking for beginning of object key string")),
            ("{\"a\":1,}", Some("invalid character '}' looking for beginning of object key string")),
            ("[1,]", Some("invalid character ']' looking for beginning of value")),
            ("[1 2]", Some("invalid character '2' after array element")),
            ("{\"a\" 1}", Some("invalid character '1' after object key")),
            ("{\"a\":1 2}", Some("invalid character '2' after object key:value pair")),
            ("{\"a\":1]", Some("invalid character ']' after object key:value pair")),
            ("tru ", Some("invalid character ' ' in literal true (expecting 'e')")),
            ("-x", Some("invalid character 'x' in numeric literal")),
            ("01", Some("invalid character '1' after top-level value")),
            ("1e+", Some("unexpected end of JSON input")),
            ("'a'", Some("invalid character '\\'' looking for beginning of value")),
        ] {
            for decoder in [Decoder::Standard, Decoder::Own] {
                assert_eq!(malformed(decoder, text.as_bytes()).as_deref(), wrong, "{text}");
            }
        }
    }

    /// Go 1.26 with and without its newer decoder was asked.
    #[test]
    fn the_decoders_differ_in_numbers_texts_and_bytes() {
        for (text, standard, own) in [
            (&b"1.x"[..], "'x' in numeric literal", "'x' after decimal point in numeric literal"),
            (b"1ex", "'x' in numeric literal", "'x' in exponent of numeric literal"),
            (b"\"\n\"", "'\\n' in string", "'\\n' in string literal"),
            (
                b"\xef\xbb\xbf{}",
                "'\\ufeff' looking for beginning of value",
                "'\u{ef}' looking for beginning of value",
            ),
            (b"\x8e{}", "'\\x8e' looking for beginning of value", "'\\u008e' looking for beginning of value"),
        ] {
            let said = |decoder| malformed(decoder, text).expect("malformed");
            assert_eq!(said(Decoder::Standard), format!("invalid character {standard}"));
            assert_eq!(said(Decoder::Own), format!("invalid character {own}"));
        }
        let said = |text: &str| malformed(Decoder::Standard, text.as_bytes()).expect("malformed");
        assert_eq!(said("\"\\q\""), "invalid escape sequence `\\q` in string");
        assert_eq!(said("\"\\u12g4\""), "invalid escape sequence `\\u12g4` in string");
        let said = |text: &str| malformed(Decoder::Own, text.as_bytes()).expect("malformed");
        assert_eq!(said("\"\\q\""), "invalid character 'q' in string escape code");
        assert_eq!(said("\"\\u12g4\""), "invalid character 'g' in \\u hexadecimal character escape");
    }
}
