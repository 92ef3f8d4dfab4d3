//! PersistentVolume, and what claims have in common with it.

use serde_json::{Value, json};

use super::internal;
use super::meta::{immutable, invalid_all};
use super::names;
use super::pod_defaults;
use super::pod_scheduling::node_selector;
use super::resources::quantity;
use super::spec::Spec;
use super::value::{child, copy, empty, entries, fill, fill_null, items, remove, set, text};
use super::volume_sources::{self, Owner, known};
use crate::status::{FieldError, FieldReason};
use crate::table::{AGE, Column, Columns, NAME, age, column, name, wide};

pub(super) const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// Fields of a PersistentVolume that are not its source.
const VOLUME_FIELDS: [&str; 9] = [
    "capacity",
    "accessModes",
    "claimRef",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "mountOptions",
    "volumeMode",
    "nodeAffinity",
    "volumeAttributesClassName",
];

pub(super) fn volume() -> Spec {
    Spec {
        warnings: super::warnings::volume,
        revalidates: true,
        returns_deleted: true,
        default: |object| {
            let spec = child(object, "spec");
            fill(spec, "persistentVolumeReclaimPolicy", "Retain");
            fill_null(spec, "volumeMode", "Filesystem");
            pod_defaults::volume_source(spec);
            fill(child(object, "status"), "phase", "Pending");
        },
        create: |ctx, object| {
            let status = json!({"phase": "Pending", "lastPhaseTransitionTime": ctx.now});
            set(object, "status", status);
            Ok(())
        },
        update: |ctx, sub, old, new| {
            if sub == "status" {
                let key = "lastPhaseTransitionTime";
                let same = old["status"]["phase"] == new["status"]["phase"];
                if same && new["status"][key].is_null() {
                    copy(&old["status"], child(new, "status"), key);
                } else if !same && (new["status"][key].is_null() || new["status"][key] == old["status"][key])
                {
                    set(child(new, "status"), key, ctx.now.clone());
                }
            }
            Ok(())
        },
        validate: volume_validation,
        validate_update: |old, new| {
            // A change is checked as a volume and as a change, which begins with the former.
            let mut out = volume_validation(new);
            let source = |object: &Value| {
                let mut spec = object["spec"].as_object().cloned().unwrap_or_default();
                spec.retain(|key, _| !VOLUME_FIELDS.contains(&key.as_str()));
                Value::Object(spec)
            };
            let (before, mut after) = (source(old), source(new));
            let secret = "controllerExpandSecretRef";
            if before["csi"].is_object() && before["csi"][secret].is_null() && after["csi"].is_object() {
                // This may still be set.
                remove(&mut after["csi"], secret);
            }
            if before != after {
                let diff = internal::difference("PersistentVolumeSource", &before, &after);
                let detail = format!("spec.persistentvolumesource is immutable after creation\n{diff}");
                out.push(FieldError::forbidden("spec.persistentvolumesource", &detail));
            }
            let (before, after) = (&old["spec"]["volumeMode"], &new["spec"]["volumeMode"]);
            immutable(&mut out, "volumeMode", before, after);
            let (before, after) = (&old["spec"]["nodeAffinity"], &new["spec"]["nodeAffinity"]);
            if !before.is_null() && before != after {
                let required = internal::shown("NodeSelector", &after["required"]);
                let shown = match after {
                    Value::Null => "null".to_owned(),
                    _ => format!("{{\"Required\":{required}}}"),
                };
                let message = format!(
                    "Invalid value: {shown}: field is immutable, except for updating from beta label to GA"
                );
                out.push(FieldError::raw(FieldReason::Invalid, "nodeAffinity", message));
            }
            out
        },
        columns: Columns::Own(VOLUME_COLUMNS, volume_cells),
        ..Spec::new()
    }
}

fn volume_validation(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = &object["spec"];
    if empty(&spec["accessModes"]) {
        out.push(FieldError::required("spec.accessModes", ""));
    }
    modes(&mut out, spec, "spec.accessModes");
    let capacity = &spec["capacity"];
    if empty(capacity) {
        out.push(FieldError::required("spec.capacity", ""));
    }
    if capacity["storage"].is_null() || entries(spec, "capacity").count() > 1 {
        let shown = if capacity.is_null() { &json!({}) } else { capacity };
        out.push(FieldError::not_supported("spec.capacity", shown, &["storage"]));
    }
    for (name, amount) in entries(spec, "capacity") {
        let field = format!("spec.capacity[{name}]");
        if quantity(amount).value() < 0 {
            let value = json!(quantity(amount).value());
            out.push(FieldError::invalid(&field, &value, "must be a valid resource quantity"));
        }
        if quantity(amount).is_zero() || quantity(amount).is_negative() {
            out.push(FieldError::invalid(&field, amount, "must be greater than zero"));
        }
    }
    let policies = ["Delete", "Recycle", "Retain"];
    let policy = &spec["persistentVolumeReclaimPolicy"];
    known(&mut out, policy, "spec.persistentVolumeReclaimPolicy", &policies);
    let affinity = &spec["nodeAffinity"];
    if !affinity.is_null() {
        let field = "spec.nodeAffinity.required";
        if affinity["required"].is_null() {
            out.push(FieldError::required(field, "must specify required node constraints"));
        } else {
            node_selector(&mut out, &affinity["required"], field);
        }
    }
    volume_sources::check(&mut out, spec, "spec", Owner::Volume);
    if !spec["local"].is_null() && affinity.is_null() {
        out.push(FieldError::required("spec.nodeAffinity", "Local volume requires node affinity"));
    }
    if policy == "Recycle" && spec["hostPath"]["path"] == "/" {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        out.push(FieldError::forbidden("spec.persistentVolumeReclaimPolicy", detail));
    }
    class_names(&mut out, spec, "spec");
    if spec["volumeAttributesClassName"] == "" {
        let detail = "an empty string is disallowed";
        out.push(FieldError::required("spec.volumeAttributesClassName", detail));
    }
    if !spec["volumeAttributesClassName"].is_null() && spec["csi"].is_null() {
        let detail = "has to be specified when using volumeAttributesClassName";
        out.push(FieldError::required("spec.csi", detail));
    }
    out
}

/// Class, mode and attributes class, which volumes and claims share.
fn class_names(out: &mut Vec<FieldError>, spec: &Value, path: &str) {
    class_name(out, spec, path, "storageClassName");
    known(out, &spec["volumeMode"], &format!("{path}.volumeMode"), &["Block", "Filesystem"]);
    class_name(out, spec, path, "volumeAttributesClassName");
}

pub(super) fn class_name(out: &mut Vec<FieldError>, spec: &Value, path: &str, key: &str) {
    let class = text(spec, key);
    if !class.is_empty() {
        invalid_all(out, &format!("{path}.{key}"), &json!(class), names::subdomain(class));
    }
}

pub(super) fn modes(out: &mut Vec<FieldError>, spec: &Value, field: &str) {
    let known = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for mode in items(spec, "accessModes") {
        if !known.iter().any(|k| mode == k) {
            out.push(FieldError::not_supported(field, mode, &known));
        }
    }
    let single = |mode: &Value| mode == "ReadWriteOncePod";
    let others = |mode: &Value| !single(mode) && known.iter().any(|k| mode == k);
    let all = items(spec, "accessModes");
    if all.iter().any(single) && all.iter().any(others) {
        out.push(FieldError::forbidden(field, "may not use ReadWriteOncePod with other access modes"));
    }
}

const VOLUME_COLUMNS: &[Column] = &[
    NAME,
    column("Capacity"),
    column("Access Modes"),
    column("Reclaim Policy"),
    column("Status"),
    column("Claim"),
    column("StorageClass"),
    column("VolumeAttributesClass"),
    column("Reason"),
    AGE,
    wide("VolumeMode"),
];

/// Access modes in their short form, `RWO,ROX`.
pub(super) fn short_modes(parent: &Value) -> String {
    let mut out = Vec::new();
    for (mode, short) in [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ] {
        if items(parent, "accessModes").iter().any(|m| m == mode) {
            out.push(short);
        }
    }
    out.join(",")
}

pub(super) fn phase(object: &Value) -> Value {
    if object["metadata"]["deletionTimestamp"].is_null() {
        json!(text(&object["status"], "phase"))
    } else {
        json!("Terminating")
    }
}

pub(super) fn class(object: &Value) -> &str {
    match object["metadata"]["annotations"][CLASS].as_str() {
        Some(class) => class,
        None => text(&object["spec"], "storageClassName"),
    }
}

pub(super) fn or_unset(value: &Value) -> Value {
    json!(value.as_str().unwrap_or("<unset>"))
}

fn volume_cells(object: &Value, now: &str) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let claim = if spec["claimRef"].is_object() {
        format!("{}/{}", text(&spec["claimRef"], "namespace"), text(&spec["claimRef"], "name"))
    } else {
        String::new()
    };
    let size = spec["capacity"]["storage"].as_str().unwrap_or("0");
    vec![
        name(object),
        json!(size),
        json!(short_modes(spec)),
        json!(text(spec, "persistentVolumeReclaimPolicy")),
        phase(object),
        json!(claim),
        json!(class(object)),
        or_unset(&spec["volumeAttributesClassName"]),
        json!(text(status, "reason")),
        age(object, now),
        or_unset(&spec["volumeMode"]),
    ]
}
