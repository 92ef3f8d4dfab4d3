//! What a pod template says, whichever release wrote it.

use serde_json::Value;

use super::defaults;

/// Fields of Kubernetes' types that are maps, or structs by value: empty is the
/// same as absent. Elsewhere an empty object is a choice, as in `emptyDir: {}`.
const EMPTY_IS_ABSENT: [&str; 11] = [
    "annotations",
    "labels",
    "limits",
    "matchLabels",
    "metadata",
    "nodeSelector",
    "options",
    "overhead",
    "requests",
    "resources",
    "volumeAttributes",
];

/// Takes out of a template what makes no difference.
pub(super) fn reduce_template(template: &mut Value) {
    if let Some(fields) = template.as_object_mut() {
        fields.remove("$patch");
    }
    reduce(template);
    defaults::fill(template);
    // Some of what is filled in says as little as its absence.
    reduce(template);
}

/// Takes out what the API takes for absent.
fn reduce(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(reduce);
            fields.retain(|name, value| !is_absent(name, value));
        }
        Value::Array(items) => items.iter_mut().for_each(reduce),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_absent(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty() && EMPTY_IS_ABSENT.contains(&name),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
