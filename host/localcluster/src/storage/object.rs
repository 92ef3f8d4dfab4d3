//! One stored version of an object: encoded once, sent many times.
//!
//! In: an object as JSON. Out: the bytes of its watch event, of which the object itself and its list item are parts.
//! Invariant: the bytes never change; `resourceVersion` comes first in `metadata`, so that it can be put in last.

use bytes::Bytes;
use serde_json::{Map, Value};

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// It is new.
    Added,
    /// It changed.
    Modified,
    /// It is gone.
    Deleted,
}

impl Change {
    /// `type` of a watch event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// An object made ready to store; everything but its version is encoded.
pub struct Draft {
    /// All that follows the digits of the version.
    tail: Vec<u8>,
    labels: Box<str>,
    fields: Box<str>,
}

/// One version of an object.
#[derive(Debug)]
pub struct Stored {
    /// `metadata.resourceVersion`.
    pub rv: u64,
    line: Bytes,
    object_at: u16,
    body_at: u16,
    labels: Box<str>,
    fields: Box<str>,
}

const VERSION_HEAD: &[u8] = br#""metadata":{"resourceVersion":""#;
const LINE_END: &[u8] = b"}\n";

impl Draft {
    /// Encodes an object; `kind`, `apiVersion` and the version in it are left out.
    pub fn new(object: &Value, fields: &[(&str, String)]) -> Self {
        Self::keeping(object, fields, None)
    }

    /// The same; `raw` is a field and the text to write for it, if that is a text of its value.
    pub fn keeping(object: &Value, fields: &[(&str, String)], raw: Option<(&str, &str)>) -> Self {
        static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
        let object = object.as_object().unwrap_or(&EMPTY);
        let metadata = object.get("metadata").and_then(Value::as_object).unwrap_or(&EMPTY);
        let mut tail = Vec::with_capacity(1024);
        tail.push(b'"');
        for (key, value) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
            push_entry(&mut tail, key, value);
        }
        tail.push(b'}');
        for (key, value) in object {
            match raw {
                _ if matches!(key.as_str(), "kind" | "apiVersion" | "metadata") => {}
                Some((field, text)) if field == key && super::raw::is_text_of(text, value) => {
                    tail.extend_from_slice(format!(",{:?}:{text}", field).as_bytes());
                }
                _ => push_entry(&mut tail, key, value),
            }
        }
        tail.push(b'}');
        let labels = metadata.get("labels").and_then(Value::as_object).unwrap_or(&EMPTY);
        let labels = pack(labels.iter().map(|(k, v)| (k.as_str(), v.as_str().unwrap_or_default())));
        let fields = pack(fields.iter().map(|(k, v)| (*k, v.as_str())));
        Self { tail, labels, fields }
    }

    /// Gives the object its version. `type_meta` is `"apiVersion":"v1","kind":"Pod",`.
    pub(super) fn store(self, change: Change, type_meta: &str, rv: u64) -> Stored {
        let mut line = Vec::with_capacity(self.tail.len() + type_meta.len() + 96);
        line.extend_from_slice(br#"{"type":""#);
        line.extend_from_slice(change.as_str().as_bytes());
        line.extend_from_slice(br#"","object":"#);
        let object_at = line.len() as u16;
        line.push(b'{');
        line.extend_from_slice(type_meta.as_bytes());
        let body_at = line.len() as u16;
        line.extend_from_slice(VERSION_HEAD);
        line.extend_from_slice(rv.to_string().as_bytes());
        line.extend_from_slice(&self.tail);
        line.extend_from_slice(LINE_END);
        line.shrink_to_fit();
        Stored { rv, line: Bytes::from(line), object_at, body_at, labels: self.labels, fields: self.fields }
    }
}

fn push_entry(out: &mut Vec<u8>, key: &str, value: &Value) {
    out.push(b',');
    // Writing JSON to memory cannot fail: keys are strings and there are no other error sources.
    let _ = serde_json::to_writer(&mut *out, key);
    out.push(b':');
    let _ = serde_json::to_writer(&mut *out, value);
}

/// Pairs as one string: neither labels nor selectable fields can hold a NUL.
fn pack<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Box<str> {
    let mut packed = String::new();
    for (key, value) in pairs {
        packed.push_str(key);
        packed.push('\0');
        packed.push_str(value);
        packed.push('\0');
    }
    packed.into_boxed_str()
}

fn unpack<'a>(packed: &'a str, wanted: &str) -> Option<&'a str> {
    let mut parts = packed.split('\0');
    while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
        if key == wanted {
            return Some(value);
        }
    }
    None
}

impl Stored {
    /// The watch event that made this version, with its line feed.
    pub fn line(&self) -> Bytes {
        self.line.clone()
    }

    /// The object with the kind and version it is stored under.
    pub fn object(&self) -> Bytes {
        self.line.slice(self.object_at as usize..self.line.len() - LINE_END.len())
    }

    /// The object behind its kind and version: `"metadata":{…},…}`. Put `{` in front for a list item.
    pub fn body(&self) -> &[u8] {
        &self.line[self.body_at as usize..self.line.len() - LINE_END.len()]
    }

    /// Whether these words stand in it: cheaper than to parse it.
    pub fn mentions(&self, words: &str) -> bool {
        self.body().windows(words.len()).any(|part| part == words.as_bytes())
    }

    /// Whether it was stored under this `"apiVersion":"v1","kind":"Pod",`.
    pub fn has_type_meta(&self, type_meta: &[u8]) -> bool {
        self.line.get(self.object_at as usize + 1..self.body_at as usize) == Some(type_meta)
    }

    /// Whether `line` is an event of this type.
    pub fn is_event(&self, change: Change) -> bool {
        self.line[r#"{"type":""#.len()..].starts_with(change.as_str().as_bytes())
    }

    /// The body under another version.
    pub fn push_body_at(&self, rv: u64, out: &mut Vec<u8>) {
        let own = self.rv.to_string().len();
        out.extend_from_slice(VERSION_HEAD);
        out.extend_from_slice(rv.to_string().as_bytes());
        out.extend_from_slice(&self.body()[VERSION_HEAD.len() + own..]);
    }

    /// Its text, without kind and apiVersion.
    pub(crate) fn bare(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.body().len() + 1);
        text.push(b'{');
        text.extend_from_slice(self.body());
        text
    }

    /// Parses it, without kind and apiVersion.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.bare()).unwrap_or(Value::Null)
    }

    /// A label.
    pub fn label(&self, key: &str) -> Option<&str> {
        unpack(&self.labels, key)
    }

    /// A selectable field beyond name and namespace.
    pub fn field(&self, key: &str) -> Option<&str> {
        unpack(&self.fields, key)
    }

    /// Bytes held.
    pub fn size(&self) -> usize {
        self.line.len() + self.labels.len() + self.fields.len() + size_of::<Self>()
    }

    /// The labels and fields, for a restart.
    pub(super) fn packed(&self) -> (&str, &str) {
        (&self.labels, &self.fields)
    }

    /// Reads back what `body` and `packed` gave.
    pub(super) fn restore(type_meta: &str, rv: u64, body: &[u8], labels: &str, fields: &str) -> Self {
        let mut line = Vec::with_capacity(body.len() + type_meta.len() + 48);
        line.extend_from_slice(br#"{"type":"ADDED","object":"#);
        let object_at = line.len() as u16;
        line.push(b'{');
        line.extend_from_slice(type_meta.as_bytes());
        let body_at = line.len() as u16;
        line.extend_from_slice(body);
        line.extend_from_slice(LINE_END);
        Self { rv, line: Bytes::from(line), object_at, body_at, labels: labels.into(), fields: fields.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_buffer_holds_event_object_and_item() {
        let object = json!({"kind": "Pod", "apiVersion": "v1",
            "metadata": {"name": "a", "resourceVersion": "3", "labels": {"x": "y", "e": ""}}, "spec": {"n": 1}});
        let stored = Draft::new(&object, &[("spec.nodeName", "n1".into())]).store(
            Change::Added,
            r#""apiVersion":"v1","kind":"Pod","#,
            17,
        );
        let event: Value = serde_json::from_slice(&stored.line()).expect("event");
        assert_eq!(event["type"], "ADDED");
        assert_eq!(event["object"]["metadata"]["resourceVersion"], "17");
        let whole: Value = serde_json::from_slice(&stored.object()).expect("object");
        assert_eq!(whole, event["object"]);
        assert_eq!(whole["kind"], "Pod");
        let item = stored.value();
        assert_eq!(item.get("kind"), None);
        assert_eq!(item["spec"], json!({"n": 1}));
        assert_eq!(stored.label("x"), Some("y"));
        assert_eq!(stored.label("e"), Some(""));
        assert_eq!(stored.label("y"), None, "a value is not a key");
        assert_eq!(stored.field("spec.nodeName"), Some("n1"));
    }
}
