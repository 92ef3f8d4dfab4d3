//! Checks of group `resource.k8s.io`: claims, their templates, classes and slices of devices.

use serde_json::{Value, json};

use super::internal;
use super::meta::{immutable, invalid_all, labels};
use super::names;
use super::value::{empty, entries, flag, int, items, text};
use super::volume_sources::known;
use crate::expression::{Kind, kind_of};
use crate::status::{FieldError, FieldReason};

const IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";

/// Checks the spec of a claim at `path`.
pub(super) fn claim_spec(out: &mut Vec<FieldError>, spec: &Value, path: &str) {
    let devices = &spec["devices"];
    let here = format!("{path}.devices");
    let requests = items(devices, "requests");
    let mut known_names: Vec<String> = Vec::new();
    for (i, request) in requests.iter().enumerate() {
        let at = format!("{here}.requests[{i}]");
        let name = text(request, "name");
        invalid_all(out, &format!("{at}.name"), &json!(name), names::label(name));
        known_names.push(name.to_owned());
        let (exactly, first) = (&request["exactly"], items(request, "firstAvailable"));
        match (exactly.is_null(), first.is_empty()) {
            (true, true) => {
                let detail = "exactly one of `exactly` or `firstAvailable` is required";
                out.push(FieldError::required(&at, detail));
            }
            (false, false) => {
                let detail =
                    "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
                out.push(FieldError::invalid(&at, &Value::Null, detail));
            }
            (false, true) => one_request(out, exactly, &format!("{at}.exactly")),
            (true, false) => {
                for (j, sub) in first.iter().enumerate() {
                    let at = format!("{at}.firstAvailable[{j}]");
                    let inner = text(sub, "name");
                    invalid_all(out, &format!("{at}.name"), &json!(inner), names::label(inner));
                    known_names.push(format!("{name}/{inner}"));
                    one_request(out, sub, &at);
                }
                repeated_names(out, first, &format!("{at}.firstAvailable"));
            }
        }
    }
    repeated_names(out, requests, &format!("{here}.requests"));
    for (i, constraint) in items(devices, "constraints").iter().enumerate() {
        let at = format!("{here}.constraints[{i}]");
        about_requests(out, constraint, &known_names, &at);
        match constraint["matchAttribute"].as_str() {
            Some(attribute) => fully_qualified(out, attribute, &format!("{at}.matchAttribute")),
            None if constraint["distinctAttribute"].is_null() => {
                let detail = "exactly one of matchAttribute or distinctAttribute is required";
                out.push(FieldError::required(format!("{at}.matchAttribute"), detail));
            }
            None => {}
        }
    }
    for (i, config) in items(devices, "config").iter().enumerate() {
        let at = format!("{here}.config[{i}]");
        about_requests(out, config, &known_names, &at);
        opaque(out, config, &at);
    }
}

fn repeated_names(out: &mut Vec<FieldError>, all: &[Value], path: &str) {
    for (i, it) in all.iter().enumerate() {
        if all[..i].iter().any(|other| text(other, "name") == text(it, "name")) {
            out.push(FieldError::duplicate(format!("{path}[{i}]"), &json!(text(it, "name"))));
        }
    }
}

fn about_requests(out: &mut Vec<FieldError>, of: &Value, known_names: &[String], path: &str) {
    let all = items(of, "requests");
    for (i, name) in all.iter().enumerate() {
        let field = format!("{path}.requests[{i}]");
        if all[..i].contains(name) {
            out.push(FieldError::duplicate(&field, name));
        }
        if !known_names.iter().any(|known| known == name.as_str().unwrap_or("")) {
            let detail = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
            out.push(FieldError::invalid(field, name, detail));
        }
    }
}

fn one_request(out: &mut Vec<FieldError>, request: &Value, path: &str) {
    let at = |key: &str| format!("{path}.{key}");
    let class = text(request, "deviceClassName");
    if class.is_empty() {
        out.push(FieldError::required(at("deviceClassName"), ""));
    } else {
        invalid_all(out, &at("deviceClassName"), &json!(class), names::subdomain(class));
    }
    selectors(out, request, path);
    let count = int(request, "count");
    match text(request, "allocationMode") {
        "All" if count != 0 => {
            let detail = "must not be specified when allocationMode is 'All'";
            out.push(FieldError::invalid(at("count"), &json!(count), detail));
        }
        "ExactCount" if count <= 0 => {
            out.push(FieldError::invalid(at("count"), &json!(count), "must be greater than zero"));
        }
        "All" | "ExactCount" => {}
        other => {
            let modes = ["All", "ExactCount"];
            out.push(FieldError::not_supported(at("allocationMode"), &json!(other), &modes));
        }
    }
    for (i, toleration) in items(request, "tolerations").iter().enumerate() {
        self::toleration(out, toleration, &at(&format!("tolerations[{i}]")));
    }
}

fn toleration(out: &mut Vec<FieldError>, toleration: &Value, path: &str) {
    let at = |key: &str| format!("{path}.{key}");
    let key = text(toleration, "key");
    if !key.is_empty() {
        invalid_all(out, &at("key"), &json!(key), names::qualified_name(key));
    }
    let value = text(toleration, "value");
    match text(toleration, "operator") {
        "Exists" if !value.is_empty() => {
            let detail = "must be empty for operator `Exists`";
            out.push(FieldError::invalid(at("value"), &json!(value), detail));
        }
        "Exists" => {}
        "Equal" => invalid_all(out, &at("value"), &json!(value), names::label_value(value)),
        "" => out.push(FieldError::required(at("operator"), "")),
        other => out.push(FieldError::not_supported(at("operator"), &json!(other), &["Equal", "Exists"])),
    }
    known(out, &toleration["effect"], &at("effect"), &["NoExecute", "NoSchedule", "None"]);
}

/// Expressions that choose devices.
fn selectors(out: &mut Vec<FieldError>, of: &Value, path: &str) {
    for (i, selector) in items(of, "selectors").iter().enumerate() {
        let field = format!("{path}.selectors[{i}].cel");
        if selector["cel"].is_null() {
            out.push(FieldError::required(field, ""));
            continue;
        }
        let source = text(&selector["cel"], "expression");
        let detail = match kind_of(source, &[("device", Kind::Unknown)]) {
            Ok(Kind::Bool | Kind::Dyn | Kind::Unknown) => None,
            Ok(other) => Some(format!("must evaluate to bool or the unknown type, not {other}")),
            Err(mistake) => Some(mistake),
        };
        if let Some(detail) = detail {
            out.push(FieldError::invalid(format!("{field}.expression"), &json!(source), &detail));
        }
    }
}

fn opaque(out: &mut Vec<FieldError>, config: &Value, path: &str) {
    let (opaque, here) = (&config["opaque"], format!("{path}.opaque"));
    if opaque.is_null() {
        return out.push(FieldError::required(here, ""));
    }
    driver(out, text(opaque, "driver"), &format!("{here}.driver"));
    if opaque["parameters"].is_null() {
        out.push(FieldError::required(format!("{here}.parameters"), ""));
    }
}

fn driver(out: &mut Vec<FieldError>, name: &str, field: &str) {
    const MAX: usize = 63;
    if name.is_empty() {
        out.push(FieldError::required(field, ""));
    } else if name.len() > MAX {
        out.push(FieldError::too_long(field, MAX));
    } else {
        invalid_all(out, field, &json!(name), names::subdomain(name));
    }
}

fn identifier(out: &mut Vec<FieldError>, name: &str, value: &str, field: &str) {
    let mut letters = name.chars();
    let first = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    if !first || !letters.all(|c| c.is_ascii_alphanumeric() || c == '_') {
        out.push(FieldError::invalid(field, &json!(value), IDENTIFIER));
    }
}

/// The name of an attribute, with the domain it belongs to where it has one.
fn qualified(out: &mut Vec<FieldError>, name: &str, field: &str) {
    match name.split_once('/') {
        None => identifier(out, name, name, field),
        Some((domain, rest)) => {
            if domain.is_empty() {
                out.push(FieldError::required(field, "the domain must not be empty"));
            } else {
                invalid_all(out, field, &json!(domain), names::subdomain(domain));
            }
            if rest.is_empty() {
                out.push(FieldError::required(field, "the name must not be empty"));
            } else {
                identifier(out, rest, rest, field);
            }
        }
    }
}

fn fully_qualified(out: &mut Vec<FieldError>, name: &str, field: &str) {
    qualified(out, name, field);
    if !name.contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        out.push(FieldError::invalid(field, &json!(name), detail));
    }
}

/// Checks a claim.
pub(super) fn claim(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    claim_spec(&mut out, &object["spec"], "spec");
    out
}

/// A spec may not change; `ty` is its internal type.
fn fixed_spec(ty: &str, old: &Value, new: &Value) -> Vec<FieldError> {
    if old["spec"] == new["spec"] {
        return Vec::new();
    }
    let shown = internal::shown(ty, &new["spec"]);
    let message = format!("Invalid value: {shown}: field is immutable");
    vec![FieldError::raw(FieldReason::Invalid, "spec", message)]
}

/// Checks the change of a claim.
pub(super) fn claim_change(old: &Value, new: &Value) -> Vec<FieldError> {
    fixed_spec("ResourceClaimSpec", old, new)
}

/// Checks a template of claims.
pub(super) fn template(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    labels(&mut out, &object["spec"]["metadata"], "labels", "spec.metadata.labels");
    claim_spec(&mut out, &object["spec"]["spec"], "spec.spec");
    out
}

/// Checks the change of a template.
pub(super) fn template_change(old: &Value, new: &Value) -> Vec<FieldError> {
    fixed_spec("ResourceClaimTemplateSpec", old, new)
}

/// Checks the status of a claim.
pub(super) fn claim_status(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let status = &new["status"];
    let (reserved, allocation) = (items(status, "reservedFor"), &status["allocation"]);
    if !reserved.is_empty() && allocation.is_null() {
        let detail = "may not be specified when `allocated` is not set";
        out.push(FieldError::forbidden("status.reservedFor", detail));
    } else {
        for (i, consumer) in reserved.iter().enumerate() {
            for key in ["resource", "name", "uid"] {
                if text(consumer, key).is_empty() {
                    out.push(FieldError::required(format!("status.reservedFor[{i}].{key}"), ""));
                }
            }
        }
        for (i, consumer) in reserved.iter().enumerate() {
            let uid = text(consumer, "uid");
            if reserved[..i].iter().any(|other| text(other, "uid") == uid) {
                out.push(FieldError::duplicate(format!("status.reservedFor[{i}]"), &json!(uid)));
            }
        }
    }
    let before = &old["status"]["allocation"];
    if !before.is_null() && !allocation.is_null() && before != allocation {
        let shown = internal::shown("AllocationResult", allocation);
        let message = format!("Invalid value: {shown}: field is immutable");
        out.push(FieldError::raw(FieldReason::Invalid, "status.allocation", message));
    }
    out
}

/// Checks a class of devices.
pub(super) fn class(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = &object["spec"];
    selectors(&mut out, spec, "spec");
    for (i, config) in items(spec, "config").iter().enumerate() {
        opaque(&mut out, config, &format!("spec.config[{i}]"));
    }
    if let Some(resource) = spec["extendedResourceName"].as_str() {
        if !resource.contains('/') || !names::qualified_name(resource).is_empty() {
            let detail = "must be a valid extended resource name";
            out.push(FieldError::invalid("spec.extendedResourceName", &json!(resource), detail));
        }
    }
    out
}

/// Checks a slice of devices.
pub(super) fn slice(object: &Value) -> Vec<FieldError> {
    const MAX_DEVICES: usize = 128;
    let mut out = Vec::new();
    let spec = &object["spec"];
    driver(&mut out, text(spec, "driver"), "spec.driver");
    pool(&mut out, &spec["pool"]);
    let chosen: Vec<String> = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"]
        .into_iter()
        .filter(|key| !empty(&spec[*key]) && spec[*key] != false && spec[*key] != "")
        .map(|key| format!("`{key}`"))
        .collect();
    const ONE: &str =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match chosen.len() {
        0 => out.push(FieldError::required("spec", ONE)),
        1 => {}
        _ => {
            let shown = format!("{{{}}}", chosen.join(", "));
            out.push(FieldError::invalid(
                "spec",
                &json!(shown),
                &format!("{ONE}, but multiple fields are set"),
            ));
        }
    }
    let devices = items(spec, "devices");
    if devices.len() > MAX_DEVICES {
        out.push(FieldError::too_many("spec.devices", devices.len(), MAX_DEVICES));
    }
    for (i, device) in devices.iter().enumerate() {
        let here = format!("spec.devices[{i}]");
        let name = text(device, "name");
        invalid_all(&mut out, &format!("{here}.name"), &json!(name), names::label(name));
        attributes(&mut out, device, &format!("{here}.attributes"));
        for (name, _) in entries(device, "capacity") {
            qualified(&mut out, name, &format!("{here}.capacity"));
        }
    }
    repeated_names(&mut out, devices, "spec.devices");
    out
}

fn pool(out: &mut Vec<FieldError>, pool: &Value) {
    let name = text(pool, "name");
    if name.is_empty() {
        out.push(FieldError::required("spec.pool.name", ""));
    }
    for segment in name.split('/').filter(|_| !name.is_empty()) {
        invalid_all(out, "spec.pool.name", &json!(segment), names::subdomain(segment));
    }
    let count = int(pool, "resourceSliceCount");
    if count <= 0 {
        let field = "spec.pool.resourceSliceCount";
        out.push(FieldError::invalid(field, &json!(count), "must be greater than zero"));
    }
    let generation = int(pool, "generation");
    if generation < 0 {
        let detail = "must be greater than or equal to zero";
        out.push(FieldError::invalid("spec.pool.generation", &json!(generation), detail));
    }
}

fn attributes(out: &mut Vec<FieldError>, device: &Value, path: &str) {
    const VALUES: [(&str, &str); 4] =
        [("int", "IntValue"), ("bool", "BoolValue"), ("string", "StringValue"), ("version", "VersionValue")];
    for (name, attribute) in entries(device, "attributes") {
        qualified(out, name, path);
        let set = VALUES.iter().filter(|(key, _)| !attribute[*key].is_null()).count();
        let field = format!("{path}[{name}]");
        let detail = "exactly one value must be specified";
        if set == 0 {
            out.push(FieldError::invalid(field, &json!(""), detail));
        } else if set > 1 {
            let single = VALUES.iter().map(|(key, shown)| format!("\"{shown}\":{}", attribute[*key]));
            let lists = ["IntValues", "BoolValues", "StringValues", "VersionValues"];
            let all: Vec<String> =
                single.chain(lists.iter().map(|shown| format!("\"{shown}\":null"))).collect();
            let message = format!("Invalid value: {{{}}}: {detail}", all.join(","));
            out.push(FieldError::raw(FieldReason::Invalid, field, message));
        }
    }
}

/// Checks the change of a slice.
pub(super) fn slice_change(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let (before, after) = (&old["spec"], &new["spec"]);
    immutable(&mut out, "spec.driver", &before["driver"], &after["driver"]);
    let name = |spec: &Value| spec["pool"]["name"].clone();
    immutable(&mut out, "spec.pool.name", &name(before), &name(after));
    immutable(&mut out, "spec.nodeName", &before["nodeName"], &after["nodeName"]);
    let everywhere = |spec: &Value| json!(flag(spec, "allNodes"));
    immutable(&mut out, "spec.allNodes", &everywhere(before), &everywhere(after));
    out
}
