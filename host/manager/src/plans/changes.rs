//! What a write changes, field by field.

use serde::Serialize;
use serde_json::Value;

/// A field that changes. Neither value: nothing is known of the field.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The field: `spec.replicas`, `status.conditions[0].status`.
    pub path: String,
    /// Its value before; none if it was not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// Its value after; none if it will not be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = &self.path;
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => write!(f, "~ {path}: {before} -> {after}"),
            (None, Some(after)) => write!(f, "+ {path}: {after}"),
            (Some(before), None) => write!(f, "- {path}: {before}"),
            (None, None) => write!(f, "? {path}"),
        }
    }
}

/// What differs between two states of an object, but for what the API server
/// itself keeps count of.
pub fn changes(before: &Value, after: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    compare(String::new(), Some(before), Some(after), &mut changes);
    let counted = ["metadata.generation", "metadata.resourceVersion"];
    changes.retain(|change| {
        !counted.contains(&change.path.as_str()) && !change.path.starts_with("metadata.managedFields")
    });
    changes
}

fn compare(path: String, before: Option<&Value>, after: Option<&Value>, changes: &mut Vec<Change>) {
    match (before, after) {
        (Some(before), Some(after)) if before == after => {}
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '$'));
                let path = match (plain, path.is_empty()) {
                    (true, true) => name.clone(),
                    (true, false) => format!("{path}.{name}"),
                    (false, _) => format!("{path}[{name:?}]"),
                };
                compare(path, old.get(name), new.get(name), changes);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for at in 0..old.len().max(new.len()) {
                compare(format!("{path}[{at}]"), old.get(at), new.get(at), changes);
            }
        }
        (before, after) => changes.push(Change { path, before: before.cloned(), after: after.cloned() }),
    }
}
