//! Checks of pods and pod templates.

use serde_json::{Value, json};

use super::meta::{invalid_all, labels};
use super::names;
use super::pod_probes::{lifecycle, probe};
use super::pod_scheduling::{affinity, tolerations, topology};
use super::resources;
use super::value::{empty, entries, int, items, text};
use crate::status::FieldError;

const PORT: &str = "must be between 1 and 65535, inclusive";

/// Checks a `PodTemplateSpec` at `path`.
pub fn template(out: &mut Vec<FieldError>, template: &Value, path: &str) {
    labels(out, &template["metadata"], "labels", &format!("{path}.labels"));
    for key in template["metadata"]["annotations"].as_object().into_iter().flatten().map(|a| a.0) {
        let messages = names::qualified_name(&key.to_lowercase());
        invalid_all(out, &format!("{path}.annotations"), &json!(key), messages);
    }
    spec(out, &template["spec"], &format!("{path}.spec"));
    if !empty(&template["spec"]["ephemeralContainers"]) {
        let field = format!("{path}.spec.ephemeralContainers");
        out.push(FieldError::forbidden(field, "ephemeral containers not allowed in pod template"));
    }
}

/// Checks a `PodSpec` at `path`.
pub fn spec(out: &mut Vec<FieldError>, spec: &Value, path: &str) {
    let volumes = volumes(out, spec, path);
    containers(out, spec, path, &volumes);
    init_containers(out, spec, path, &volumes);
    host_ports(out, spec, path);
    one_of(out, spec, path, "restartPolicy", &["Always", "OnFailure", "Never"]);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(out, spec, path, "dnsPolicy", &policies);
    labels(out, spec, "nodeSelector", &format!("{path}.nodeSelector"));
    for (i, secret) in items(spec, "imagePullSecrets").iter().enumerate() {
        if text(secret, "name").is_empty() {
            out.push(FieldError::required(format!("{path}.imagePullSecrets[{i}].name"), ""));
        }
    }
    affinity(out, &spec["affinity"], &format!("{path}.affinity"));
    for (i, gate) in items(spec, "readinessGates").iter().enumerate() {
        let field = format!("{path}.readinessGates[{i}].conditionType");
        let ty = text(gate, "conditionType");
        invalid_all(out, &field, &json!(ty), names::qualified_name(ty));
    }
    for (i, gate) in items(spec, "schedulingGates").iter().enumerate() {
        let field = format!("{path}.schedulingGates[{i}]");
        let name = text(gate, "name");
        invalid_all(out, &field, &json!(name), names::qualified_name(name));
    }
    topology(out, spec, path);
    for (key, check) in
        [("serviceAccountName", names::subdomain as fn(&str) -> Vec<String>), ("nodeName", names::subdomain)]
    {
        let name = text(spec, key);
        if !name.is_empty() {
            invalid_all(out, &format!("{path}.{key}"), &json!(name), check(name));
        }
    }
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64() {
        if !(1..=i64::from(i32::MAX)).contains(&seconds) {
            let detail = "must be between 1 and 2147483647, inclusive";
            let field = format!("{path}.activeDeadlineSeconds");
            out.push(FieldError::invalid(field, &json!(seconds), detail));
        }
    }
    for key in ["hostname", "subdomain"] {
        let name = text(spec, key);
        if !name.is_empty() {
            invalid_all(out, &format!("{path}.{key}"), &json!(name), names::label(name));
        }
    }
    tolerations(out, spec, path);
    let class = text(spec, "priorityClassName");
    if !class.is_empty() {
        let field = format!("{path}.priorityClassName");
        invalid_all(out, &field, &json!(class), names::subdomain(class));
    }
    if !spec["preemptionPolicy"].is_null() {
        one_of(out, spec, path, "preemptionPolicy", &["PreemptLowerPriority", "Never"]);
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

fn volumes(out: &mut Vec<FieldError>, spec: &Value, path: &str) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for (i, volume) in items(spec, "volumes").iter().enumerate() {
        let here = format!("{path}.volumes[{i}]");
        let sources = volume.as_object().map_or(0, |v| v.keys().filter(|k| *k != "name").count());
        if sources == 0 {
            out.push(FieldError::required(&here, "must specify a volume type"));
        }
        for source in volume.as_object().into_iter().flatten().map(|v| v.0).filter(|k| *k != "name").skip(1) {
            let detail = "may not specify more than 1 volume type";
            out.push(FieldError::forbidden(format!("{here}.{source}"), detail));
        }
        for (source, key, field) in [
            ("configMap", "name", "configMap.name"),
            ("secret", "secretName", "secret.secretName"),
            ("persistentVolumeClaim", "claimName", "persistentVolumeClaim.claimName"),
            ("hostPath", "path", "hostPath.path"),
        ] {
            if sources == 1 && !volume[source].is_null() && text(&volume[source], key).is_empty() {
                out.push(FieldError::required(format!("{here}.{field}"), ""));
            }
        }
        let name = text(volume, "name");
        let field = format!("{here}.name");
        let wrong = names::label(name);
        if name.is_empty() {
            out.push(FieldError::required(field, ""));
        } else if !wrong.is_empty() {
            invalid_all(out, &field, &json!(name), wrong);
        } else if seen.iter().any(|s| s == name) {
            out.push(FieldError::duplicate(field, &json!(name)));
        }
        seen.push(name.to_owned());
    }
    seen
}

fn containers(out: &mut Vec<FieldError>, spec: &Value, path: &str, volumes: &[String]) {
    let all = items(spec, "containers");
    if all.is_empty() {
        out.push(FieldError::required(format!("{path}.containers"), ""));
        return;
    }
    let mut seen: Vec<&str> = Vec::new();
    for (i, it) in all.iter().enumerate() {
        let here = format!("{path}.containers[{i}]");
        container(out, it, &here, volumes);
        let name = text(it, "name");
        if seen.contains(&name) {
            out.push(FieldError::duplicate(format!("{here}.name"), &json!(name)));
        }
        seen.push(name);
        lifecycle(out, it, &here);
        for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
            probe(out, &it[kind], &format!("{here}.{kind}"), kind);
        }
    }
}

fn init_containers(out: &mut Vec<FieldError>, spec: &Value, path: &str, volumes: &[String]) {
    let mut seen: Vec<&str> = items(spec, "containers").iter().map(|c| text(c, "name")).collect();
    for (i, it) in items(spec, "initContainers").iter().enumerate() {
        let here = format!("{path}.initContainers[{i}]");
        container(out, it, &here, volumes);
        let name = text(it, "name");
        if seen.contains(&name) {
            out.push(FieldError::duplicate(format!("{here}.name"), &json!(name)));
        }
        seen.push(name);
        let sidecar = text(it, "restartPolicy") == "Always";
        for kind in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if !it[kind].is_null() && !sidecar {
                let detail = "may not be set for init containers without restartPolicy=Always";
                out.push(FieldError::forbidden(format!("{here}.{kind}"), detail));
            }
        }
        if sidecar {
            for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
                probe(out, &it[kind], &format!("{here}.{kind}"), kind);
            }
        }
    }
}

fn container(out: &mut Vec<FieldError>, it: &Value, path: &str, volumes: &[String]) {
    let name = text(it, "name");
    if name.is_empty() {
        out.push(FieldError::required(format!("{path}.name"), ""));
    } else {
        invalid_all(out, &format!("{path}.name"), &json!(name), names::label(name));
    }
    if text(it, "image").is_empty() {
        out.push(FieldError::required(format!("{path}.image"), ""));
    }
    let policies = ["File", "FallbackToLogsOnError"];
    one_of(out, it, path, "terminationMessagePolicy", &policies);
    ports(out, it, path);
    env(out, it, path);
    mounts(out, it, path, volumes);
    one_of(out, it, path, "imagePullPolicy", &["Always", "IfNotPresent", "Never"]);
    resources::requirements(out, &it["resources"], &format!("{path}.resources"));
}

fn ports(out: &mut Vec<FieldError>, it: &Value, path: &str) {
    let mut seen: Vec<&str> = Vec::new();
    for (i, port) in items(it, "ports").iter().enumerate() {
        let here = format!("{path}.ports[{i}]");
        let name = text(port, "name");
        if !name.is_empty() {
            let wrong = names::port_name(name);
            if !wrong.is_empty() {
                invalid_all(out, &format!("{here}.name"), &json!(name), wrong);
            } else if seen.contains(&name) {
                out.push(FieldError::duplicate(format!("{here}.name"), &json!(name)));
            } else {
                seen.push(name);
            }
        }
        match int(port, "containerPort") {
            0 => out.push(FieldError::required(format!("{here}.containerPort"), "")),
            number => port_number(out, &format!("{here}.containerPort"), number),
        }
        if int(port, "hostPort") != 0 {
            port_number(out, &format!("{here}.hostPort"), int(port, "hostPort"));
        }
        one_of(out, port, &here, "protocol", &["SCTP", "TCP", "UDP"]);
    }
}

/// A port number in range.
pub fn port_number(out: &mut Vec<FieldError>, field: &str, number: i64) {
    if !(1..=65_535).contains(&number) {
        out.push(FieldError::invalid(field, &json!(number), PORT));
    }
}

fn env(out: &mut Vec<FieldError>, it: &Value, path: &str) {
    for (i, var) in items(it, "env").iter().enumerate() {
        let here = format!("{path}.env[{i}]");
        let name = text(var, "name");
        if name.is_empty() {
            out.push(FieldError::required(format!("{here}.name"), ""));
        } else if !name.chars().all(|c| c != '=' && (' '..='~').contains(&c)) {
            let detail = "a valid environment variable name must consist only of printable ASCII characters other than '='";
            out.push(FieldError::invalid(format!("{here}.name"), &json!(name), detail));
        }
        let Some(from) = var["valueFrom"].as_object() else { continue };
        if let Some(path) = var["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
            let field = format!("{here}.valueFrom.fieldRef.fieldPath");
            if path.is_empty() {
                out.push(FieldError::required(field, ""));
            } else if !is_pod_field(path) {
                let detail = format!("error converting fieldPath: field label not supported: {path}");
                out.push(FieldError::invalid(field, &json!(path), &detail));
            }
        }
        let field = format!("{here}.valueFrom");
        if from.is_empty() {
            let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
            out.push(FieldError::invalid(&field, &json!(""), detail));
        } else if !text(var, "value").is_empty() {
            let detail = "may not be specified when `value` is not empty";
            out.push(FieldError::invalid(&field, &json!(""), detail));
        } else if from.len() > 1 {
            let detail = "may not have more than one field specified at a time";
            out.push(FieldError::invalid(&field, &json!(""), detail));
        }
    }
}

/// Fields of its own that a pod may hand to its containers.
fn is_pod_field(path: &str) -> bool {
    const FIELDS: [&str; 14] = [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "metadata.annotations",
        "metadata.labels",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "spec.schedulerName",
        "status.phase",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    let subscripted =
        |map: &str| path.strip_prefix(map).is_some_and(|key| key.starts_with("['") && key.ends_with("']"));
    FIELDS.contains(&path) || subscripted("metadata.annotations") || subscripted("metadata.labels")
}

fn mounts(out: &mut Vec<FieldError>, it: &Value, path: &str, volumes: &[String]) {
    let mut seen: Vec<&str> = Vec::new();
    for (i, mount) in items(it, "volumeMounts").iter().enumerate() {
        let here = format!("{path}.volumeMounts[{i}]");
        let (name, at) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            out.push(FieldError::required(format!("{here}.name"), ""));
        }
        if !volumes.iter().any(|v| v == name) {
            out.push(FieldError::not_found(format!("{here}.name"), &json!(name)));
        }
        if at.is_empty() {
            out.push(FieldError::required(format!("{here}.mountPath"), ""));
        }
        if seen.contains(&at) {
            out.push(FieldError::invalid(format!("{here}.mountPath"), &json!(at), "must be unique"));
        }
        seen.push(at);
    }
}

fn host_ports(out: &mut Vec<FieldError>, spec: &Value, path: &str) {
    if spec["hostNetwork"] != true {
        return;
    }
    for (i, it) in items(spec, "containers").iter().enumerate() {
        for (j, port) in items(it, "ports").iter().enumerate() {
            let (host, inner) = (int(port, "hostPort"), int(port, "containerPort"));
            if host != inner {
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
    for (i, e) in items(selector, "matchExpressions").iter().enumerate() {
        let here = format!("{path}.matchExpressions[{i}]");
        let none = empty(&e["values"]);
        match text(e, "operator") {
            "In" | "NotIn" if none => out.push(FieldError::required(
                format!("{here}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if !none => out.push(FieldError::forbidden(
                format!("{here}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let detail = "not a valid selector operator";
                out.push(FieldError::invalid(format!("{here}.operator"), &json!(other), detail));
            }
        }
        let key = text(e, "key");
        invalid_all(out, &format!("{here}.key"), &json!(key), names::qualified_name(key));
        for (j, value) in items(e, "values").iter().enumerate() {
            let messages = names::label_value(value.as_str().unwrap_or(""));
            invalid_all(out, &format!("{here}.values[{j}]"), value, messages);
        }
    }
}
