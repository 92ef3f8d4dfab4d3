//! Pod and PodTemplate.

use serde_json::{Value, json};

use super::internal;
use super::pod_annotations;
use super::pod_changes::{ephemeral, keep_all_but, resize, resized, scheduling_only_narrowed};
use super::pod_defaults;
use super::pod_scheduling;
use super::pod_status;
use super::pod_validation;
use super::pod_warnings;
use super::resources;
use super::spec::{Generation, Spec, StatusMeta};
use super::value::{child, copy, empty, fill, flag, int, items, remove, set, text};
use crate::selector::label_selector_text;
use crate::status::FieldError;
use crate::table::{Column, Columns, NAME, column, containers, name, pod};

const FIELDS: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
];

pub(super) fn spec() -> Spec {
    Spec {
        generation: Generation::Spec,
        returns_deleted: true,
        revalidates: true,
        default: pod_defaults::pod,
        status_meta: StatusMeta::KeepOwners,
        create: |ctx, object| {
            if int(&object["spec"], "terminationGracePeriodSeconds") < 0 {
                set(child(object, "spec"), "terminationGracePeriodSeconds", 1);
            }
            let labels = object["metadata"]["labels"].clone();
            pod_scheduling::select_own_labels(&mut object["spec"], &labels);
            let qos = resources::qos(&object["spec"]);
            set(object, "status", json!({"phase": "Pending", "qosClass": qos}));
            gate_condition(object, &ctx.now);
            pod_annotations::adopt_app_armor(ctx, object);
            Ok(())
        },
        update: |_, sub, old, new| {
            match sub {
                "status" => status_update(old, new),
                "ephemeralcontainers" => keep_all_but(old, new, "ephemeralContainers"),
                "resize" => resize(old, new),
                _ => {}
            }
            Ok(())
        },
        validate: |object| {
            let mut out = Vec::new();
            pod_annotations::mirror(&mut out, object);
            pod_annotations::cost(&mut out, &object["metadata"], "metadata.annotations");
            pod_annotations::app_armor(
                &mut out,
                &object["metadata"],
                &object["spec"],
                "metadata.annotations",
            );
            pod_validation::pod(&mut out, object);
            token_volumes(&mut out, &object["spec"]);
            out
        },
        validate_create: |object| {
            let mut out = Vec::new();
            let spec = &object["spec"];
            if !empty(&spec["ephemeralContainers"]) {
                out.push(FieldError::forbidden("spec.ephemeralContainers", "cannot be set on create"));
            }
            if !text(spec, "nodeName").is_empty() && !items(spec, "schedulingGates").is_empty() {
                let detail = "cannot be set until all schedulingGates have been cleared";
                out.push(FieldError::forbidden("spec.nodeName", detail));
            }
            pod_annotations::app_armor_agrees(&mut out, &object["metadata"], spec, "spec");
            out
        },
        validate_update,
        validate_sub,
        field_names: FIELDS,
        fields,
        grace: Some(grace),
        warnings: |old, new| if old.is_none() { warnings(new) } else { Vec::new() },
        columns: Columns::Own(pod::COLUMNS, pod::cells),
        ..Spec::new()
    }
}

/// Tokens are those of a service account.
fn token_volumes(out: &mut Vec<FieldError>, spec: &Value) {
    if !text(spec, "serviceAccountName").is_empty() {
        return;
    }
    for (i, volume) in items(spec, "volumes").iter().enumerate() {
        for (j, source) in items(&volume["projected"], "sources").iter().enumerate() {
            if !source["serviceAccountToken"].is_null() {
                let field = format!("spec.volumes[{i}].projected.sources[{j}].serviceAccountToken");
                let detail = "must not be specified when serviceAccountName is not set";
                out.push(FieldError::forbidden(field, detail));
            }
        }
    }
}

/// A pod with gates starts with the condition that says so.
fn gate_condition(object: &mut Value, now: &str) {
    if items(&object["spec"], "schedulingGates").is_empty() {
        return;
    }
    let condition = json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
        "lastProbeTime": null,
        "lastTransitionTime": now,
    });
    set(child(object, "status"), "conditions", vec![condition]);
}

fn status_update(old: &Value, new: &mut Value) {
    if text(&new["status"], "qosClass").is_empty() {
        copy(&old["status"], child(new, "status"), "qosClass");
    }
}

fn containers_keep(out: &mut Vec<FieldError>, old: &Value, new: &Value, list: &str) -> bool {
    let (before, after) = (items(old, list), items(new, list));
    if before.len() != after.len() {
        let detail = "pod updates may not add or remove containers";
        out.push(FieldError::forbidden(format!("spec.{list}"), detail));
        return false;
    }
    for (i, container) in after.iter().enumerate() {
        let image = text(container, "image");
        if image.trim().is_empty() {
            out.push(FieldError::required(format!("spec.{list}[{i}].image"), ""));
        } else if image.trim() != image {
            let field = format!("spec.{list}[{i}].image");
            let detail = "must not have leading or trailing whitespace";
            out.push(FieldError::invalid(field, &json!(image), detail));
        }
    }
    true
}

fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    pod_annotations::change(&mut out, old, new);
    let (before, after) = (&old["spec"], &new["spec"]);
    if !containers_keep(&mut out, before, after, "containers")
        || !containers_keep(&mut out, before, after, "initContainers")
    {
        return out;
    }
    let deadline = "spec.activeDeadlineSeconds";
    match (before["activeDeadlineSeconds"].as_i64(), after["activeDeadlineSeconds"].as_i64()) {
        (Some(old), Some(new)) if old < new => {
            let detail = "must be less than or equal to previous value";
            out.push(FieldError::invalid(deadline, &json!(new), detail));
            return out;
        }
        (Some(_), None) => {
            let detail = "must not update from a positive integer to nil value";
            out.push(FieldError::invalid(deadline, &Value::Null, detail));
        }
        _ => {}
    }
    tolerations_only_added(&mut out, before, after);
    gates_only_removed(&mut out, before, after);
    let mut fixed = after.clone();
    for list in ["containers", "initContainers"] {
        for (i, container) in items(before, list).iter().enumerate() {
            if let Some(new) = fixed[list].get_mut(i) {
                copy(container, new, "image");
            }
        }
    }
    for key in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        copy(before, &mut fixed, key);
    }
    let was_negative = int(before, "terminationGracePeriodSeconds") < 0;
    if was_negative && int(after, "terminationGracePeriodSeconds") == 1 {
        copy(before, &mut fixed, "terminationGracePeriodSeconds");
    }
    if !items(before, "schedulingGates").is_empty() {
        // A gated pod may still be given more to be scheduled by.
        scheduling_only_narrowed(&mut out, before, after);
        copy(before, &mut fixed, "nodeSelector");
        copy(&before["affinity"], &mut fixed["affinity"], "nodeAffinity");
        if empty(&fixed["affinity"]) && before["affinity"].is_null() {
            remove(&mut fixed, "affinity");
        }
    }
    if fixed != *before {
        let detail = format!("{ONLY}\n{}", internal::difference("PodSpec", before, &fixed));
        out.push(FieldError::forbidden("spec", &detail));
    }
    out
}

const ONLY: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

fn tolerations_only_added(out: &mut Vec<FieldError>, old: &Value, new: &Value) {
    let sans_seconds = |t: &Value| {
        let mut t = t.clone();
        remove(&mut t, "tolerationSeconds");
        t
    };
    let kept = items(old, "tolerations").iter().all(|before| {
        items(new, "tolerations").iter().any(|after| sans_seconds(after) == sans_seconds(before))
    });
    if !kept {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        out.push(FieldError::forbidden("spec.tolerations", detail));
    }
}

fn gates_only_removed(out: &mut Vec<FieldError>, old: &Value, new: &Value) {
    let before = items(old, "schedulingGates");
    for (i, gate) in items(new, "schedulingGates").iter().enumerate() {
        if !before.contains(gate) {
            let detail =
                format!("only deletion is allowed, but found new scheduling gate '{}'", text(gate, "name"));
            out.push(FieldError::forbidden(format!("spec.schedulingGates[{i}].name"), &detail));
        }
    }
}

fn validate_sub(sub: &str, old: &Value, new: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    match sub {
        "status" => pod_status::check(&mut out, old, new),
        "ephemeralcontainers" => ephemeral(&mut out, old, new),
        "resize" => resized(&mut out, old, new),
        _ => {}
    }
    out
}

fn fields(object: &Value) -> Vec<(&'static str, String)> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let ip = items(status, "podIPs").first().map_or("", |ip| text(ip, "ip"));
    vec![
        ("spec.nodeName", text(spec, "nodeName").into()),
        ("spec.restartPolicy", text(spec, "restartPolicy").into()),
        ("spec.schedulerName", text(spec, "schedulerName").into()),
        ("spec.serviceAccountName", text(spec, "serviceAccountName").into()),
        ("spec.hostNetwork", flag(spec, "hostNetwork").to_string()),
        ("status.phase", text(status, "phase").into()),
        ("status.podIP", ip.into()),
        ("status.podIPs", ip.into()),
        ("status.nominatedNodeName", text(status, "nominatedNodeName").into()),
    ]
}

/// Pods without a node and finished ones go at once.
fn grace(object: &Value, asked: Option<i64>) -> Option<i64> {
    let (spec, status) = (&object["spec"], &object["status"]);
    if text(spec, "nodeName").is_empty() || matches!(text(status, "phase"), "Failed" | "Succeeded") {
        return Some(0);
    }
    let period = asked.unwrap_or_else(|| int(spec, "terminationGracePeriodSeconds"));
    Some(if period < 0 { 1 } else { period })
}

fn warnings(object: &Value) -> Vec<String> {
    let named = pod_warnings::name(object, "the Pod's hostname");
    named.into_iter().chain(pod_warnings::of_pod(object, "")).collect()
}

pub(super) fn template_spec() -> Spec {
    const COLUMNS: &[Column] = &[NAME, column("Containers"), column("Images"), column("Pod Labels")];
    Spec {
        warnings: |old, new| super::pod_warnings::of_template(old, new, "template"),
        generation: Generation::Content,
        returns_deleted: true,
        default: |object| pod_defaults::template(child(object, "template")),
        validate: |object| {
            let mut out = Vec::new();
            pod_validation::template(&mut out, &object["template"], "template");
            out
        },
        columns: Columns::Own(COLUMNS, |object, _| {
            let template = &object["template"];
            let [names, images] = containers(template);
            let labels = label_selector_text(&json!({"matchLabels": template["metadata"]["labels"]}));
            let labels = if labels.is_empty() { "<none>".to_owned() } else { labels };
            vec![name(object), names, images, json!(labels)]
        }),
        ..Spec::new()
    }
}

/// Binds a pod: node and annotations of a `Binding`, and the condition that it is scheduled.
pub fn bind(pod: &mut Value, node: &str, annotations: &Value, now: &str) {
    set(child(pod, "spec"), "nodeName", node);
    for (key, value) in annotations.as_object().into_iter().flatten() {
        set(child(child(pod, "metadata"), "annotations"), key, value.clone());
    }
    let status = child(pod, "status");
    fill(status, "phase", "Pending");
    let scheduled = json!({
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": null,
        "lastTransitionTime": now,
    });
    let mut conditions = items(status, "conditions").to_vec();
    conditions.retain(|c| text(c, "type") != "PodScheduled");
    conditions.push(scheduled);
    set(status, "conditions", conditions);
}
