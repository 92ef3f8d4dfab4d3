//! What the API takes for absent: nulls, empty lists, and empty objects where
//! the field is a map, or a struct by value.
//!
//! Releases of Kubernetes write such fields, or not. So whoever compares objects
//! takes them out first.

use serde_json::Value;

use crate::merge::keep;

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

/// Takes out what the API takes for absent.
pub fn reduce(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(reduce);
            keep(fields, &|name, value| !is_absent(name, value));
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_says_nothing_is_taken_out() {
        let mut value = json!({
            "labels": {}, "annotations": {"a": ""}, "nodeSelector": null, "tolerations": [], "hostNetwork": false,
            "volumes": [{"name": "v", "emptyDir": {}}, {}], "containers": [{"resources": {"limits": {}}, "args": [null]}],
        });
        reduce(&mut value);
        let wanted = json!({
            "annotations": {"a": ""}, "hostNetwork": false,
            "volumes": [{"name": "v", "emptyDir": {}}, {}], "containers": [{"args": [null]}],
        });
        assert_eq!(value, wanted);
    }
}
