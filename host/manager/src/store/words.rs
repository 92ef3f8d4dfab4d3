//! Field names in one byte each.
//!
//! In: compact JSON. Out: the same with the names that modules declare replaced
//! by control characters, which compact JSON never contains. Half of a pruned
//! object is names, the same in every object of a resource. Invariant: a text
//! is decoded with the dictionary that encoded it.

use std::sync::Arc;

use super::path::FieldTree;

/// Codes below `EXTENDED` stand alone; it is followed by one more character.
const EXTENDED: u8 = 0x1f;
const SHORT: usize = EXTENDED as usize - 1;
const MOST: usize = SHORT + 127;

/// The names that have codes. Shared by all that was encoded with it.
#[derive(Clone, Debug, Default)]
pub(super) struct Dictionary(Arc<Vec<Box<str>>>);

impl Dictionary {
    /// The names of a tree.
    pub(super) fn of(tree: &FieldTree) -> Self {
        let mut names = Vec::new();
        tree.names(&mut names);
        // A name with escapes would not be found in JSON.
        names.retain(|name| name.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\'));
        names.sort_unstable();
        names.dedup();
        names.truncate(MOST);
        Self(Arc::new(names.into_iter().map(Box::from).collect()))
    }

    /// Whether the same text means the same in both.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Writes compact JSON with codes for names.
    pub(super) fn encode(&self, json: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(json.len());
        let mut at = 0;
        while at < json.len() {
            if json[at] != b'"' {
                out.push(json[at]);
                at += 1;
                continue;
            }
            let end = string_end(json, at);
            let code = (json.get(end) == Some(&b':')).then(|| self.code(&json[at + 1..end - 1])).flatten();
            match code {
                Some(code) => {
                    push(&mut out, code);
                    at = end + 1;
                }
                None => {
                    out.extend_from_slice(&json[at..end]);
                    at = end;
                }
            }
        }
        out
    }

    fn code(&self, name: &[u8]) -> Option<usize> {
        self.0.iter().position(|word| word.as_bytes() == name)
    }

    /// Writes the JSON again that was encoded.
    pub(super) fn decode(&self, text: &str, out: &mut Vec<u8>) {
        let bytes = text.as_bytes();
        out.reserve(bytes.len() * 2);
        let (mut start, mut at) = (0, 0);
        while at < bytes.len() {
            let byte = bytes[at];
            if byte >= 0x20 {
                at += 1;
                continue;
            }
            out.extend_from_slice(&bytes[start..at]);
            let extended = byte == EXTENDED;
            let code = if extended {
                SHORT + bytes.get(at + 1).map_or(0, |b| usize::from(*b))
            } else {
                usize::from(byte) - 1
            };
            at += 1 + usize::from(extended);
            start = at;
            out.push(b'"');
            out.extend_from_slice(self.0.get(code).map_or(b"", |word| word.as_bytes()));
            out.extend_from_slice(b"\":");
        }
        out.extend_from_slice(&bytes[start..]);
    }
}

fn push(out: &mut Vec<u8>, code: usize) {
    if code < SHORT {
        out.push(code as u8 + 1);
    } else {
        out.extend_from_slice(&[EXTENDED, (code - SHORT) as u8]);
    }
}

/// Where the string that begins at `start` has ended.
fn string_end(json: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < json.len() {
        match json[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::path::parse;

    fn tree(paths: &[&str]) -> FieldTree {
        FieldTree::new(paths.iter().flat_map(|path| parse(path).unwrap()))
    }

    #[test]
    fn what_is_encoded_decodes_to_the_same() {
        let many: Vec<String> = (0..200).map(|n| format!("spec.name{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let few = Dictionary::of(&tree(&["spec.a", "status.conditions[*].{type,status}"]));
        let most = Dictionary::of(&tree(&[&many[..], &["status.type"]].concat()));
        assert_eq!(most.0.len(), MOST);
        let texts = [
            r#"{"spec":{"a":"type","b":"x\"type\":"},"status":{"conditions":[{"type":"status","status":null}]}}"#,
            r#"{"spec":{"name0":1,"name40":2,"name99":3,"name199":4,"type":"\\"}}"#,
            "{}",
            r#"{"ü":"spec","s\u0070ec":[]}"#,
        ];
        for text in texts {
            for dictionary in [&few, &most, &Dictionary::default()] {
                let encoded = String::from_utf8(dictionary.encode(text.as_bytes())).unwrap();
                let mut decoded = Vec::new();
                dictionary.decode(&encoded, &mut decoded);
                assert_eq!(String::from_utf8(decoded).unwrap(), text);
            }
        }
        assert!(few.encode(texts[0].as_bytes()).len() < texts[0].len() - 40);
    }
}
