//! Changes of running pods: ephemeral containers and resources.

use serde_json::{Value, json};

use super::meta::invalid_all;
use super::names;
use super::resources;
use super::value::{copy, empty, items, remove, set, text};
use crate::status::FieldError;

/// Takes one field of the new spec and nothing else.
pub(super) fn keep_all_but(old: &Value, new: &mut Value, key: &str) {
    let given = new["spec"].get(key).cloned();
    let version = new["metadata"].get("resourceVersion").cloned();
    let managed = new["metadata"].get("managedFields").cloned();
    let types = [new.get("kind").cloned(), new.get("apiVersion").cloned()];
    *new = old.clone();
    for (name, value) in ["kind", "apiVersion"].into_iter().zip(types) {
        if let Some(value) = value {
            set(new, name, value);
        }
    }
    for (name, value) in [("resourceVersion", version), ("managedFields", managed)] {
        match value {
            Some(value) => set(&mut new["metadata"], name, value),
            None => {
                remove(&mut new["metadata"], name);
            }
        }
    }
    match given {
        Some(value) => set(&mut new["spec"], key, value),
        None => {
            remove(&mut new["spec"], key);
        }
    }
}

/// Takes the resources of containers and their resize policies.
pub(super) fn resize(old: &Value, new: &mut Value) {
    let wanted = new["spec"].clone();
    let lists = ["containers", "initContainers"];
    let mut spec = old["spec"].clone();
    for list in lists {
        let given = items(&wanted, list).to_vec();
        if given.len() != items(&old["spec"], list).len() {
            copy(&wanted, &mut spec, list);
            continue;
        }
        if let Some(all) = spec.get_mut(list).and_then(Value::as_array_mut) {
            for (container, given) in all.iter_mut().zip(&given) {
                copy(given, container, "resources");
                copy(given, container, "resizePolicy");
            }
        }
    }
    copy(&wanted, &mut spec, "resources");
    keep_all_but(old, new, "nothing");
    set(new, "spec", spec);
}

pub(super) fn ephemeral(out: &mut Vec<FieldError>, old: &Value, new: &Value) {
    const FIELD: &str = "spec.ephemeralContainers";
    let mut seen: Vec<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|list| items(new, list))
        .map(|c| text(c, "name"))
        .collect();
    for (i, it) in items(new, "ephemeralContainers").iter().enumerate() {
        let here = format!("{FIELD}[{i}]");
        let name = text(it, "name");
        if name.is_empty() {
            out.push(FieldError::required(format!("{here}.name"), ""));
        } else {
            invalid_all(out, &format!("{here}.name"), &json!(name), names::label(name));
        }
        if text(it, "image").is_empty() {
            out.push(FieldError::required(format!("{here}.image"), ""));
        }
        if seen.contains(&name) {
            out.push(FieldError::duplicate(format!("{here}.name"), &json!(name)));
        }
        seen.push(name);
        for key in ["ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"] {
            if !empty(&it[key]) {
                let detail = "cannot be set for an Ephemeral Container";
                out.push(FieldError::forbidden(format!("{here}.{key}"), detail));
            }
        }
        if !empty(&it["resources"]) {
            let detail = "cannot be set for an Ephemeral Container";
            out.push(FieldError::forbidden(format!("{here}.resources"), detail));
        }
    }
    for (i, before) in items(old, "ephemeralContainers").iter().enumerate() {
        let name = text(before, "name");
        let after = items(new, "ephemeralContainers").iter().find(|c| text(c, "name") == name);
        match after {
            None => {
                let detail = format!("existing ephemeral containers {name:?} may not be removed\n");
                out.push(FieldError::forbidden(FIELD, &detail));
            }
            Some(after) if after != before => {
                let detail = format!("existing ephemeral containers {name:?} may not be changed\n");
                out.push(FieldError::forbidden(format!("{FIELD}[{i}]"), &detail));
            }
            Some(_) => {}
        }
    }
}

pub(super) fn resized(out: &mut Vec<FieldError>, old: &Value, new: &Value) {
    let qos = text(&old["status"], "qosClass");
    for list in ["containers", "initContainers"] {
        if items(&old["spec"], list).len() != items(&new["spec"], list).len() {
            let detail = "containers may not be added or removed on resize";
            out.push(FieldError::forbidden(format!("spec.{list}"), detail));
        }
        for (i, container) in items(&new["spec"], list).iter().enumerate() {
            resources::requirements(out, &container["resources"], &format!("spec.{list}[{i}].resources"));
        }
    }
    if !qos.is_empty() && resources::qos(&new["spec"]) != qos {
        let value = json!(resources::qos(&new["spec"]));
        out.push(FieldError::invalid("spec", &value, "Pod QOS Class may not change as a result of resizing"));
    }
}
