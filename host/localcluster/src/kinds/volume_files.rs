//! Checks of volumes made of files: Secrets, ConfigMaps, fields of the pod, and projections of all of them.
//!
//! Also of the paths such files have, which other fields share.

use serde_json::{Value, json};

use super::pod_downward;
use super::value::{int, items, text};
use super::volume_sources::Owner;
use crate::status::FieldError;

pub(super) fn no_backsteps(out: &mut Vec<FieldError>, target: &Value, field: &str) {
    if target.as_str().is_some_and(|t| t.split('/').any(|part| part == "..")) {
        out.push(FieldError::invalid(field, target, "must not contain '..'"));
    }
}

pub(super) fn descending(out: &mut Vec<FieldError>, target: &Value, field: &str) {
    if target.as_str().is_some_and(|t| t.starts_with('/')) {
        out.push(FieldError::invalid(field, target, "must be a relative path"));
    }
    no_backsteps(out, target, field);
}

/// A path inside a volume.
pub(super) fn local_path(out: &mut Vec<FieldError>, target: &Value, field: &str) {
    descending(out, target, field);
    if target.as_str().is_some_and(|t| t.starts_with("..") && !t.starts_with("../")) {
        out.push(FieldError::invalid(field, target, "must not start with '..'"));
    }
}

pub(super) fn mode(out: &mut Vec<FieldError>, parent: &Value, key: &str, path: &str) {
    if parent[key].as_i64().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        out.push(FieldError::invalid(format!("{path}.{key}"), &parent[key], detail));
    }
}

/// A Secret or ConfigMap.
pub(super) fn keyed(out: &mut Vec<FieldError>, s: &Value, path: &str) {
    mode(out, s, "defaultMode", path);
    for (i, item) in items(s, "items").iter().enumerate() {
        key_to_path(out, item, &format!("{path}.items[{i}]"));
    }
}

fn key_to_path(out: &mut Vec<FieldError>, item: &Value, path: &str) {
    for key in ["key", "path"] {
        if text(item, key).is_empty() {
            out.push(FieldError::required(format!("{path}.{key}"), ""));
        }
    }
    local_path(out, &item["path"], &format!("{path}.path"));
    mode(out, item, "mode", path);
}

pub(super) fn downward(out: &mut Vec<FieldError>, s: &Value, path: &str, _: Owner) {
    mode(out, s, "defaultMode", path);
    for file in items(s, "items") {
        pod_downward::file(out, file, path);
    }
}

pub(super) fn projected(out: &mut Vec<FieldError>, s: &Value, path: &str, _: Owner) {
    mode(out, s, "defaultMode", path);
    let mut paths: Vec<String> = Vec::new();
    let mut taken = |out: &mut Vec<FieldError>, target: &str, shown: &str| {
        if paths.iter().any(|p| p == target) {
            out.push(FieldError::invalid(path, &json!(shown), "conflicting duplicate paths"));
        } else {
            paths.push(target.to_owned());
        }
    };
    for (i, source) in items(s, "sources").iter().enumerate() {
        let here = format!("{path}.sources[{i}]");
        for key in ["secret", "configMap"] {
            let it = &source[key];
            if it.is_null() {
                continue;
            }
            if text(it, "name").is_empty() {
                out.push(FieldError::required(format!("{here}.{key}.name"), ""));
            }
            for (j, item) in items(it, "items").iter().enumerate() {
                key_to_path(out, item, &format!("{here}.{key}.items[{j}]"));
                if !text(item, "path").is_empty() {
                    taken(out, text(item, "path"), text(it, "name"));
                }
            }
        }
        for file in items(&source["downwardAPI"], "items") {
            pod_downward::file(out, file, &format!("{here}.downwardAPI"));
            if !text(file, "path").is_empty() {
                taken(out, text(file, "path"), text(file, "path"));
            }
        }
        let token = &source["serviceAccountToken"];
        if !token.is_null() {
            let (field, seconds) =
                (format!("{here}.serviceAccountToken.expirationSeconds"), int(token, "expirationSeconds"));
            if seconds < 600 {
                let detail = "may not specify a duration less than 10 minutes";
                out.push(FieldError::invalid(&field, &json!(seconds), detail));
            }
            if seconds > 1 << 32 {
                let detail = "may not specify a duration larger than 2^32 seconds";
                out.push(FieldError::invalid(&field, &json!(seconds), detail));
            }
            if text(token, "path").is_empty() {
                out.push(FieldError::required(format!("{path}.path"), ""));
            } else {
                local_path(out, &token["path"], &format!("{path}.path"));
            }
        }
        let bundle = &source["clusterTrustBundle"];
        if !bundle.is_null() {
            let at = format!("{here}.clusterTrustBundle");
            match (bundle["name"].as_str(), bundle["signerName"].as_str()) {
                (Some(_), Some(_)) => {
                    let detail = "only one of name and signerName may be used";
                    out.push(FieldError::invalid(&at, bundle, detail));
                }
                (None, None) => {
                    out.push(FieldError::required(&at, "either name or signerName must be specified"));
                }
                _ => {}
            }
            if text(bundle, "path").is_empty() {
                out.push(FieldError::required(format!("{at}.path"), ""));
            }
            local_path(out, &bundle["path"], &format!("{at}.path"));
            taken(out, text(bundle, "path"), text(bundle, "path"));
        }
        if source.as_object().map_or(0, serde_json::Map::len) > 1 {
            out.push(FieldError::forbidden(&here, "may not specify more than 1 volume type per source"));
        }
    }
}
