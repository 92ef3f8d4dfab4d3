//! Group `storage.k8s.io`.

use serde_json::{Value, json};

use super::meta::immutable;
use super::spec::{Spec, StatusMeta};
use super::value::{child, entries, fill, flag, items, text};
use crate::status::FieldError;
use crate::table::{AGE, Column, Columns, NAME, age, boolean, column, name};

const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

pub(super) fn spec(plural: &str) -> Option<Spec> {
    Some(match plural {
        "storageclasses" => storage_class(),
        "volumeattachments" => volume_attachment(),
        "csidrivers" => csi_driver(),
        "csinodes" => csi_node(),
        "csistoragecapacities" => Spec { unconditional: false, revalidates: true, ..Spec::new() },
        "volumeattributesclasses" => attributes_class(),
        _ => return None,
    })
}

fn is_default(object: &Value) -> bool {
    object["metadata"]["annotations"][DEFAULT] == "true"
}

fn storage_class() -> Spec {
    const COLUMNS: &[Column] = &[
        NAME,
        column("Provisioner"),
        column("ReclaimPolicy"),
        column("VolumeBindingMode"),
        column("AllowVolumeExpansion"),
        AGE,
    ];
    Spec {
        returns_deleted: true,
        revalidates: true,
        default: |object| {
            fill(object, "reclaimPolicy", "Delete");
            fill(object, "volumeBindingMode", "Immediate");
        },
        validate: |object| {
            let mut out = Vec::new();
            if text(object, "provisioner").is_empty() {
                out.push(FieldError::required("provisioner", ""));
            }
            let policy = text(object, "reclaimPolicy");
            if !matches!(policy, "Delete" | "Retain") {
                let known = ["Delete", "Retain"];
                out.push(FieldError::not_supported("reclaimPolicy", &json!(policy), &known));
            }
            let mode = text(object, "volumeBindingMode");
            if !matches!(mode, "Immediate" | "WaitForFirstConsumer") {
                let known = ["Immediate", "WaitForFirstConsumer"];
                out.push(FieldError::not_supported("volumeBindingMode", &json!(mode), &known));
            }
            out
        },
        validate_update: |old, new| {
            let mut out = Vec::new();
            for key in ["parameters", "provisioner", "reclaimPolicy"] {
                immutable(&mut out, key, &old[key], &new[key]);
            }
            immutable(&mut out, "volumeBindingMode", &old["volumeBindingMode"], &new["volumeBindingMode"]);
            out
        },
        columns: Columns::Own(COLUMNS, |object, now| {
            let mut shown = text(&object["metadata"], "name").to_owned();
            if is_default(object) {
                shown.push_str(" (default)");
            }
            vec![
                json!(shown),
                json!(text(object, "provisioner")),
                json!(text(object, "reclaimPolicy")),
                json!(text(object, "volumeBindingMode")),
                json!(flag(object, "allowVolumeExpansion")),
                age(object, now),
            ]
        }),
        ..Spec::new()
    }
}

fn volume_attachment() -> Spec {
    const COLUMNS: &[Column] = &[
        NAME,
        Column { name: "Attacher", ty: "string", format: "name", priority: 0 },
        column("PV"),
        column("Node"),
        boolean("Attached"),
        AGE,
    ];
    Spec {
        returns_deleted: true,
        unconditional: false,
        status_meta: StatusMeta::KeepAll,
        validate: |object| {
            let mut out = Vec::new();
            let spec = &object["spec"];
            for key in ["attacher", "nodeName"] {
                if text(spec, key).is_empty() {
                    out.push(FieldError::required(format!("spec.{key}"), ""));
                }
            }
            let source = &spec["source"];
            if source["persistentVolumeName"].is_null() && source["inlineVolumeSpec"].is_null() {
                let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
                out.push(FieldError::required("spec.source", detail));
            }
            out
        },
        validate_update: |old, new| {
            let mut out = Vec::new();
            immutable(&mut out, "spec", &old["spec"], &new["spec"]);
            out
        },
        columns: Columns::Own(COLUMNS, |object, now| {
            let spec = &object["spec"];
            vec![
                name(object),
                json!(text(spec, "attacher")),
                json!(text(&spec["source"], "persistentVolumeName")),
                json!(text(spec, "nodeName")),
                json!(flag(&object["status"], "attached")),
                age(object, now),
            ]
        }),
        ..Spec::new()
    }
}

fn csi_driver() -> Spec {
    const COLUMNS: &[Column] = &[
        NAME,
        boolean("AttachRequired"),
        boolean("PodInfoOnMount"),
        boolean("StorageCapacity"),
        column("TokenRequests"),
        boolean("RequiresRepublish"),
        column("Modes"),
        AGE,
    ];
    Spec {
        returns_deleted: true,
        unconditional: false,
        generation: super::spec::Generation::None,
        default: |object| {
            let spec = child(object, "spec");
            fill(spec, "attachRequired", true);
            fill(spec, "podInfoOnMount", false);
            fill(spec, "storageCapacity", false);
            fill(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
            fill(spec, "requiresRepublish", false);
            fill(spec, "seLinuxMount", false);
            if super::value::empty(&spec["volumeLifecycleModes"]) {
                super::value::set(spec, "volumeLifecycleModes", json!(["Persistent"]));
            }
        },
        columns: Columns::Own(COLUMNS, |object, now| {
            let spec = &object["spec"];
            let modes: Vec<&str> =
                items(spec, "volumeLifecycleModes").iter().filter_map(Value::as_str).collect();
            let audiences: Vec<&str> =
                items(spec, "tokenRequests").iter().map(|t| text(t, "audience")).collect();
            let tokens = if audiences.is_empty() { "<unset>".to_owned() } else { audiences.join(",") };
            vec![
                name(object),
                json!(flag(spec, "attachRequired")),
                json!(flag(spec, "podInfoOnMount")),
                json!(flag(spec, "storageCapacity")),
                json!(tokens),
                json!(flag(spec, "requiresRepublish")),
                json!(modes.join(",")),
                age(object, now),
            ]
        }),
        ..Spec::new()
    }
}

fn csi_node() -> Spec {
    const COLUMNS: &[Column] =
        &[NAME, Column { name: "Drivers", ty: "integer", format: "", priority: 0 }, AGE];
    Spec {
        returns_deleted: true,
        unconditional: false,
        columns: Columns::Own(COLUMNS, |object, now| {
            vec![name(object), json!(items(&object["spec"], "drivers").len()), age(object, now)]
        }),
        ..Spec::new()
    }
}

fn attributes_class() -> Spec {
    const COLUMNS: &[Column] = &[NAME, column("DriverName"), AGE];
    Spec {
        returns_deleted: true,
        revalidates: true,
        validate: |object| {
            let mut out = Vec::new();
            if text(object, "driverName").is_empty() {
                out.push(FieldError::required("driverName", ""));
            }
            if entries(object, "parameters").next().is_none() {
                out.push(FieldError::required("parameters", "must contain at least one key/value pair"));
            }
            out
        },
        validate_update: |old, new| {
            let mut out = Vec::new();
            for key in ["driverName", "parameters"] {
                if old[key] != new[key] {
                    let detail = format!("updates to {key} are forbidden.");
                    out.push(FieldError::forbidden(key, &detail));
                }
            }
            out
        },
        columns: Columns::Own(COLUMNS, |object, now| {
            vec![name(object), json!(text(object, "driverName")), age(object, now)]
        }),
        ..Spec::new()
    }
}
