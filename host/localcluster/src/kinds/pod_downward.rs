//! Checks of fields and resources of a pod that are handed to its containers, as variables and as files.

use serde_json::{Value, json};

use super::meta::invalid_all;
use super::names;
use super::resources::quantity;
use super::value::text;
use super::volume_files::{local_path, mode};
use crate::status::FieldError;

/// Fields that a variable may hold.
pub(super) const OF_VARIABLES: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const OF_FILES: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// Fields that have a name in every version.
const NAMED: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// A `fieldRef` at `path`, whose field must be one of `allowed`.
pub(super) fn field(out: &mut Vec<FieldError>, it: &Value, allowed: &[&str], path: &str) {
    let (version, wanted) = (text(it, "apiVersion"), text(it, "fieldPath"));
    let field = format!("{path}.fieldPath");
    if version.is_empty() {
        out.push(FieldError::required(format!("{path}.apiVersion"), ""));
        return;
    }
    if wanted.is_empty() {
        out.push(FieldError::required(field, ""));
        return;
    }
    let (base, subscript) = match wanted.strip_suffix("']").and_then(|w| w.split_once("['")) {
        Some((base, subscript)) => (base, Some(subscript)),
        None => (wanted, None),
    };
    // In the first version the host's name was a field of its own.
    let base = if base == "spec.host" { "spec.nodeName" } else { base };
    let why = if version != "v1" {
        Some(format!("unsupported pod version: {version}"))
    } else if subscript.is_some() && !matches!(base, "metadata.annotations" | "metadata.labels") {
        Some(format!("field label does not support subscript: {wanted}"))
    } else if !NAMED.contains(&base) {
        Some(format!("field label not supported: {wanted}"))
    } else {
        None
    };
    if let Some(why) = why {
        let detail = format!("error converting fieldPath: {why}");
        out.push(FieldError::invalid(field, &json!(wanted), &detail));
        return;
    }
    match subscript {
        Some(key) => {
            let key = if base == "metadata.annotations" { key.to_lowercase() } else { key.to_owned() };
            invalid_all(out, path, &json!(key), names::qualified_name(&key));
        }
        None if !allowed.contains(&base) => {
            out.push(FieldError::not_supported(field, &json!(base), allowed));
        }
        None => {}
    }
}

/// A `resourceFieldRef` at `path`; files have to name the container.
pub(super) fn resource(out: &mut Vec<FieldError>, it: &Value, of_file: bool, path: &str) {
    const SIZES: &[&str] =
        &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let wanted = text(it, "resource");
    let pages = wanted.starts_with("requests.hugepages-") || wanted.starts_with("limits.hugepages-");
    if of_file && text(it, "containerName").is_empty() {
        out.push(FieldError::required(format!("{path}.containerName"), ""));
    } else if wanted.is_empty() {
        out.push(FieldError::required(format!("{path}.resource"), ""));
    } else if !RESOURCES.contains(&wanted) && !pages {
        out.push(FieldError::not_supported(format!("{path}.resource"), &json!(wanted), RESOURCES));
    }
    let divisor = quantity(&it["divisor"]);
    if divisor.is_zero() {
        return;
    }
    let (known, noun): (&[&str], &str) = match wanted.rsplit('.').next().unwrap_or("") {
        "cpu" => (&["1m", "1"], "cpu"),
        "memory" => (SIZES, "memory"),
        "ephemeral-storage" => (SIZES, "local ephemeral storage"),
        _ if pages => (SIZES, "hugepages"),
        _ => return,
    };
    if !known.contains(&divisor.to_string().as_str()) {
        let list = if noun == "cpu" { "1m and 1".to_owned() } else { SIZES.join(", ") };
        let detail = format!("only divisor's values {list} are supported with the {noun} resource");
        out.push(FieldError::invalid(format!("{path}.divisor"), &json!(wanted), &detail));
    }
}

/// One file of a `downwardAPI` volume at `path`.
pub(super) fn file(out: &mut Vec<FieldError>, it: &Value, path: &str) {
    if text(it, "path").is_empty() {
        out.push(FieldError::required(format!("{path}.path"), ""));
    }
    local_path(out, &it["path"], &format!("{path}.path"));
    match (it["fieldRef"].is_null(), it["resourceFieldRef"].is_null()) {
        (false, alone) => {
            field(out, &it["fieldRef"], OF_FILES, &format!("{path}.fieldRef"));
            if !alone {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                out.push(FieldError::invalid(path, &json!("resource"), detail));
            }
        }
        (true, false) => {
            resource(out, &it["resourceFieldRef"], true, &format!("{path}.resourceFieldRef"));
        }
        (true, true) => {
            out.push(FieldError::required(path, "one of fieldRef and resourceFieldRef is required"));
        }
    }
    mode(out, it, "mode", path);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_that_pods_have() {
        let found = |path: &str| {
            let mut out = Vec::new();
            field(&mut out, &json!({"apiVersion": "v1", "fieldPath": path}), OF_VARIABLES, "f");
            out.into_iter().map(|e| e.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(found("metadata.name"), Vec::<String>::new());
        assert_eq!(found("metadata.labels['a']"), Vec::<String>::new());
        assert_eq!(found("spec.foo").len(), 1);
        assert!(found("metadata.labels")[0].contains("Unsupported value"));
    }
}
