//! Bodies in YAML, as the YAML library of the real server reads them.
//!
//! In: YAML 1.1 text. Out: its first document as JSON text, and which keys of a mapping come twice (the last one
//! counts). Invariant: malformed text is an error in that library's words where it is one of the common mistakes, and
//! in the parser's otherwise.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};
use serde_json::{Number, Value};

/// A document as JSON.
#[derive(Debug, Default)]
pub struct Document {
    /// JSON text; keys are sorted.
    pub json: Vec<u8>,
    /// `line 7: key "x" already set in map`, one a repeated key.
    pub repeated: Vec<String>,
}

/// What aliases may make of a document, in values: more is a bomb.
const MAX_VALUES: usize = 1_000_000;
/// How deep values may be nested.
const MAX_DEPTH: usize = 1000;

/// Reads the first document of a text.
pub fn to_json(body: &[u8]) -> Result<Document, String> {
    let text = match std::str::from_utf8(body) {
        Ok(text) => text,
        Err(_) => return Err("yaml: invalid leading UTF-8 octet".into()),
    };
    let parser = Parser::new_from_str(text);
    let mut reader = Reader { text, parser, anchors: HashMap::new(), repeated: Vec::new(), values: 0 };
    let value = reader.document()?;
    Ok(Document { json: value.to_string().into_bytes(), repeated: reader.repeated })
}

/// The words for repeated keys where they are an error.
pub fn repeated_error(lines: &[String]) -> String {
    let all: String = lines.iter().map(|line| format!("\n  {line}")).collect();
    format!("yaml: unmarshal errors:{all}")
}

struct Reader<'t> {
    text: &'t str,
    parser: Parser<'t, StrInput<'t>>,
    anchors: HashMap<usize, Value>,
    repeated: Vec<String>,
    values: usize,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), String> {
        match self.parser.next_event() {
            Some(Ok(found)) => Ok(found),
            Some(Err(error)) => Err(self.words(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn document(&mut self) -> Result<Value, String> {
        loop {
            match self.next()? {
                (Event::StreamStart | Event::DocumentStart(..), _) => {}
                (Event::StreamEnd | Event::DocumentEnd, _) => return Ok(Value::Null),
                (event, span) => return self.value(event, span, 0),
            }
        }
    }

    fn value(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Value, String> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err("yaml: document contains excessive aliasing".into());
        }
        if depth > MAX_DEPTH {
            return Err("yaml: exceeded max depth".into());
        }
        let (value, anchor) = match event {
            Event::Alias(id) => {
                let value = self.anchors.get(&id).cloned();
                let value = value.ok_or_else(|| "yaml: anchor contains itself".to_owned())?;
                self.values += size(&value);
                return Ok(value);
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.check_tabs(&span)?;
                let tag = tag.as_ref().and_then(|tag| tag.core_suffix().map(str::to_owned));
                (scalar(&text, style, tag.as_deref())?, anchor)
            }
            Event::SequenceStart(_, anchor, _) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break,
                        (event, span) => items.push(self.value(event, span, depth + 1)?),
                    }
                }
                (Value::Array(items), anchor)
            }
            Event::MappingStart(_, anchor, _) => (self.mapping(depth)?, anchor),
            _ => return Ok(Value::Null),
        };
        if anchor != 0 {
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn mapping(&mut self, depth: usize) -> Result<Value, String> {
        let mut own: BTreeMap<String, Value> = BTreeMap::new();
        let mut merged: Vec<Value> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                break;
            }
            let merges =
                matches!(&event, Event::Scalar(text, ScalarStyle::Plain, _, None) if text.as_ref() == "<<");
            let key = self.value(event, span, depth + 1)?;
            let (event, value_span) = self.next()?;
            let value = self.value(event, value_span, depth + 1)?;
            if merges {
                merged.push(value);
                continue;
            }
            let name = key_text(&key, &value)?;
            let shown = if key.is_string() { format!("{name:?}") } else { name.clone() };
            if own.insert(name, value).is_some() {
                let line = value_span.start.line();
                self.repeated.push(format!("line {line}: key {shown} already set in map"));
            }
        }
        for source in merged {
            let sources = match source {
                Value::Array(list) => list,
                one => vec![one],
            };
            for source in sources {
                let Value::Object(map) = source else {
                    return Err("yaml: map merge requires map or sequence of maps as the value".into());
                };
                for (key, value) in map {
                    own.entry(key).or_insert(value);
                }
            }
        }
        Ok(Value::Object(own.into_iter().collect()))
    }

    /// A tab does not indent.
    fn check_tabs(&self, span: &Span) -> Result<(), String> {
        let line = self.text.lines().nth(span.start.line().saturating_sub(1)).unwrap_or("");
        let before: String = line.chars().take(span.start.col()).collect();
        if before.contains('\t') && before.trim().is_empty() {
            let words = "found character that cannot start any token";
            return Err(match span.start.line() {
                0 | 1 => format!("yaml: {words}"),
                line => format!("yaml: line {line}: {words}"),
            });
        }
        Ok(())
    }

    /// A mistake in the words of the real server's library. That one counts lines from nothing and does not say the
    /// first; what its scanner finds is one line on.
    fn words(&self, error: &ScanError) -> String {
        const STREAM: &str = "found unexpected end of stream";
        let said = error.to_string();
        let has = |part: &str| said.contains(part);
        let line = error.marker().line().saturating_sub(1);
        let end = self.text.lines().count();
        let scanned = |line: usize, words: &str| {
            if line == 0 { format!("yaml: {words}") } else { format!("yaml: line {}: {words}", line + 1) }
        };
        let parsed = |line: usize, words: &str| {
            if line == 0 { format!("yaml: {words}") } else { format!("yaml: line {line}: {words}") }
        };
        if has("not allowed in this context") {
            let what = if has("block sequence") { "block sequence entries" } else { "mapping values" };
            return scanned(line, &format!("{what} are not allowed in this context"));
        }
        if has("unclosed quote") || has("quoted scalar") {
            return scanned(self.text.matches('\n').count(), STREAM);
        }
        // Where a value should stand, nothing does.
        const CONTENT: &str = "did not find expected node content";
        let waits = |before: &str| before.trim_end().ends_with(['[', '{', ',', ':']);
        let unclosed = has("unclosed bracket");
        if unclosed && waits(self.text) {
            return parsed(end, CONTENT);
        }
        let before: String = self.text.chars().take(error.marker().index()).collect();
        if (has("mismatched bracket") || has("misplaced bracket")) && waits(&before) {
            return parsed(line, CONTENT);
        }
        for (open, close) in [("'['", "']'"), ("'{'", "'}'")] {
            if has(&format!("bracket {open}")) {
                let line = if unclosed { end } else { line };
                return parsed(line, &format!("did not find expected ',' or {close}"));
            }
        }
        if has("illegal placement of ':'") {
            return parsed(line, "did not find expected ',' or ']'");
        }
        if has("misplaced bracket") {
            return parsed(line, "did not find expected key");
        }
        if has("anchor") {
            let rest: String =
                self.text.lines().nth(line).unwrap_or("").chars().skip(error.marker().col()).collect();
            let name: String =
                rest.trim_start_matches('*').chars().take_while(|c| !c.is_whitespace()).collect();
            return format!("yaml: unknown anchor '{name}' referenced");
        }
        if has("simple key") || has("expected ':'") {
            return scanned(line + 1, "could not find expected ':'");
        }
        if has("tab") || has("unexpected character") {
            return scanned(line, "found character that cannot start any token");
        }
        if has("directive name") {
            return scanned(line, "could not find expected directive name");
        }
        match said.split_once("did not find") {
            Some((_, what)) => {
                parsed(line, &format!("did not find{}", what.split(" at ").next().unwrap_or(what)))
            }
            None => scanned(line, said.split(" at ").next().unwrap_or(&said)),
        }
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(size).sum::<usize>(),
        Value::Object(map) => 1 + map.values().map(size).sum::<usize>(),
        _ => 1,
    }
}

/// What is no text as a key becomes one; null and collections cannot.
fn key_text(key: &Value, value: &Value) -> Result<String, String> {
    match key {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(key.to_string()),
        Value::Null => Err(format!("unsupported map key of type: %!s(<nil>), key: <nil>, value: {value}")),
        _ => Err(format!("yaml: invalid map key: {key}")),
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&str>) -> Result<Value, String> {
    let plain = match tag {
        None => style == ScalarStyle::Plain,
        Some("str" | "binary") => false,
        Some(_) => true,
    };
    let value = if plain { resolve(text) } else { Value::String(text.to_owned()) };
    let fits = match tag {
        Some("int") => value.is_i64() || value.is_u64(),
        Some("float") => value.is_number(),
        Some("bool") => value.is_boolean(),
        Some("null") => value.is_null(),
        _ => true,
    };
    if fits {
        return Ok(value);
    }
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        _ => "str",
    };
    Err(format!("yaml: cannot decode !!{found} `{text}` as a !!{}", tag.unwrap_or_default()))
}

/// The value of a plain scalar by the rules of YAML 1.1.
fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return true.into();
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return false.into();
        }
        _ => {}
    }
    let numeric = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
    let number = if numeric { integer(text).or_else(|| float(text)) } else { None };
    number.map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

fn integer(text: &str) -> Option<Number> {
    if text.starts_with('.') {
        return None;
    }
    let plain: Cow<'_, str> =
        if text.contains('_') { text.replace('_', "").into() } else { Cow::Borrowed(text) };
    let (negative, digits) = match plain.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, plain.strip_prefix('+').unwrap_or(&plain)),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    if !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let size = u64::from_str_radix(digits, radix).ok()?;
    if negative { i64::try_from(-i128::from(size)).ok().map(Into::into) } else { Some(size.into()) }
}

fn float(text: &str) -> Option<Number> {
    let plain = text.replace('_', "");
    let known = plain.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    if !known || !plain.bytes().any(|b| b.is_ascii_digit()) {
        return None;
    }
    let value: f64 = plain.parse().ok()?;
    // JSON of the real server has no fraction where there is none.
    if value.fract() == 0.0 && value.abs() < 9e15 {
        #[expect(clippy::cast_possible_truncation, reason = "a whole number within the range of i64")]
        return Some((value as i64).into());
    }
    Number::from_f64(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        String::from_utf8(to_json(text.as_bytes()).expect(text).json).expect("text")
    }

    #[test]
    fn scalars_follow_yaml_1_1() {
        for (text, want) in [
            ("[yes, Off, n, 'yes', \"1\", ~, null, ]", r#"[true,false,false,"yes","1",null,null]"#),
            ("[010, 0x1F, 0b11, 1_000, -5, +7, 1e3, 1.5, .5]", "[8,31,3,1000,-5,7,1000,1.5,0.5]"),
            ("[1.2.3, 2026-01-01, 10.0.0.1, 08x, 1Gi]", r#"["1.2.3","2026-01-01","10.0.0.1","08x","1Gi"]"#),
            ("{b: 1, a: 2, 5: x, true: z}", r#"{"5":"x","a":2,"b":1,"true":"z"}"#),
            ("a: |\n  x\n  y\nb: >-\n  x\n  y\n", r#"{"a":"x\ny\n","b":"x y"}"#),
            ("a: &l {x: 1}\nb: *l\nc:\n  <<: *l\n  z: 2\n", r#"{"a":{"x":1},"b":{"x":1},"c":{"x":1,"z":2}}"#),
            ("---\na: 1\n---\nb: 2\n", r#"{"a":1}"#),
            ("a: !!str 5\n", r#"{"a":"5"}"#),
            ("# nothing\n", "null"),
            ("", "null"),
        ] {
            assert_eq!(json(text), want, "{text}");
        }
    }

    #[test]
    fn repeated_keys_are_told_with_their_lines() {
        let found = to_json(b"a: 1\nb:\n  c: 1\n  c: 2\na: 3\n").expect("reads");
        assert_eq!(
            found.repeated,
            ["line 4: key \"c\" already set in map", "line 5: key \"a\" already set in map"]
        );
        assert_eq!(found.json, br#"{"a":3,"b":{"c":2}}"#);
    }

    #[test]
    fn mistakes_are_told_as_the_real_server_tells_them() {
        for (text, want) in [
            ("a: b: c\n", "yaml: mapping values are not allowed in this context"),
            ("apiVersion: v1\n kind: x\n", "yaml: line 2: mapping values are not allowed in this context"),
            ("\tfoo: x", "yaml: found character that cannot start any token"),
            ("[1, 2", "yaml: line 1: did not find expected ',' or ']'"),
            ("a: {b: c\n", "yaml: line 1: did not find expected ',' or '}'"),
            ("a: b\n}\n", "yaml: line 1: did not find expected key"),
            ("a: [", "yaml: line 1: did not find expected node content"),
            ("{a: b,", "yaml: line 1: did not find expected node content"),
            ("{a: [}", "yaml: did not find expected node content"),
            ("a: ]", "yaml: did not find expected node content"),
            ("a: \"x", "yaml: found unexpected end of stream"),
            ("%", "yaml: could not find expected directive name"),
            ("a: 'x\n", "yaml: line 2: found unexpected end of stream"),
            ("a: @x\n", "yaml: found character that cannot start any token"),
            ("a: b\n- c\n", "yaml: line 1: did not find expected key"),
            ("a: b\nfoo\nc: d\n", "yaml: line 3: could not find expected ':'"),
            ("a: *x\n", "yaml: unknown anchor 'x' referenced"),
            ("~: z\n", "unsupported map key of type: %!s(<nil>), key: <nil>, value: \"z\""),
        ] {
            assert_eq!(to_json(text.as_bytes()).expect_err(text), want, "{text}");
        }
    }

    #[test]
    fn bombs_are_refused() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for i in 1..10 {
            let aliases = vec![format!("*a{}", i - 1); 10].join(", ");
            text.push_str(&format!("a{i}: &a{i} [{aliases}]\n"));
        }
        assert_eq!(to_json(text.as_bytes()).expect_err("bomb"), "yaml: document contains excessive aliasing");
        let deep = "[".repeat(5000);
        assert!(to_json(deep.as_bytes()).is_err());
    }
}
