//! Node.

use serde_json::{Value, json};

use super::meta::invalid_all;
use super::names;
use super::resources::amount_of;
use super::spec::{Order, Spec};
use super::value::{child, empty, entries, flag, items, set, text};
use crate::status::{FieldError, FieldReason};
use crate::table::{AGE, Column, Columns, NAME, age, column, name, wide};

pub(super) fn spec() -> Spec {
    Spec {
        warnings: super::warnings::node,
        keeps_status: true,
        revalidates: true,
        order: Order::New,
        default: |object| {
            // A node that says nothing of what pods may use lets them use all.
            let status = child(object, "status");
            if empty(&status["allocatable"]) {
                copy_capacity(status);
            }
            pod_cidrs(object);
        },
        validate,
        validate_update: |old, new| {
            // Taints are looked at both as those of a node and as a change.
            let mut out = taints(&new["spec"]);
            out.append(&mut change(old, new));
            out
        },
        validate_sub: |_, old, new| {
            let mut out = amounts(&new["status"]);
            out.append(&mut change(old, new));
            out.append(&mut taints(&new["spec"]));
            out
        },
        field_names: &["spec.unschedulable"],
        fields: |object| vec![("spec.unschedulable", flag(&object["spec"], "unschedulable").to_string())],
        columns: Columns::Own(COLUMNS, cells),
        ..Spec::new()
    }
}

/// What may not be changed.
fn change(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let (before, after) = (&old["spec"], &new["spec"]);
    if !empty(&before["podCIDRs"]) && before["podCIDRs"] != after["podCIDRs"] {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        out.push(FieldError::forbidden("spec.podCIDRs", detail));
    }
    let id = text(before, "providerID");
    if !id.is_empty() && id != text(after, "providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        out.push(FieldError::forbidden("spec.providerID", detail));
    }
    out
}

/// Amounts of resources that no node can have.
fn amounts(status: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    for list in ["capacity", "allocatable"] {
        for (resource, amount) in entries(status, list) {
            amount_of(&mut out, resource, amount, &format!("status.{list}.{resource}"));
        }
    }
    out
}

fn copy_capacity(status: &mut Value) {
    let capacity = status["capacity"].clone();
    if !empty(&capacity) {
        set(status, "allocatable", capacity);
    }
}

/// The older single field and the first of the list are one; where they differ, the field counts.
fn pod_cidrs(object: &mut Value) {
    let spec = child(object, "spec");
    let single = text(spec, "podCIDR").to_owned();
    match items(spec, "podCIDRs").first().cloned() {
        Some(first) if single.is_empty() => set(spec, "podCIDR", first),
        Some(first) if first == *single => {}
        _ if single.is_empty() => {}
        _ => set(spec, "podCIDRs", vec![json!(single)]),
    }
}

fn taints(spec: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (i, taint) in items(spec, "taints").iter().enumerate() {
        let here = format!("metadata.taints[{i}]");
        let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        invalid_all(&mut out, &format!("{here}.key"), &json!(key), names::qualified_name(key));
        invalid_all(&mut out, &format!("{here}.value"), &json!(value), names::label_value(value));
        let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if effect.is_empty() {
            out.push(FieldError::required(format!("{here}.effect"), ""));
        } else if !known.contains(&effect) {
            let field = format!("{here}.effect");
            out.push(FieldError::not_supported(field, &json!(effect), &known));
        }
        if seen.contains(&(key, effect)) {
            let message = format!(
                "Duplicate value: {{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":{}}}: taints must be unique by key and effect pair",
                json!(key),
                json!(value),
                json!(effect),
                taint["timeAdded"]
            );
            out.push(FieldError::raw(FieldReason::Duplicate, &here, message));
        }
        seen.push((key, effect));
    }
    out
}

fn validate(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut out = taints(spec);
    out.append(&mut amounts(&object["status"]));
    let ranges = items(spec, "podCIDRs");
    for (i, range) in ranges.iter().enumerate() {
        super::ip_text::range(&mut out, range.as_str().unwrap_or(""), &format!("spec.podCIDRs[{i}]"));
    }
    let six = ranges.iter().filter(|r| r.as_str().is_some_and(|r| r.contains(':'))).count();
    if ranges.len() > 2 || (ranges.len() == 2 && six != 1) {
        let detail = "may specify no more than one CIDR for each IP family";
        out.push(FieldError::invalid("spec.podCIDRs", &json!(ranges), detail));
    }
    out
}

const COLUMNS: &[Column] = &[
    NAME,
    column("Status"),
    column("Roles"),
    AGE,
    column("Version"),
    wide("Internal-IP"),
    wide("External-IP"),
    wide("OS-Image"),
    wide("Kernel-Version"),
    wide("Container-Runtime"),
];

fn cells(object: &Value, now: &str) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let ready = items(status, "conditions").iter().find(|c| text(c, "type") == "Ready");
    let mut state = match ready.map(|c| text(c, "status")) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if flag(spec, "unschedulable") {
        state.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<String> = entries(&object["metadata"], "labels")
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) if !role.is_empty() => Some(role.to_owned()),
            None if key == "kubernetes.io/role" => value.as_str().map(str::to_owned),
            _ => None,
        })
        .collect();
    roles.sort();
    roles.dedup();
    let roles = if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") };
    let address = |ty: &str| {
        let found = items(status, "addresses").iter().find(|a| text(a, "type") == ty);
        json!(found.map_or("<none>", |a| text(a, "address")))
    };
    let info = |key: &str| {
        let value = text(&status["nodeInfo"], key);
        json!(if value.is_empty() { "<unknown>" } else { value })
    };
    // With the architecture, where it is told.
    let kernel = match text(&status["nodeInfo"], "architecture") {
        "" => info("kernelVersion"),
        architecture => json!(format!("{} ({architecture})", info("kernelVersion").as_str().unwrap_or(""))),
    };
    vec![
        name(object),
        json!(state),
        json!(roles),
        age(object, now),
        json!(text(&status["nodeInfo"], "kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        kernel,
        info("containerRuntimeVersion"),
    ]
}
