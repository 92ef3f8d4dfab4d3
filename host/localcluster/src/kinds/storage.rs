//! Group `storage.k8s.io`.

use serde_json::{Value, json};

use super::internal;
use super::meta::{immutable, invalid_all};
use super::names;
use super::pod_validation::label_selector;
use super::resources::quantity;
use super::spec::{Spec, StatusMeta};
use super::value::{child, entries, fill, fill_null, flag, items, text};
use super::volume_remote::driver_name;
use super::volume_sources::known;
use crate::status::{FieldError, FieldReason};
use crate::table::{AGE, Column, Columns, NAME, age, boolean, column, name};

const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

pub(super) fn spec(plural: &str) -> Option<Spec> {
    Some(match plural {
        "storageclasses" => storage_class(),
        "volumeattachments" => volume_attachment(),
        "csidrivers" => csi_driver(),
        "csinodes" => csi_node(),
        "csistoragecapacities" => Spec {
            warnings: super::warnings::storage_capacity,
            unconditional: false,
            revalidates: true,
            validate: capacity,
            validate_update: |old, new| {
                let mut out = Vec::new();
                for key in ["nodeTopology", "storageClassName"] {
                    immutable(&mut out, key, &old[key], &new[key]);
                }
                out
            },
            ..Spec::new()
        },
        "volumeattributesclasses" => attributes_class(),
        _ => return None,
    })
}

fn capacity(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    label_selector(&mut out, &object["nodeTopology"], "nodeTopology");
    let class = text(object, "storageClassName");
    invalid_all(&mut out, "storageClassName", &json!(class), names::subdomain(class));
    if quantity(&object["capacity"]).is_negative() {
        let detail = "must be greater than or equal to 0";
        out.push(FieldError::invalid("capacity", &object["capacity"], detail));
    }
    out
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
        warnings: super::warnings::storage_class,
        returns_deleted: true,
        revalidates: true,
        default: |object| {
            fill_null(object, "reclaimPolicy", "Delete");
            fill_null(object, "volumeBindingMode", "Immediate");
        },
        validate: |object| {
            let mut out = Vec::new();
            if text(object, "provisioner").is_empty() {
                out.push(FieldError::required("provisioner", ""));
            } else {
                let provisioner = text(object, "provisioner").to_lowercase();
                let messages = names::qualified_name(&provisioner);
                invalid_all(&mut out, "provisioner", &json!(provisioner), messages);
            }
            parameters(&mut out, object, false);
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
            topologies(&mut out, object);
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

/// Parameters of a class: not too many, not too long, none without a name.
fn parameters(out: &mut Vec<FieldError>, object: &Value, needed: bool) {
    const MAX: usize = 512;
    const MAX_SIZE: usize = 256 * 1024;
    let all = || entries(object, "parameters");
    if all().count() > MAX {
        out.push(FieldError::too_long("Provisioner Parameters Length", MAX));
        return;
    }
    if needed && all().next().is_none() {
        out.push(FieldError::required("parameters", "must contain at least one key/value pair"));
    }
    for (key, _) in all().filter(|(key, _)| key.is_empty()) {
        out.push(FieldError::invalid("parameters", &json!(key), "field can not be empty."));
    }
    let size: usize = all().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > MAX_SIZE {
        out.push(FieldError::too_long("parameters", MAX_SIZE));
    }
}

fn topologies(out: &mut Vec<FieldError>, object: &Value) {
    let terms = items(object, "allowedTopologies");
    for (i, term) in terms.iter().enumerate() {
        let here = format!("allowedTopologies[{i}]");
        let all = items(term, "matchLabelExpressions");
        for (j, it) in all.iter().enumerate() {
            let at = format!("{here}.matchLabelExpressions[{j}]");
            let (key, values) = (text(it, "key"), items(it, "values"));
            if values.is_empty() {
                out.push(FieldError::required(format!("{at}.values"), ""));
            }
            for (k, value) in values.iter().enumerate().filter(|(k, v)| values[..*k].contains(v)) {
                out.push(FieldError::duplicate(format!("{at}.values[{k}]"), value));
            }
            invalid_all(out, &format!("{at}.key"), &json!(key), names::qualified_name(key));
            if all[..j].iter().any(|other| text(other, "key") == key) {
                out.push(FieldError::duplicate(format!("{at}.key"), &json!(key)));
            }
        }
        // An empty term also counts as equal to each place that the real server's list was made with.
        let empty_places = if all.is_empty() { terms.len() } else { 0 };
        let same = |other: &&Value| items(other, "matchLabelExpressions") == all;
        for _ in 0..terms[..i].iter().filter(same).count() + empty_places {
            out.push(FieldError::duplicate(format!("{here}.matchLabelExpressions"), &json!("")));
        }
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
        checks_meta: false,
        revalidates: true,
        status_meta: StatusMeta::KeepAll,
        validate: |object| {
            let mut out = Vec::new();
            let spec = &object["spec"];
            driver_name(&mut out, text(spec, "attacher"), "spec.attacher");
            let source = &spec["source"];
            let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
            match (source["persistentVolumeName"].is_null(), source["inlineVolumeSpec"].is_null()) {
                (true, true) => out.push(FieldError::required("spec.source", detail)),
                (false, false) => out.push(FieldError::forbidden("spec.source", detail)),
                _ => {}
            }
            let node = text(spec, "nodeName");
            invalid_all(&mut out, "spec.nodeName", &json!(node), names::subdomain(node));
            out
        },
        validate_update: |old, new| {
            let mut out = Vec::new();
            if old["spec"] != new["spec"] {
                let spec = &new["spec"];
                let source =
                    internal::capitalised(&["persistentVolumeName", "inlineVolumeSpec"], &spec["source"]);
                let message = format!(
                    "Invalid value: {{\"Attacher\":{},\"Source\":{source},\"NodeName\":{}}}: field is immutable",
                    json!(text(spec, "attacher")),
                    json!(text(spec, "nodeName"))
                );
                out.push(FieldError::raw(FieldReason::Invalid, "spec", message));
            }
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
        generation: super::spec::Generation::SpecChanges,
        validate: |object| {
            let mut out = Vec::new();
            if matches!(text(&object["metadata"], "name").len(), 64..=253) {
                out.push(FieldError::too_long("metadata.name", 63));
            }
            driver_spec(&mut out, &object["spec"]);
            out
        },
        validate_update: |old, new| {
            let mut out = Vec::new();
            let (before, after) = (&old["spec"], &new["spec"]);
            for (key, shown) in
                [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")]
            {
                immutable(&mut out, &format!("spec.{shown}"), &before[key], &after[key]);
            }
            out
        },
        warnings: |old, new| {
            let spec = &new["spec"];
            let same = old.is_some_and(|old| old["spec"]["tokenRequests"] == spec["tokenRequests"]);
            if same
                || items(spec, "tokenRequests").is_empty()
                || !spec["serviceAccountTokenInSecrets"].is_null()
            {
                return Vec::new();
            }
            vec!["spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes".into()]
        },
        default: |object| {
            let spec = child(object, "spec");
            fill(spec, "attachRequired", true);
            fill(spec, "podInfoOnMount", false);
            fill(spec, "storageCapacity", false);
            fill_null(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
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

fn driver_spec(out: &mut Vec<FieldError>, spec: &Value) {
    let policies = ["File", "None", "ReadWriteOnceWithFSType"];
    known(out, &spec["fsGroupPolicy"], "spec.fsGroupPolicy", &policies);
    let tokens = items(spec, "tokenRequests");
    for (i, token) in tokens.iter().enumerate() {
        let here = format!("spec.tokenRequests[{i}]");
        if tokens[..i].iter().any(|t| text(t, "audience") == text(token, "audience")) {
            out.push(FieldError::duplicate(format!("{here}.audience"), &json!(text(token, "audience"))));
            continue;
        }
        let seconds = &token["expirationSeconds"];
        for (wrong, detail) in [
            (seconds.as_i64().is_some_and(|s| s < 600), "may not specify a duration less than 10 minutes"),
            (
                seconds.as_i64().is_some_and(|s| s > 1 << 32),
                "may not specify a duration larger than 2^32 seconds",
            ),
        ] {
            if wrong {
                out.push(FieldError::invalid(format!("{here}.expirationSeconds"), seconds, detail));
            }
        }
    }
    for mode in items(spec, "volumeLifecycleModes") {
        known(out, mode, "spec.volumeLifecycleModes", &["Persistent", "Ephemeral"]);
    }
    let period = &spec["nodeAllocatableUpdatePeriodSeconds"];
    if period.as_i64().is_some_and(|seconds| seconds < 10) {
        let detail = "must be greater than or equal to 10 seconds";
        out.push(FieldError::invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, detail));
    }
}

fn node_drivers(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let all = items(&object["spec"], "drivers");
    for (i, driver) in all.iter().enumerate() {
        let here = format!("spec.drivers[{i}]");
        let name = text(driver, "name");
        driver_name(&mut out, name, &format!("{here}.name"));
        match text(driver, "nodeID") {
            "" => out.push(FieldError::required(format!("{here}.nodeID"), "")),
            id if id.len() > 256 => {
                let detail = "must be 256 characters or less";
                out.push(FieldError::invalid(format!("{here}.nodeID"), &json!(id), detail));
            }
            _ => {}
        }
        let count = super::value::int(&driver["allocatable"], "count");
        super::meta::non_negative(&mut out, &format!("{here}.allocatable.count"), count);
        if !name.is_empty() && all[..i].iter().any(|d| text(d, "name") == name) {
            out.push(FieldError::duplicate(format!("{here}.name"), &json!(name)));
        }
        let keys = items(driver, "topologyKeys");
        for (j, key) in keys.iter().enumerate() {
            if keys[..j].contains(key) {
                out.push(FieldError::duplicate(&here, key));
            }
            invalid_all(&mut out, &here, key, names::qualified_name(key.as_str().unwrap_or("")));
        }
    }
    out
}

fn csi_node() -> Spec {
    const COLUMNS: &[Column] =
        &[NAME, Column { name: "Drivers", ty: "integer", format: "", priority: 0 }, AGE];
    Spec {
        returns_deleted: true,
        unconditional: false,
        checks_meta: false,
        revalidates: true,
        validate: node_drivers,
        validate_update: |old, new| {
            // A driver may come and go, but it does not change.
            let before = items(&old["spec"], "drivers");
            let changed = |after: &&Value| {
                before.iter().any(|b| {
                    b["name"] == after["name"] && {
                        ["nodeID", "topologyKeys"].iter().any(|key| b[*key] != after[*key])
                    }
                })
            };
            let refuse = |driver: &Value| {
                let fields = ["name", "nodeID", "topologyKeys", "allocatable"];
                let shown = internal::capitalised(&fields, driver);
                let message = format!("Invalid value: {shown}: field is immutable");
                FieldError::raw(FieldReason::Invalid, "spec.drivers", message)
            };
            items(&new["spec"], "drivers").iter().filter(changed).map(refuse).collect()
        },
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
            parameters(&mut out, object, true);
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
