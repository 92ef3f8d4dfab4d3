//! Checks of pods and pod templates.

use serde_json::{Value, json};

use super::meta::{invalid_all, labels};
use super::pod_scheduling::{affinity, tolerations, topology};
use super::value::{empty, entries, int, items, text};
use super::volume_sources::{self, Owner};
use super::{internal, names, pod_annotations, pod_containers, pod_dns, pod_security, resources};
use crate::status::{FieldError, FieldReason};

const PORT: &str = "must be between 1 and 65535, inclusive";

/// Checks a `PodTemplateSpec` at `path`.
pub fn template(out: &mut Vec<FieldError>, template: &Value, path: &str) {
    template_metadata(out, template, path);
    let (metadata, inner) = (&template["metadata"], format!("{path}.spec"));
    spec(out, &template["spec"], &inner);
    pod_annotations::app_armor_agrees(out, metadata, &template["spec"], &inner);
    if !empty(&template["spec"]["ephemeralContainers"]) {
        let field = format!("{path}.spec.ephemeralContainers");
        out.push(FieldError::forbidden(field, "ephemeral containers not allowed in pod template"));
    }
}

/// Checks labels and annotations of a `PodTemplateSpec` at `path`.
pub(super) fn template_metadata(out: &mut Vec<FieldError>, template: &Value, path: &str) {
    labels(out, &template["metadata"], "labels", &format!("{path}.labels"));
    for key in template["metadata"]["annotations"].as_object().into_iter().flatten().map(|a| a.0) {
        let messages = names::qualified_name(&key.to_lowercase());
        invalid_all(out, &format!("{path}.annotations"), &json!(key), messages);
    }
    pod_annotations::cost(out, &template["metadata"], &format!("{path}.annotations"));
    let annotations = format!("{path}.annotations");
    pod_annotations::app_armor(out, &template["metadata"], &template["spec"], &annotations);
}

/// A pod while it is checked.
pub(super) struct PodView<'a> {
    /// Its spec.
    pub(super) spec: &'a Value,
    /// Where that is.
    pub(super) path: &'a str,
    /// Volumes with nothing wrong about them; only these can be mounted.
    pub(super) volumes: Vec<&'a Value>,
}

/// Checks the `PodSpec` of a pod.
pub fn pod(out: &mut Vec<FieldError>, pod: &Value) {
    check(out, &pod["spec"], "spec", Some(text(&pod["metadata"], "name")));
    pod_containers::padded_images(out, &pod["spec"], "spec");
}

/// Checks the `PodSpec` of a template at `path`.
pub fn spec(out: &mut Vec<FieldError>, spec: &Value, path: &str) {
    check(out, spec, path, None);
}

fn check(out: &mut Vec<FieldError>, spec: &Value, path: &str, pod: Option<&str>) {
    let view = PodView { spec, path, volumes: volumes(out, spec, path, pod) };
    claims(out, spec, path);
    pod_containers::regular(out, &view);
    pod_containers::init(out, &view);
    pod_containers::ephemeral(out, &view);
    if !spec["resources"].is_null() {
        resources::of_pod(out, spec, &format!("{path}.resources"));
    }
    host_ports(out, spec, path, pod.is_some());
    one_of(out, spec, path, "restartPolicy", &["Always", "OnFailure", "Never"]);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(out, spec, path, "dnsPolicy", &policies);
    labels(out, spec, "nodeSelector", &format!("{path}.nodeSelector"));
    pod_security::pod(out, spec, path);
    affinity(out, &spec["affinity"], &format!("{path}.affinity"));
    pod_dns::config(out, spec, path);
    gates(out, spec, path);
    topology(out, spec, path);
    pod_security::host_processes(out, spec, path);
    pod_security::host_users(out, spec, path);
    pod_dns::hostname_override(out, spec, path);
    named(out, spec, path, "serviceAccountName", names::subdomain);
    named(out, spec, path, "nodeName", names::subdomain);
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64() {
        if !(1..=i64::from(i32::MAX)).contains(&seconds) {
            let detail = "must be between 1 and 2147483647, inclusive";
            let field = format!("{path}.activeDeadlineSeconds");
            out.push(FieldError::invalid(field, &json!(seconds), detail));
        }
    }
    named(out, spec, path, "hostname", names::label);
    named(out, spec, path, "subdomain", names::label);
    tolerations(out, spec, path);
    pod_dns::aliases(out, spec, path);
    named(out, spec, path, "priorityClassName", names::subdomain);
    if let Some(class) = spec["runtimeClassName"].as_str() {
        invalid_all(out, &format!("{path}.runtimeClassName"), &json!(class), names::subdomain(class));
    }
    if !spec["preemptionPolicy"].is_null() {
        one_of(out, spec, path, "preemptionPolicy", &["PreemptLowerPriority", "Never"]);
    }
    if !spec["overhead"].is_null() {
        let limits = json!({"limits": spec["overhead"]});
        resources::requirements(out, &limits, &format!("{path}.overhead"));
    }
    pod_security::operating_system(out, spec, path);
}

fn named(out: &mut Vec<FieldError>, spec: &Value, path: &str, key: &str, rule: fn(&str) -> Vec<String>) {
    let name = text(spec, key);
    if !name.is_empty() {
        invalid_all(out, &format!("{path}.{key}"), &json!(name), rule(name));
    }
}

fn gates(out: &mut Vec<FieldError>, spec: &Value, path: &str) {
    for (i, gate) in items(spec, "readinessGates").iter().enumerate() {
        let field = format!("{path}.readinessGates[{i}].conditionType");
        let ty = text(gate, "conditionType");
        invalid_all(out, &field, &json!(ty), names::qualified_name(ty));
    }
    let all = items(spec, "schedulingGates");
    for (i, gate) in all.iter().enumerate() {
        let field = format!("{path}.schedulingGates[{i}]");
        let name = text(gate, "name");
        invalid_all(out, &field, &json!(name), names::qualified_name(name));
        if all[..i].contains(gate) {
            out.push(FieldError::duplicate(field, &json!(name)));
        }
    }
}

fn claims(out: &mut Vec<FieldError>, spec: &Value, path: &str) {
    let all = items(spec, "resourceClaims");
    for (i, claim) in all.iter().enumerate() {
        let here = format!("{path}.resourceClaims[{i}]");
        let field = format!("{here}.name");
        match text(claim, "name") {
            "" => out.push(FieldError::required(field, "")),
            name if all[..i].iter().any(|c| text(c, "name") == name) => {
                out.push(FieldError::duplicate(field, &json!(name)));
            }
            name => invalid_all(out, &field, &json!(name), names::label(name)),
        }
        let keys = ["resourceClaimName", "resourceClaimTemplateName"];
        let mut refuse = |detail: &str| {
            let shown = internal::shown("PodResourceClaim", claim);
            let message = format!("Invalid value: {shown}: {detail}");
            out.push(FieldError::raw(FieldReason::Invalid, &here, message));
        };
        match keys.map(|key| claim[key].is_null()) {
            [false, false] => {
                refuse("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified");
            }
            [true, true] => {
                refuse("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`");
            }
            _ => {}
        }
        for key in keys {
            if let Some(name) = claim[key].as_str() {
                invalid_all(out, &format!("{here}.{key}"), &json!(name), names::subdomain(name));
            }
        }
    }
}

/// A field that must be one of a few values.
pub fn one_of(out: &mut Vec<FieldError>, parent: &Value, path: &str, key: &str, known: &[&str]) {
    let value = text(parent, key);
    if value.is_empty() {
        out.push(FieldError::required(format!("{path}.{key}"), ""));
    } else if !known.contains(&value) {
        out.push(FieldError::not_supported(format!("{path}.{key}"), &json!(value), known));
    }
}

fn volumes<'a>(out: &mut Vec<FieldError>, spec: &'a Value, path: &str, pod: Option<&str>) -> Vec<&'a Value> {
    let all = items(spec, "volumes");
    let pod = pod.filter(|name| !name.is_empty());
    let claim_of = |volume: &Value| pod.map(|pod| format!("{pod}-{}", text(volume, "name")));
    let mut sound: Vec<&Value> = Vec::new();
    for (i, volume) in all.iter().enumerate() {
        let here = format!("{path}.volumes[{i}]");
        let mut wrong = Vec::new();
        volume_sources::check(&mut wrong, volume, &here, Owner::Pod);
        let field = format!("{here}.name");
        let name = text(volume, "name");
        if let (Some(claim), false) = (claim_of(volume), volume["ephemeral"].is_null() || name.is_empty()) {
            for message in names::subdomain(&claim) {
                let detail = format!("PVC name {claim:?}: {message}");
                wrong.push(FieldError::invalid(&field, &json!(name), &detail));
            }
        }
        if name.is_empty() {
            wrong.push(FieldError::required(&field, ""));
        } else {
            invalid_all(&mut wrong, &field, &json!(name), names::label(name));
        }
        if sound.iter().any(|v| text(v, "name") == name) {
            wrong.push(FieldError::duplicate(&field, &json!(name)));
        }
        if wrong.is_empty() {
            sound.push(volume);
        }
        out.append(&mut wrong);
        let claim = text(&volume["persistentVolumeClaim"], "claimName");
        let made = |v: &Value| !v["ephemeral"].is_null() && claim_of(v).as_deref() == Some(claim);
        if !claim.is_empty() && all.iter().any(made) {
            let field = format!("{here}.persistentVolumeClaim.claimName");
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            out.push(FieldError::invalid(field, &json!(claim), detail));
        }
    }
    sound
}

/// A port number in range.
pub fn port_number(out: &mut Vec<FieldError>, field: &str, number: i64) {
    if !(1..=65_535).contains(&number) {
        out.push(FieldError::invalid(field, &json!(number), PORT));
    }
}

fn host_ports(out: &mut Vec<FieldError>, spec: &Value, path: &str, of_pod: bool) {
    if spec["hostNetwork"] != true {
        return;
    }
    for (i, it) in items(spec, "containers").iter().enumerate() {
        for (j, port) in items(it, "ports").iter().enumerate() {
            let (host, inner) = (int(port, "hostPort"), int(port, "containerPort"));
            if (of_pod || host != 0) && host != inner {
                let field = format!("{path}.containers[{i}].ports[{j}].hostPort");
                let detail = "must match `containerPort` when `hostNetwork` is true";
                out.push(FieldError::invalid(field, &json!(host), detail));
            }
        }
    }
}

/// Whether a label selector can be evaluated at all.
pub fn selector_is_sound(selector: &Value) -> bool {
    let mut errors = Vec::new();
    label_selector(&mut errors, selector, "");
    errors.is_empty()
}

/// Whether a label selector is well formed.
pub fn label_selector(out: &mut Vec<FieldError>, selector: &Value, path: &str) {
    for (key, value) in entries(selector, "matchLabels") {
        let field = format!("{path}.matchLabels");
        invalid_all(out, &field, &json!(key), names::qualified_name(key));
        invalid_all(out, &field, value, names::label_value(value.as_str().unwrap_or("")));
    }
    for (i, requirement) in items(selector, "matchExpressions").iter().enumerate() {
        label_requirement(out, requirement, &format!("{path}.matchExpressions[{i}]"), false);
    }
}

/// One requirement of a label selector; `lenient` lets operators pass that are not known.
pub fn label_requirement(out: &mut Vec<FieldError>, requirement: &Value, here: &str, lenient: bool) {
    requirement_values(out, requirement, here, lenient);
    let key = text(requirement, "key");
    invalid_all(out, &format!("{here}.key"), &json!(key), names::qualified_name(key));
    for (j, value) in items(requirement, "values").iter().enumerate() {
        let messages = names::label_value(value.as_str().unwrap_or(""));
        invalid_all(out, &format!("{here}.values[{j}]"), value, messages);
    }
}

/// Whether the values of a requirement fit its operator.
pub fn requirement_values(out: &mut Vec<FieldError>, requirement: &Value, here: &str, lenient: bool) {
    let none = empty(&requirement["values"]);
    match text(requirement, "operator") {
        "In" | "NotIn" if none => out.push(FieldError::required(
            format!("{here}.values"),
            "must be specified when `operator` is 'In' or 'NotIn'",
        )),
        "Exists" | "DoesNotExist" if !none => out.push(FieldError::forbidden(
            format!("{here}.values"),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ if lenient => {}
        other => {
            let detail = "not a valid selector operator";
            out.push(FieldError::invalid(format!("{here}.operator"), &json!(other), detail));
        }
    }
}
