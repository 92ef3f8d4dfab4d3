//! Values of internal types, which some messages show: they have Go's field names, and print what is absent too.

use serde_json::Value;

/// A pod template as Go encodes the internal type.
pub(super) fn pod_template(template: &Value) -> String {
    template.to_string()
}
