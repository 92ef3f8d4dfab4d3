//! Labels of namespaces that say which pods they take: whether they say it in words that there are.
//!
//! Source of the rules: KEP-2579, `PolicyToEvaluate` of `k8s.io/pod-security-admission`.

use serde_json::Value;

use crate::rest::strategy::Kind;
use crate::status::{FieldError, Status};

const PREFIX: &str = "pod-security.kubernetes.io/";

/// Checks the labels of a namespace that is new or changed; what was wrong before in the same way may stay.
pub(super) fn labels(kind: &Kind, old: Option<&Value>, new: &Value) -> Result<(), Status> {
    let found = wrong(new);
    if found.is_empty() || old.is_some_and(|old| wrong(old) == found) {
        return Ok(());
    }
    Err(kind.invalid(new["metadata"]["name"].as_str().unwrap_or(""), found))
}

fn wrong(namespace: &Value) -> Vec<FieldError> {
    let labels = &namespace["metadata"]["labels"];
    let mut out = Vec::new();
    for mode in ["enforce", "audit", "warn"] {
        for (suffix, check, detail) in [
            ("", is_level as fn(&str) -> bool, "must be one of privileged, baseline, restricted"),
            ("-version", is_version, "must be \"latest\" or \"v1.x\""),
        ] {
            let key = format!("{PREFIX}{mode}{suffix}");
            let Some(text) = labels[&key].as_str() else { continue };
            if !check(text) {
                out.push(FieldError::invalid(format!("metadata.labels[{key}]"), &labels[&key], detail));
            }
        }
    }
    out
}

fn is_level(text: &str) -> bool {
    matches!(text, "privileged" | "baseline" | "restricted")
}

/// `latest` or `v1.` and a number without zeros in front.
fn is_version(text: &str) -> bool {
    let number = text.strip_prefix("v1.").unwrap_or("");
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    text == "latest" || (digits && (number == "0" || !number.starts_with('0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_minor_ones_of_v1() {
        for (text, good) in [
            ("latest", true),
            ("v1.0", true),
            ("v1.34", true),
            ("v1", false),
            ("v1.01", false),
            ("v2.3", false),
            ("", false),
        ] {
            assert_eq!(is_version(text), good, "{text}");
        }
    }
}
