//! Pod templates: when two are the same, and the hash that names a ReplicaSet.
//!
//! In: templates as the API server serves them. Out: equality that ignores the
//! hash label, and a hash over what that equality compares. Invariant: equal
//! templates have equal hashes. Unequal hashes are never taken for unequal
//! templates, nor the other way round: the hash is only a name.

use coxswain_sdk::FromJson;
use coxswain_sdk::absent::reduce;
use coxswain_sdk::hash::{Fnv32a, safe_encode};
use coxswain_sdk::merge::{take_out, text_of};
use coxswain_sdk::read::{Failed, Reader};
use coxswain_sdk::sort::sorted_by;
use serde_json::{Value, json};

/// Label that tells the pods of a Deployment's ReplicaSets apart.
pub const HASH_LABEL: &str = "pod-template-hash";

/// A pod template: as it came, and reduced to what counts when comparing.
#[derive(Clone, Debug, Default)]
pub struct Template {
    raw: Value,
    reduced: Value,
}

impl From<Value> for Template {
    fn from(raw: Value) -> Self {
        let mut reduced = raw.clone();
        if let Some(labels) = reduced.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            take_out(labels, HASH_LABEL);
        }
        reduce(&mut reduced);
        Self { raw, reduced }
    }
}

impl FromJson for Template {
    fn blank() -> Self {
        Self::from(Value::Null)
    }

    fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
        *self = Self::from(reader.value()?);
        Ok(())
    }
}

/// Two templates are the same if only the hash label tells them apart.
impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.reduced == other.reduced
    }
}

impl Template {
    /// The hash, which also depends on how often names have collided.
    pub fn hash(&self, collisions: Option<i64>) -> String {
        let mut hash = Fnv32a::default();
        feed(&mut hash, &self.reduced);
        if let Some(count) = collisions {
            // The low half of the count in eight bytes, as Kubernetes has it.
            let low = (count & 0xffff_ffff).to_le_bytes();
            hash.write(&low);
        }
        safe_encode(hash.finish())
    }

    /// The template with this hash as a label; all else as it came.
    pub fn with_hash(&self, hash: &str) -> Value {
        let mut template = if self.raw.is_object() { self.raw.clone() } else { json!({}) };
        // Indexing makes what is missing, but only out of objects and nulls.
        if !template["metadata"].is_object() {
            template["metadata"] = json!({});
        }
        if !template["metadata"]["labels"].is_object() {
            template["metadata"]["labels"] = json!({});
        }
        template["metadata"]["labels"][HASH_LABEL] = hash.into();
        template
    }

    /// The template without the hash label; all else as it came.
    pub fn without_hash(&self) -> Value {
        let mut template = self.raw.clone();
        if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            take_out(labels, HASH_LABEL);
        }
        template
    }

    /// As it came.
    pub fn raw(&self) -> &Value {
        &self.raw
    }
}

/// Feeds JSON in one form only: fields sorted, no blanks.
fn feed(hash: &mut Fnv32a, value: &Value) {
    match value {
        Value::Object(fields) => {
            let sorted = sorted_by(fields, |a, b| a.0.cmp(b.0));
            hash.write(b"{");
            for (name, value) in sorted {
                // Texts are quoted and escaped, so that no text looks like structure.
                hash.write(text_of(&Value::from(name.as_str())).as_bytes());
                hash.write(b":");
                feed(hash, value);
                hash.write(b",");
            }
            hash.write(b"}");
        }
        Value::Array(items) => {
            hash.write(b"[");
            for item in items {
                feed(hash, item);
                hash.write(b",");
            }
            hash.write(b"]");
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            hash.write(text_of(value).as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(json: &str) -> Template {
        coxswain_sdk::from_json(json).unwrap()
    }

    #[test]
    fn only_what_counts_tells_templates_apart() {
        let one = r#"{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
        for (other, same) in [
            (one, true),
            // The label, whatever its value.
            (
                r#"{"metadata":{"labels":{"app":"web","pod-template-hash":"x"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#,
                true,
            ),
            // Order, nulls and empty collections.
            (
                r#"{"spec":{"containers":[{"image":"i","name":"c","resources":{},"args":[]}],"nodeSelector":{}},"metadata":{"labels":{"app":"web"},"annotations":{},"creationTimestamp":null}}"#,
                true,
            ),
            // A label more, an annotation, another image, other order of containers.
            (
                r#"{"metadata":{"labels":{"app":"web","a":""}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#,
                false,
            ),
            (
                r#"{"metadata":{"labels":{"app":"web"},"annotations":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#,
                false,
            ),
            (
                r#"{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"j"}]}}"#,
                false,
            ),
            // An empty object that is a choice.
            (
                r#"{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i","securityContext":{}}]}}"#,
                false,
            ),
            // A field that nobody here knows.
            (
                r#"{"metadata":{"labels":{"app":"web"}},"spec":{"new":1,"containers":[{"name":"c","image":"i"}]}}"#,
                false,
            ),
        ] {
            let (one, other) = (template(one), template(other));
            assert_eq!(one == other, same, "{other:?}");
            assert_eq!(one.hash(None) == other.hash(None), same, "{other:?}");
        }
    }

    #[test]
    fn the_hash_depends_on_collisions_and_is_stable() {
        let template = template(r#"{"metadata":{"labels":{"app":"web"}},"spec":{"a":"x,y"}}"#);
        let hashes = [None, Some(0), Some(1), Some(2)].map(|count| template.hash(count));
        for (i, hash) in hashes.iter().enumerate() {
            assert!(!hashes[..i].contains(hash), "{hashes:?}");
            assert!(hash.bytes().all(|b| b"bcdfghjklmnpqrstvwxz2456789".contains(&b)), "{hash}");
        }
        // Names of existing ReplicaSets must not depend on the version.
        assert_eq!(hashes[0], "5ccf8889d5");
    }

    #[test]
    fn texts_do_not_look_like_structure() {
        let (one, other) = (template(r#"{"a":["x","y"]}"#), template(r#"{"a":["x\",\"y"]}"#));
        assert_ne!(one.hash(None), other.hash(None));
    }

    #[test]
    fn the_rest_is_copied_as_it_came() {
        let raw = r#"{"metadata":{"creationTimestamp":null,"labels":{"app":"web"}},"spec":{"unknown":{"deep":[]}}}"#;
        let with = template(raw).with_hash("h");
        assert_eq!(with["metadata"]["labels"], json!({"app": "web", "pod-template-hash": "h"}));
        assert_eq!(with["spec"], json!({"unknown": {"deep": []}}));
        assert_eq!(Template::from(with).without_hash(), serde_json::from_str::<Value>(raw).unwrap());
        for odd in ["null", "{}", r#"{"metadata":null}"#, r#"{"metadata":{"labels":null}}"#, "[]", "3"] {
            assert_eq!(template(odd).with_hash("h")["metadata"]["labels"][HASH_LABEL], "h", "{odd}");
        }
    }
}
