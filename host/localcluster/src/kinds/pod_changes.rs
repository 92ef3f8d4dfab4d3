//! Changes of running pods: ephemeral containers and resources.

use serde_json::{Value, json};

use super::internal;
use super::pod_validation;
use super::resources;
use super::value::{copy, items, remove, set, text};
use crate::status::{FieldError, FieldReason};

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
    pod_validation::pod(out, new);
    for before in items(&old["spec"], "ephemeralContainers") {
        let name = text(before, "name");
        let after = items(&new["spec"], "ephemeralContainers").iter().find(|c| text(c, "name") == name);
        let detail = match after {
            None => format!("existing ephemeral containers {name:?} may not be removed\n"),
            Some(after) if after != before => {
                let difference = internal::difference("EphemeralContainer", before, after);
                format!("existing ephemeral containers {name:?} may not be changed\n{difference}")
            }
            Some(_) => continue,
        };
        out.push(FieldError::forbidden(FIELD, &detail));
    }
}

/// A node that tells what its containers have can give them more.
fn can_resize(pod: &Value) -> bool {
    let running =
        items(&pod["status"], "containerStatuses").iter().find(|c| !c["state"]["running"].is_null());
    running.is_none_or(|c| !c["resources"].is_null())
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
        let value = json!(text(&new["status"], "qosClass"));
        out.push(FieldError::invalid("spec", &value, "Pod QOS Class may not change as a result of resizing"));
    }
    if !can_resize(old) {
        out.push(FieldError::forbidden("spec", "Pod running on node without support for resize"));
    }
}

/// A gated pod's node selector and required node affinity may only get stricter.
pub(super) fn scheduling_only_narrowed(out: &mut Vec<FieldError>, before: &Value, after: &Value) {
    let (old, new) = (&before["nodeSelector"], &after["nodeSelector"]);
    let kept = old.as_object().into_iter().flatten().all(|(key, value)| new.get(key) == Some(value));
    if !kept {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        out.push(FieldError::invalid("spec.nodeSelector", new, detail));
    }
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let [old, new] = [before, after].map(|spec| &spec["affinity"]["nodeAffinity"][REQUIRED]);
    let [old, new] = [old, new].map(|selector| items(selector, "nodeSelectorTerms"));
    let field = format!("spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
    if old.is_empty() {
        return;
    }
    if old.len() != new.len() {
        let terms: Vec<String> = new.iter().map(|term| internal::shown("NodeSelectorTerm", term)).collect();
        let shown = if new.is_empty() { "null".to_owned() } else { format!("[{}]", terms.join(",")) };
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        let message = format!("Invalid value: {shown}: {detail}");
        out.push(FieldError::raw(FieldReason::Invalid, field, message));
        return;
    }
    for (i, (old, new)) in old.iter().zip(new).enumerate() {
        let lists = ["matchExpressions", "matchFields"].map(|key| (items(old, key), items(new, key)));
        let was_empty = lists.iter().all(|(old, _)| old.is_empty());
        let kept = lists.iter().all(|(old, new)| new.starts_with(old));
        let grown = lists.iter().any(|(_, new)| !new.is_empty());
        if !kept || (was_empty && grown) {
            let shown = internal::shown("NodeSelectorTerm", new);
            let message =
                format!("Invalid value: {shown}: only additions are allowed (no mutations or deletions)");
            out.push(FieldError::raw(FieldReason::Invalid, format!("{field}[{i}]"), message));
        }
    }
}
