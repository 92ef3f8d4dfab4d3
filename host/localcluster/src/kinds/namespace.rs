//! Namespace.

use serde_json::{Value, json};

use super::meta::invalid_all;
use super::names::{self, NameRule};
use super::spec::{Order, Spec};
use super::value::{child, copy, fill, items, remove, set, text};
use crate::rest::strategy::Ctx;
use crate::status::Status;
use crate::table::{AGE, Column, Columns, NAME, age, column, name};

const LABEL: &str = "kubernetes.io/metadata.name";

pub(super) fn spec() -> Spec {
    const COLUMNS: &[Column] = &[NAME, column("Status"), AGE];
    Spec {
        name: NameRule::Label,
        revalidates: true,
        order: Order::New,
        undeletable: |name| {
            matches!(name, "default" | "kube-system" | "kube-public")
                .then_some("this namespace may not be deleted")
        },
        default: |object| {
            label(object);
            fill(child(object, "status"), "phase", "Active");
        },
        create: |_, object| {
            set(object, "status", json!({"phase": "Active"}));
            let spec = child(object, "spec");
            let mut finalizers = items(spec, "finalizers").to_vec();
            if !finalizers.iter().any(|f| f == "kubernetes") {
                finalizers.push(json!("kubernetes"));
            }
            set(spec, "finalizers", finalizers);
            label(object);
            Ok(())
        },
        update,
        validate: |object| {
            let mut out = Vec::new();
            for finalizer in items(&object["spec"], "finalizers") {
                let name = finalizer.as_str().unwrap_or("");
                invalid_all(&mut out, "spec.finalizers", finalizer, names::qualified_name(name));
                super::meta::finalizer_name(&mut out, finalizer, "spec.finalizers");
            }
            out
        },
        validate_sub: |sub, old, new| {
            let mut out = Vec::new();
            if sub == "finalize" {
                for (i, finalizer) in items(&new["spec"], "finalizers").iter().enumerate() {
                    super::meta::finalizer_name(&mut out, finalizer, &format!("spec.finalizers[{i}]"));
                }
            }
            if sub == "status" {
                let phase = text(&new["status"], "phase");
                let leaving = !old["metadata"]["deletionTimestamp"].is_null();
                if leaving && phase != "Terminating" {
                    let detail = "may only be 'Terminating' if `deletionTimestamp` is not empty";
                    out.push(crate::status::FieldError::invalid("status.Phase", &json!(phase), detail));
                } else if !leaving && phase != "Active" {
                    let detail = "may only be 'Active' if `deletionTimestamp` is empty";
                    out.push(crate::status::FieldError::invalid("status.Phase", &json!(phase), detail));
                }
            }
            out
        },
        field_names: &["status.phase", "name"],
        fields: |object| {
            vec![
                ("status.phase", text(&object["status"], "phase").into()),
                ("name", text(&object["metadata"], "name").into()),
            ]
        },
        columns: Columns::Own(COLUMNS, |object, now| {
            vec![name(object), object["status"]["phase"].clone(), age(object, now)]
        }),
        ..Spec::new()
    }
}

/// Every namespace carries its name as a label.
fn label(object: &mut Value) {
    let name = text(&object["metadata"], "name").to_owned();
    if !name.is_empty() {
        set(child(child(object, "metadata"), "labels"), LABEL, name);
    }
}

fn update(_: &Ctx<'_>, sub: &str, old: &Value, new: &mut Value) -> Result<(), Status> {
    match sub {
        // Only /finalize changes spec.finalizers.
        "" => copy(&old["spec"], child(new, "spec"), "finalizers"),
        "finalize" => copy(old, new, "status"),
        _ => {}
    }
    if new["spec"]["finalizers"].as_array().is_some_and(Vec::is_empty) {
        remove(&mut new["spec"], "finalizers");
    }
    label(new);
    Ok(())
}
