//! Checks of what a container mounts.

use serde_json::{Value, json};

use super::value::{flag, items, text};
use super::volume_files::descending;
use super::volume_sources::known;
use crate::status::FieldError;

/// `volumeMounts` and `volumeDevices` of the container at `path`, of the sound volumes of its pod.
pub(super) fn check(out: &mut Vec<FieldError>, container: &Value, path: &str, volumes: &[&Value]) {
    mounts(out, container, &format!("{path}.volumeMounts"), volumes);
    devices(out, container, &format!("{path}.volumeDevices"), volumes);
}

fn find<'v>(volumes: &[&'v Value], name: &str) -> Option<&'v Value> {
    volumes.iter().copied().find(|v| text(v, "name") == name)
}

fn mounts(out: &mut Vec<FieldError>, container: &Value, path: &str, volumes: &[&Value]) {
    let devices = items(container, "volumeDevices");
    let mut seen: Vec<&str> = Vec::new();
    for (i, mount) in items(container, "volumeMounts").iter().enumerate() {
        let here = format!("{path}[{i}]");
        let (name, at) = (text(mount, "name"), text(mount, "mountPath"));
        let (named, located) = (format!("{here}.name"), format!("{here}.mountPath"));
        if name.is_empty() {
            out.push(FieldError::required(&named, ""));
        }
        if find(volumes, name).is_none() {
            out.push(FieldError::not_found(&named, &json!(name)));
        }
        if at.is_empty() {
            out.push(FieldError::required(&located, ""));
        }
        if seen.contains(&at) {
            out.push(FieldError::invalid(&located, &json!(at), "must be unique"));
        }
        seen.push(at);
        if devices.iter().any(|d| text(d, "name") == name) {
            out.push(FieldError::invalid(&named, &json!(name), "must not already exist in volumeDevices"));
        }
        if devices.iter().any(|d| text(d, "devicePath") == at) {
            let detail = "must not already exist as a path in volumeDevices";
            out.push(FieldError::invalid(&located, &json!(at), detail));
        }
        // What follows is said of the list, not of the item.
        descending(out, &mount["subPath"], &format!("{path}.subPath"));
        let expression = text(mount, "subPathExpr");
        if !expression.is_empty() {
            if !text(mount, "subPath").is_empty() {
                let detail = "subPathExpr and subPath are mutually exclusive";
                let field = format!("{here}.subPathExpr");
                out.push(FieldError::invalid(field, &json!(expression), detail));
            }
            descending(out, &mount["subPathExpr"], &format!("{path}.subPathExpr"));
        }
        propagation(out, mount, container, path);
        read_only(out, mount, path);
    }
}

fn propagation(out: &mut Vec<FieldError>, mount: &Value, container: &Value, path: &str) {
    let field = format!("{path}.mountPropagation");
    let modes = ["Bidirectional", "HostToContainer", "None"];
    known(out, &mount["mountPropagation"], &field, &modes);
    let privileged = flag(&container["securityContext"], "privileged");
    if text(mount, "mountPropagation") == "Bidirectional" && !privileged {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        out.push(FieldError::forbidden(field, detail));
    }
}

fn read_only(out: &mut Vec<FieldError>, mount: &Value, path: &str) {
    let field = format!("{path}.recursiveReadOnly");
    known(out, &mount["recursiveReadOnly"], &field, &["Disabled", "Enabled", "IfPossible"]);
    if matches!(text(mount, "recursiveReadOnly"), "Enabled" | "IfPossible") {
        if !flag(mount, "readOnly") {
            out.push(FieldError::forbidden(&field, "may only be specified when readOnly is true"));
        }
        if !matches!(text(mount, "mountPropagation"), "" | "None") {
            let detail = "may only be specified when mountPropagation is None or not specified";
            out.push(FieldError::forbidden(&field, detail));
        }
    }
}

fn devices(out: &mut Vec<FieldError>, container: &Value, path: &str, volumes: &[&Value]) {
    let mounts = items(container, "volumeMounts");
    let (mut names, mut paths): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for (i, device) in items(container, "volumeDevices").iter().enumerate() {
        let (named, located) = (format!("{path}[{i}].name"), format!("{path}[{i}].devicePath"));
        let (name, at) = (text(device, "name"), text(device, "devicePath"));
        if name.is_empty() {
            out.push(FieldError::required(&named, ""));
        }
        if names.contains(&name) {
            out.push(FieldError::invalid(&named, &json!(name), "must be unique"));
        }
        match find(volumes, name) {
            None => out.push(FieldError::not_found(&named, &json!(name))),
            Some(v) if v["persistentVolumeClaim"].is_null() && v["ephemeral"].is_null() => {
                let detail =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                out.push(FieldError::invalid(&named, &json!(name), detail));
            }
            Some(_) => {}
        }
        if at.is_empty() {
            out.push(FieldError::required(&located, ""));
        }
        if paths.contains(&at) {
            out.push(FieldError::invalid(&located, &json!(at), "must be unique"));
        }
        if at.split('/').any(|part| part == "..") {
            out.push(FieldError::invalid(&located, &json!(at), "can not contain backsteps ('..')"));
        } else {
            paths.push(at);
        }
        if mounts.iter().any(|m| text(m, "name") == name) {
            out.push(FieldError::invalid(&named, &json!(name), "must not already exist in volumeMounts"));
        }
        if mounts.iter().any(|m| text(m, "mountPath") == at) {
            let detail = "must not already exist as a path in volumeMounts";
            out.push(FieldError::invalid(&located, &json!(at), detail));
        }
        if !name.is_empty() {
            names.push(name);
        }
    }
}
