//! Checks of volumes on storage elsewhere: disks, file servers and CSI drivers.

use serde_json::{Value, json};

use super::meta::invalid_all;
use super::names;
use super::value::{entries, flag, int, items, text};
use super::volume_sources::{Owner, known};
use crate::status::FieldError;

pub(super) fn partition(out: &mut Vec<FieldError>, s: &Value, path: &str, _: Owner) {
    if !(0..=255).contains(&int(s, "partition")) {
        let detail = "must be between 1 and 255, inclusive";
        out.push(FieldError::invalid(format!("{path}.partition"), &s["partition"], detail));
    }
}

pub(super) fn nfs(out: &mut Vec<FieldError>, s: &Value, path: &str, _: Owner) {
    let target = text(s, "path");
    if !target.starts_with('/') {
        let field = format!("{path}.path");
        out.push(FieldError::invalid(field, &json!(target), "must be an absolute path"));
    }
}

pub(super) fn iscsi(out: &mut Vec<FieldError>, s: &Value, path: &str, owner: Owner) {
    let start = if owner == Owner::Pod {
        "must be valid format starting with iqn, eui, or naa"
    } else {
        "must be valid format"
    };
    let named = |out: &mut Vec<FieldError>, name: &str, field: String| {
        if !["iqn", "eui", "naa"].iter().any(|p| name.starts_with(p)) {
            out.push(FieldError::invalid(field, &json!(name), start));
        } else if !names::iscsi_name(name) {
            out.push(FieldError::invalid(field, &json!(name), "must be valid format"));
        }
    };
    match text(s, "iqn") {
        "" => out.push(FieldError::required(format!("{path}.iqn"), "")),
        name => named(out, name, format!("{path}.iqn")),
    }
    lun(out, s, path);
    if (flag(s, "chapAuthDiscovery") || flag(s, "chapAuthSession")) && s["secretRef"].is_null() {
        out.push(FieldError::required(format!("{path}.secretRef"), ""));
    }
    if owner == Owner::Volume {
        secret_name(out, s, path, Owner::Pod);
    }
    if let Some(name) = s["initiatorName"].as_str() {
        named(out, name, format!("{path}.initiatorname"));
    }
}

fn lun(out: &mut Vec<FieldError>, s: &Value, path: &str) {
    if !(0..=255).contains(&int(s, "lun")) {
        let detail = "must be between 0 and 255, inclusive";
        out.push(FieldError::invalid(format!("{path}.lun"), &s["lun"], detail));
    }
}

pub(super) fn flocker(out: &mut Vec<FieldError>, s: &Value, path: &str, _: Owner) {
    let (name, uuid) = (text(s, "datasetName"), text(s, "datasetUUID"));
    if name.is_empty() && uuid.is_empty() {
        out.push(FieldError::required(path, "one of datasetName and datasetUUID is required"));
    }
    if !name.is_empty() && !uuid.is_empty() {
        let detail = "datasetName and datasetUUID can not be specified simultaneously";
        out.push(FieldError::invalid(path, &json!("resource"), detail));
    }
    if name.contains('/') {
        out.push(FieldError::invalid(format!("{path}.datasetName"), &json!(name), "must not contain '/'"));
    }
}

/// `secretRef`, which pods look up in their own namespace.
pub(super) fn secret_name(out: &mut Vec<FieldError>, s: &Value, path: &str, owner: Owner) {
    if s["secretRef"].is_null() {
        return;
    }
    let keys: &[&str] = if owner == Owner::Pod { &["name"] } else { &["name", "namespace"] };
    for key in keys {
        if text(&s["secretRef"], key).is_empty() {
            out.push(FieldError::required(format!("{path}.secretRef.{key}"), ""));
        }
    }
}

pub(super) fn quobyte(out: &mut Vec<FieldError>, s: &Value, path: &str, _: Owner) {
    let pairs = "must be a host:port pair or multiple pairs separated by commas";
    let registry = text(s, "registry");
    if registry.is_empty() {
        out.push(FieldError::required(format!("{path}.registry"), pairs));
    } else if text(s, "tenant").len() >= 65 {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        out.push(FieldError::required(format!("{path}.tenant"), detail));
    } else {
        for _ in registry.split(',').filter(|pair| !pair.contains(':')) {
            out.push(FieldError::invalid(format!("{path}.registry"), &json!(registry), pairs));
        }
    }
    if text(s, "volume").is_empty() {
        out.push(FieldError::required(format!("{path}.volume"), ""));
    }
}

pub(super) fn fibre_channel(out: &mut Vec<FieldError>, s: &Value, path: &str, _: Owner) {
    let (targets, ids) = (items(s, "targetWWNs"), items(s, "wwids"));
    let field = format!("{path}.targetWWNs");
    if targets.is_empty() && ids.is_empty() {
        out.push(FieldError::required(&field, "must specify either targetWWNs or wwids, but not both"));
    }
    if targets.is_empty() {
        return;
    }
    if !ids.is_empty() {
        let detail = "targetWWNs and wwids can not be specified simultaneously";
        out.push(FieldError::invalid(&field, &json!(targets), detail));
    }
    if s["lun"].is_null() {
        out.push(FieldError::required(format!("{path}.lun"), "lun is required if targetWWNs is specified"));
    } else {
        lun(out, s, path);
    }
}

pub(super) fn flex(out: &mut Vec<FieldError>, s: &Value, path: &str, _: Owner) {
    for (key, _) in entries(s, "options") {
        let namespace = format!(".{}", key.split('/').next().unwrap_or(key).to_lowercase());
        if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            out.push(FieldError::invalid(format!("{path}.options[{key}]"), &json!(key), detail));
        }
    }
}

pub(super) fn azure_disk(out: &mut Vec<FieldError>, s: &Value, path: &str, _: Owner) {
    known(out, &s["cachingMode"], &format!("{path}.cachingMode"), &["None", "ReadOnly", "ReadWrite"]);
    known(out, &s["kind"], &format!("{path}.kind"), &["Dedicated", "Managed", "Shared"]);
    let (kind, uri) = (text(s, "kind"), text(s, "diskURI"));
    let (start, form) = match kind {
        "" => return,
        "Managed" => (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        ),
        _ => ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"),
    };
    if !uri.starts_with(start) {
        out.push(FieldError::not_supported(format!("{path}.diskURI"), &json!(uri), &[form]));
    }
}

pub(super) fn storage_os(out: &mut Vec<FieldError>, s: &Value, path: &str, owner: Owner) {
    for key in ["volumeName", "volumeNamespace"] {
        let name = text(s, key);
        if !name.is_empty() {
            invalid_all(out, &format!("{path}.{key}"), &json!(name), names::label(name));
        } else if key == "volumeName" {
            out.push(FieldError::required(format!("{path}.{key}"), ""));
        }
    }
    secret_name(out, s, path, owner);
}

/// Name of a CSI driver at `field`.
pub(super) fn driver_name(out: &mut Vec<FieldError>, name: &str, field: &str) {
    if name.is_empty() {
        out.push(FieldError::required(field, ""));
        return;
    }
    if name.len() > 63 {
        out.push(FieldError::too_long(field, 63));
    }
    invalid_all(out, field, &json!(name), names::subdomain(&name.to_lowercase()));
}

pub(super) fn csi(out: &mut Vec<FieldError>, s: &Value, path: &str, owner: Owner) {
    driver_name(out, text(s, "driver"), &format!("{path}.driver"));
    if owner == Owner::Pod {
        let secret = &s["nodePublishSecretRef"];
        let name = text(secret, "name");
        if !secret.is_null() && name.is_empty() {
            out.push(FieldError::required(format!("{path}.nodePublishSecretRef.name"), ""));
        } else if !secret.is_null() {
            invalid_all(out, &format!("{path}.name"), &json!(name), names::subdomain(name));
        }
        return;
    }
    if text(s, "volumeHandle").is_empty() {
        out.push(FieldError::required(format!("{path}.volumeHandle"), ""));
    }
    for key in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        if s[key].is_null() {
            continue;
        }
        for (part, rule) in
            [("name", names::subdomain as fn(&str) -> Vec<String>), ("namespace", names::label)]
        {
            let (field, name) = (format!("{path}.{key}.{part}"), text(&s[key], part));
            if name.is_empty() {
                out.push(FieldError::required(field, ""));
            } else {
                invalid_all(out, &field, &json!(name), rule(name));
            }
        }
    }
}
