//! PersistentVolume and PersistentVolumeClaim.

use serde_json::{Value, json};

use super::internal;
use super::meta::{immutable, invalid_all};
use super::names;
use super::pod_validation::one_of;
use super::resources::quantity;
use super::spec::Spec;
use super::value::{child, copy, empty, entries, fill, items, present, set, text};
use crate::status::FieldError;
use crate::table::{AGE, Column, Columns, NAME, age, column, name, wide};

const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
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
        revalidates: true,
        returns_deleted: true,
        default: |object| {
            let spec = child(object, "spec");
            fill(spec, "persistentVolumeReclaimPolicy", "Retain");
            fill(spec, "volumeMode", "Filesystem");
            if let Some(path) = present(spec, "hostPath") {
                if path["type"].is_null() {
                    set(path, "type", "");
                }
            }
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
            let mut out = Vec::new();
            let source = |object: &Value| {
                let mut spec = object["spec"].as_object().cloned().unwrap_or_default();
                spec.retain(|key, _| !VOLUME_FIELDS.contains(&key.as_str()));
                Value::Object(spec)
            };
            if source(old) != source(new) {
                let detail = "spec.persistentvolumesource is immutable after creation";
                out.push(FieldError::forbidden("spec.persistentvolumesource", detail));
            }
            let (before, after) = (&old["spec"]["volumeMode"], &new["spec"]["volumeMode"]);
            immutable(&mut out, "volumeMode", before, after);
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
    if empty(&spec["capacity"]) {
        out.push(FieldError::required("spec.capacity", ""));
    }
    if empty(&spec["capacity"]) {
        out.push(FieldError::not_supported("spec.capacity", &Value::Null, &["storage"]));
    } else if spec["capacity"]["storage"].is_null() {
        let keys: Vec<&String> = entries(spec, "capacity").map(|e| e.0).collect();
        out.push(FieldError::not_supported("spec.capacity", &json!(keys), &["storage"]));
    } else if !(quantity(&spec["capacity"]["storage"]) > crate::schema::Quantity::ZERO) {
        let detail = "must be greater than zero";
        out.push(FieldError::invalid("spec.capacity[storage]", &spec["capacity"]["storage"], detail));
    }
    let policies = ["Delete", "Recycle", "Retain"];
    one_of(&mut out, spec, "spec", "persistentVolumeReclaimPolicy", &policies);
    let sources =
        spec.as_object().map_or(0, |s| s.keys().filter(|k| !VOLUME_FIELDS.contains(&k.as_str())).count());
    if sources == 0 {
        out.push(FieldError::required("spec", "must specify a volume type"));
    } else if sources > 1 {
        let detail = "may not specify more than 1 volume type";
        out.push(FieldError::forbidden("spec", detail));
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        invalid_all(&mut out, "spec.storageClassName", &json!(class), names::subdomain(class));
    }
    out
}

fn modes(out: &mut Vec<FieldError>, spec: &Value, field: &str) {
    let known = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for mode in items(spec, "accessModes") {
        if !known.iter().any(|k| mode == k) {
            out.push(FieldError::not_supported(field, mode, &known));
        }
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
fn short_modes(parent: &Value) -> String {
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

fn phase(object: &Value) -> Value {
    if object["metadata"]["deletionTimestamp"].is_null() {
        json!(text(&object["status"], "phase"))
    } else {
        json!("Terminating")
    }
}

fn class(object: &Value) -> &str {
    match object["metadata"]["annotations"][CLASS].as_str() {
        Some(class) => class,
        None => text(&object["spec"], "storageClassName"),
    }
}

fn or_unset(value: &Value) -> Value {
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

/// Defaults of claims, also of those in templates.
pub(super) fn claim_defaults(claim: &mut Value) {
    let spec = child(claim, "spec");
    fill(spec, "volumeMode", "Filesystem");
    if spec["dataSource"].is_object() && spec["dataSourceRef"].is_null() {
        let source = spec["dataSource"].clone();
        set(spec, "dataSourceRef", source);
    } else if spec["dataSourceRef"].is_object() && spec["dataSource"].is_null() {
        let source = spec["dataSourceRef"].clone();
        if text(&source, "namespace").is_empty() {
            set(spec, "dataSource", source);
        }
    }
}

pub(super) fn claim() -> Spec {
    Spec {
        revalidates: true,
        returns_deleted: true,
        default: |object| {
            claim_defaults(object);
            fill(child(object, "status"), "phase", "Pending");
        },
        create: |_, object| {
            set(object, "status", json!({"phase": "Pending"}));
            Ok(())
        },
        validate: |object| {
            let mut out = Vec::new();
            let spec = &object["spec"];
            if empty(&spec["accessModes"]) {
                let detail = "at least 1 access mode is required";
                out.push(FieldError::required("spec.accessModes", detail));
            }
            modes(&mut out, spec, "spec.accessModes");
            let storage = &spec["resources"]["requests"]["storage"];
            if storage.is_null() {
                out.push(FieldError::required("spec.resources[storage]", ""));
            } else if quantity(storage).is_negative() || quantity(storage).is_zero() {
                let field = "spec.resources[storage]";
                out.push(FieldError::invalid(field, storage, "must be greater than zero"));
            }
            let class = text(spec, "storageClassName");
            if !class.is_empty() {
                invalid_all(&mut out, "spec.storageClassName", &json!(class), names::subdomain(class));
            }
            out
        },
        validate_update: claim_update,
        columns: Columns::Own(CLAIM_COLUMNS, claim_cells),
        ..Spec::new()
    }
}

fn claim_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let (before, after) = (&old["spec"], &new["spec"]);
    let mut fixed = after.clone();
    // Binding, resizing and late choice of a class may change a claim.
    if text(before, "volumeName").is_empty() {
        copy(before, &mut fixed, "volumeName");
    }
    if before["storageClassName"].is_null() {
        copy(before, &mut fixed, "storageClassName");
    }
    copy(before, &mut fixed, "volumeAttributesClassName");
    let bound = text(&old["status"], "phase") == "Bound";
    let (had, wants) =
        (&before["resources"]["requests"]["storage"], &after["resources"]["requests"]["storage"]);
    if bound {
        copy(&before["resources"], child(&mut fixed, "resources"), "requests");
    }
    if fixed != *before {
        let diff = internal::difference("PersistentVolumeClaimSpec", before, &fixed);
        let detail = format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{diff}"
        );
        out.push(FieldError::forbidden("spec", &detail));
    }
    if bound && quantity(wants) < quantity(had) {
        let status = &new["status"]["capacity"]["storage"];
        if !(quantity(wants) > quantity(status)) || status.is_null() {
            let detail = "field can not be less than status.capacity";
            out.push(FieldError::forbidden("spec.resources.requests.storage", detail));
        }
    }
    immutable(&mut out, "volumeMode", &before["volumeMode"], &after["volumeMode"]);
    out
}

const CLAIM_COLUMNS: &[Column] = &[
    NAME,
    column("Status"),
    column("Volume"),
    column("Capacity"),
    column("Access Modes"),
    column("StorageClass"),
    column("VolumeAttributesClass"),
    AGE,
    wide("VolumeMode"),
];

fn claim_cells(object: &Value, now: &str) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let volume = text(spec, "volumeName");
    let (size, modes) = if volume.is_empty() {
        ("", String::new())
    } else {
        (status["capacity"]["storage"].as_str().unwrap_or("0"), short_modes(status))
    };
    vec![
        name(object),
        phase(object),
        json!(volume),
        json!(size),
        json!(modes),
        json!(class(object)),
        or_unset(&spec["volumeAttributesClassName"]),
        age(object, now),
        or_unset(&spec["volumeMode"]),
    ]
}
