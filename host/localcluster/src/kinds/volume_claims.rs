//! PersistentVolumeClaim, also as a template in a StatefulSet or a pod.

use serde_json::{Value, json};

use super::internal;
use super::meta::{immutable, invalid_all};
use super::names;
use super::pod_validation::label_selector;
use super::resources::quantity;
use super::spec::Spec;
use super::value::{child, copy, empty, entries, fill, fill_null, remove, set, text};
use super::volume_sources::known;
use super::volumes::{class, class_name, modes, or_unset, phase, short_modes};
use crate::status::FieldError;
use crate::table::{AGE, Column, Columns, NAME, age, column, name, wide};

/// The spec of a claim at `path`, also in a template.
pub(super) fn claim_spec(out: &mut Vec<FieldError>, spec: &Value, path: &str) {
    let field = format!("{path}.accessModes");
    if empty(&spec["accessModes"]) {
        out.push(FieldError::required(&field, "at least 1 access mode is required"));
    }
    label_selector(out, &spec["selector"], &format!("{path}.selector"));
    modes(out, spec, &field);
    let storage = &spec["resources"]["requests"]["storage"];
    let field = format!("{path}.resources[storage]");
    if storage.is_null() {
        out.push(FieldError::required(field, ""));
    } else if quantity(storage).is_negative() || quantity(storage).is_zero() {
        out.push(FieldError::invalid(field, storage, "must be greater than zero"));
    }
    class_name(out, spec, path, "storageClassName");
    known(out, &spec["volumeMode"], &format!("{path}.volumeMode"), &["Block", "Filesystem"]);
    let (source, reference) = (&spec["dataSource"], &spec["dataSourceRef"]);
    for (it, key) in [(source, "dataSource"), (reference, "dataSourceRef")] {
        if !it.is_null() {
            data_source(out, it, &format!("{path}.{key}"));
        }
    }
    if !source.is_null() && !reference.is_null() {
        let same = ["apiGroup", "kind", "name"].iter().all(|key| source[*key] == reference[*key]);
        if !text(reference, "namespace").is_empty() {
            let detail = "may not be specified when dataSourceRef.namespace is specified";
            out.push(FieldError::invalid(path, &json!({}), detail));
        } else if !same {
            out.push(FieldError::invalid(path, &json!({}), "must match dataSourceRef"));
        }
    }
    class_name(out, spec, path, "volumeAttributesClassName");
}

fn data_source(out: &mut Vec<FieldError>, it: &Value, path: &str) {
    for key in ["name", "kind"] {
        if text(it, key).is_empty() {
            out.push(FieldError::required(format!("{path}.{key}"), ""));
        }
    }
    let (group, kind) = (text(it, "apiGroup"), text(it, "kind"));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        out.push(FieldError::invalid(path, &json!(kind), detail));
    }
    if !group.is_empty() {
        invalid_all(out, &format!("{path}.apiGroup"), &json!(group), names::subdomain(group));
    }
}

/// Fields about resizing in the status of a claim.
fn claim_status(status: &Value) -> Vec<FieldError> {
    const STATES: [&str; 5] = [
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
        "NodeResizePending",
    ];
    let mut out = Vec::new();
    let sound = |out: &mut Vec<FieldError>, amount: &Value, field: String| {
        let value = quantity(amount).value();
        if value < 0 {
            out.push(FieldError::invalid(field, &json!(value), "must be a valid resource quantity"));
        }
    };
    for (name, amount) in entries(status, "capacity") {
        sound(&mut out, amount, format!("status.capacity[{name}]"));
    }
    let key_error = |name: &str, field: &str| {
        (!name.contains('/') && name != "storage")
            .then(|| FieldError::not_supported(field, &json!(name), &["storage"]))
    };
    for (name, state) in entries(status, "allocatedResourceStatuses") {
        let field = "status.allocatedResourceStatuses";
        out.extend(key_error(name, field));
        if !STATES.iter().any(|known| state == known) {
            out.push(FieldError::not_supported(field, &json!(name), &STATES));
        }
    }
    for (name, amount) in entries(status, "allocatedResources") {
        let field = "status.allocatedResources";
        match key_error(name, field) {
            Some(error) => out.push(error),
            None => sound(&mut out, amount, format!("{field}[{name}]")),
        }
    }
    out
}

/// Defaults of claims, also of those in templates.
pub(super) fn claim_defaults(claim: &mut Value) {
    let spec = child(claim, "spec");
    fill_null(spec, "volumeMode", "Filesystem");
}

/// The older reference to a source and the newer one are the same where only one is given.
fn one_source(spec: &mut Value) {
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

/// References that are not served: into other namespaces, and sources that name nothing.
fn drop_references(spec: &mut Value) {
    if !text(&spec["dataSourceRef"], "namespace").is_empty() {
        remove(spec, "dataSourceRef");
    }
    let blank = |it: &Value| {
        !it.is_null()
            && text(it, "kind").is_empty()
            && text(it, "name").is_empty()
            && it["apiGroup"].is_null()
    };
    if blank(&spec["dataSource"]) {
        remove(spec, "dataSource");
        if blank(&spec["dataSourceRef"]) {
            remove(spec, "dataSourceRef");
        }
    }
}

pub(super) fn claim() -> Spec {
    Spec {
        warnings: super::warnings::claim,
        revalidates: true,
        returns_deleted: true,
        default: |object| {
            claim_defaults(object);
            fill(child(object, "status"), "phase", "Pending");
        },
        create: |_, object| {
            set(object, "status", json!({"phase": "Pending"}));
            drop_references(&mut object["spec"]);
            one_source(child(object, "spec"));
            Ok(())
        },
        update: |_, sub, _, object| {
            if sub.is_empty() {
                one_source(child(object, "spec"));
            }
            Ok(())
        },
        validate: |object| {
            let mut out = Vec::new();
            claim_spec(&mut out, &object["spec"], "spec");
            out
        },
        validate_sub: |sub, _, new| if sub == "status" { claim_status(&new["status"]) } else { Vec::new() },
        validate_update: claim_update,
        columns: Columns::Own(CLAIM_COLUMNS, claim_cells),
        ..Spec::new()
    }
}

fn claim_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let (before, after) = (&old["spec"], &new["spec"]);
    let mut fixed = after.clone();
    let mut was = before.clone();
    // Binding, resizing and late choice of a class may change a claim.
    if text(before, "volumeName").is_empty() {
        copy(after, &mut was, "volumeName");
    }
    if before["storageClassName"].is_null() {
        copy(before, &mut fixed, "storageClassName");
    }
    let bound = text(&old["status"], "phase") == "Bound";
    if bound {
        copy(before, &mut fixed, "volumeAttributesClassName");
    }
    let (had, wants) =
        (&before["resources"]["requests"]["storage"], &after["resources"]["requests"]["storage"]);
    if bound {
        copy(&before["resources"], child(&mut fixed, "resources"), "requests");
    }
    if fixed != was {
        let diff = internal::difference("PersistentVolumeClaimSpec", &was, &fixed);
        let detail = format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{diff}"
        );
        out.push(FieldError::forbidden("spec", &detail));
    }
    if quantity(wants) < quantity(had) {
        let status = &old["status"]["capacity"]["storage"];
        if quantity(wants) <= quantity(status) {
            let detail = "field can not be less than status.capacity";
            out.push(FieldError::forbidden("spec.resources.requests.storage", detail));
        }
    }
    immutable(&mut out, "volumeMode", &before["volumeMode"], &after["volumeMode"]);
    let class = &after["volumeAttributesClassName"];
    let current = &old["status"]["currentVolumeAttributesClassName"];
    if before["volumeAttributesClassName"] != *class
        && !current.is_null()
        && class.as_str().is_none_or(str::is_empty)
    {
        let what = if class.is_null() { "nil" } else { "empty string" };
        let detail =
            format!("update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil");
        out.push(FieldError::forbidden("spec.volumeAttributesClassName", &detail));
    }
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
