//! What a patch changes, field by field.

use serde::Serialize;
use serde_json::Value;

use super::Act;

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

/// What an action changes of an object as it is now. None if that cannot be
/// told without the API server: strategic patches and applies need its schemas.
/// An object that does not fit a JSON patch is an error of the patch.
pub fn changes(act: &Act, before: &Value) -> Option<Vec<Change>> {
    let body = act.body.as_ref()?;
    let mut after = before.clone();
    match (act.verb.as_str(), act.patch_type.as_deref()) {
        ("patch", Some("merge")) => json_patch::merge(&mut after, body),
        ("patch", Some("json")) => {
            let patch: json_patch::Patch = serde_json::from_value(body.clone()).ok()?;
            json_patch::patch(&mut after, &patch).ok()?;
        }
        ("update", _) => after = body.clone(),
        _ => return None,
    }
    let mut changes = Vec::new();
    compare(String::new(), Some(before), Some(&after), &mut changes);
    Some(changes)
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
