//! The `Scale` of the workload kinds.

use serde_json::{Value, json};

use super::value::int;
use crate::selector::label_selector_text;

/// Where a kind keeps what a `Scale` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// `spec.selector` is a LabelSelector.
    LabelSelector,
    /// `spec.selector` is a plain map.
    Map,
}

impl Scale {
    /// The `Scale` of an object.
    pub fn read(self, object: &Value) -> Value {
        let selector = match self {
            Self::LabelSelector => label_selector_text(&object["spec"]["selector"]),
            Self::Map => label_selector_text(&json!({"matchLabels": object["spec"]["selector"]})),
        };
        of(object, int(&object["spec"], "replicas"), int(&object["status"], "replicas"), &selector)
    }
}

/// A `Scale` for the object, complete with kind and apiVersion.
pub fn of(object: &Value, desired: i64, actual: i64, selector: &str) -> Value {
    let mut meta = serde_json::Map::new();
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(key) {
            meta.insert(key.into(), value.clone());
        }
    }
    let mut spec = json!({});
    if desired != 0 {
        spec["replicas"] = desired.into();
    }
    let mut status = json!({"replicas": actual});
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    json!({
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": meta,
        "spec": spec,
        "status": status,
    })
}
