//! What a ControllerRevision keeps of its owner: the pod template, as a
//! strategic merge patch that puts it back.
//!
//! In: templates as the API server serves them, and the `data` of revisions by
//! whichever manager and release. Out: the bytes to keep, and whether two say
//! the same. Invariant: the bytes are those that kube-controller-manager would
//! write, for it compares them.

use std::cell::OnceCell;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{canonical, meaning};
use crate::error::{Error, Result};
use crate::hash::{fnv32, safe_encode};
use crate::merge::take_out;
use crate::read::{Failed, FromJson, Reader};
use crate::reader::from_json;
use crate::template::PodTemplate;

/// A patch that replaces the pod template of a workload.
///
/// Reads the `data` of a revision. Use [`TemplatePatch::of`] for the template
/// of a workload.
#[derive(Clone, Debug, Default)]
pub struct TemplatePatch {
    /// As it is kept.
    text: String,
    meaning: OnceCell<Value>,
}

/// Two patches are the same if one would be written for the other. Blanks, the
/// order of members and escapes are of no account.
impl PartialEq for TemplatePatch {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text || self.canonical() == other.canonical()
    }
}

impl FromJson for TemplatePatch {
    fn blank() -> Self {
        Self::default()
    }

    fn read(&mut self, reader: Reader<'_, '_>) -> std::result::Result<(), Failed> {
        let raw = reader.raw()?.get();
        if raw != "null" {
            *self = Self::from_text(raw.to_owned());
        }
        Ok(())
    }
}

impl TemplatePatch {
    fn from_text(text: String) -> Self {
        Self { text, meaning: OnceCell::new() }
    }

    /// The patch for a template, as kube-controller-manager writes it.
    pub fn of(template: &Value) -> Self {
        let mut template = match template {
            Value::Object(fields) => fields.clone(),
            _ => Map::new(),
        };
        written_by_go(&mut template);
        template.insert("$patch".to_owned(), "replace".into());
        let mut text = String::new();
        canonical::write(&json!({ "spec": { "template": template } }), &mut text);
        Self::from_text(text)
    }

    /// The bytes to keep.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The bytes to keep, to be put into an object.
    pub fn to_raw(&self) -> Result<Box<RawValue>> {
        RawValue::from_string(self.text.clone())
            .map_err(|e| Error::Terminal(format!("a revision's data is no JSON: {e}")))
    }

    fn parsed(&self) -> Value {
        from_json(&self.text).unwrap_or(Value::Null)
    }

    fn canonical(&self) -> String {
        let mut text = String::new();
        canonical::write(&self.parsed(), &mut text);
        text
    }

    /// Whether a workload put back to either would have the same template: what
    /// releases write differently (nulls, empty fields), and fields that the API
    /// server fills in, make no difference.
    pub fn means_the_same(&self, other: &Self) -> bool {
        self == other || self.meaning() == other.meaning()
    }

    fn meaning(&self) -> &Value {
        self.meaning.get_or_init(|| {
            let mut template = self.parsed().pointer("/spec/template").cloned().unwrap_or_default();
            meaning::reduce_template(&mut template);
            template
        })
    }

    /// The template that it puts back.
    pub fn template(&self) -> Result<PodTemplate> {
        #[derive(FromJson)]
        struct Patch {
            spec: Spec,
        }
        #[derive(FromJson)]
        struct Spec {
            template: PodTemplate,
        }
        let patch: Patch = from_json(&self.text)
            .map_err(|e| Error::Retry(format!("cannot read the template of a revision: {e}")))?;
        Ok(patch.spec.template)
    }

    /// The hash that goes into names and labels; it also depends on how often
    /// names have collided.
    pub fn hash(&self, collisions: Option<i32>) -> String {
        let mut bytes = self.text.clone().into_bytes();
        if let Some(collisions) = collisions {
            bytes.extend_from_slice(collisions.to_string().as_bytes());
        }
        safe_encode(fnv32(&bytes))
    }
}

/// What Go's types make of a template: metadata is always there, and has a
/// creationTimestamp only if that is set. API servers before 1.34 wrote a null.
fn written_by_go(template: &mut Map<String, Value>) {
    fix_metadata(template);
    let Some(Value::Object(spec)) = template.get_mut("spec") else { return };
    let Some(Value::Array(volumes)) = spec.get_mut("volumes") else { return };
    for volume in volumes {
        if let Some(Value::Object(claim)) = volume.pointer_mut("/ephemeral/volumeClaimTemplate") {
            fix_metadata(claim);
        }
    }
}

fn fix_metadata(template: &mut Map<String, Value>) {
    let metadata = template.entry("metadata").or_insert(Value::Null);
    match metadata {
        Value::Object(fields) => {
            if fields.get("creationTimestamp").is_some_and(Value::is_null) {
                take_out(fields, "creationTimestamp");
            }
        }
        _ => *metadata = json!({}),
    }
}
