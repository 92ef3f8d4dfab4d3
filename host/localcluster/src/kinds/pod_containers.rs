//! Checks of containers, init containers and ephemeral containers.

use serde_json::{Value, json};

use super::meta::invalid_all;
use super::pod_probes::{lifecycle, probes};
use super::pod_validation::{PodView, one_of, port_number};
use super::value::{int, items, text};
use super::volume_sources::known;
use super::{names, pod_env, pod_mounts, pod_security, resources};
use crate::status::FieldError;

/// The lists of containers that a pod has, in the order in which most look at them.
pub const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Fields that an ephemeral container may not have.
const NOT_EPHEMERAL: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// `containers` of a pod.
pub(super) fn regular(out: &mut Vec<FieldError>, pod: &PodView<'_>) {
    let path = format!("{}.containers", pod.path);
    let all = items(pod.spec, "containers");
    if all.is_empty() {
        out.push(FieldError::required(path, ""));
        return;
    }
    let mut seen: Vec<&str> = Vec::new();
    for (i, it) in all.iter().enumerate() {
        let here = format!("{path}[{i}]");
        common(out, it, &here, pod);
        let name = text(it, "name");
        if seen.contains(&name) {
            out.push(FieldError::duplicate(format!("{here}.name"), &json!(name)));
        } else {
            seen.push(name);
        }
        lifecycle(out, it, &here, pod);
        probes(out, it, &here, pod);
        restarts(out, it, &here);
    }
    let named: Vec<(String, &Value)> =
        all.iter().enumerate().map(|(i, c)| (format!("{path}[{i}]"), c)).collect();
    host_ports(out, &named);
}

/// `initContainers` of a pod.
pub(super) fn init(out: &mut Vec<FieldError>, pod: &PodView<'_>) {
    const ONLY_SIDECARS: &str = "may not be set for init containers without restartPolicy=Always";
    let path = format!("{}.initContainers", pod.path);
    let mut seen: Vec<&str> = items(pod.spec, "containers").iter().map(|c| text(c, "name")).collect();
    for (i, it) in items(pod.spec, "initContainers").iter().enumerate() {
        let here = format!("{path}[{i}]");
        common(out, it, &here, pod);
        if it["restartPolicy"].is_null() && !items(it, "restartPolicyRules").is_empty() {
            let detail = "must specify restartPolicy when restart rules are used";
            out.push(FieldError::required(format!("{here}.restartPolicy"), detail));
        } else {
            restarts(out, it, &here);
        }
        let name = text(it, "name");
        if seen.contains(&name) {
            out.push(FieldError::duplicate(format!("{here}.name"), &json!(name)));
        } else if !name.is_empty() {
            seen.push(name);
        }
        host_ports(out, &[(format!("{path}[0]"), it)]);
        if text(it, "restartPolicy") == "Always" {
            lifecycle(out, it, &here, pod);
            probes(out, it, &here, pod);
            continue;
        }
        for kind in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if !it[kind].is_null() {
                out.push(FieldError::forbidden(format!("{here}.{kind}"), ONLY_SIDECARS));
            }
        }
        for (j, policy) in items(it, "resizePolicy").iter().enumerate() {
            if text(policy, "restartPolicy") == "RestartContainer" {
                let field = format!("{here}.resizePolicy[{j}].restartPolicy");
                let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                out.push(FieldError::invalid(field, &policy["restartPolicy"], detail));
            }
        }
    }
}

/// `ephemeralContainers` of a pod.
pub(super) fn ephemeral(out: &mut Vec<FieldError>, pod: &PodView<'_>) {
    const DETAIL: &str = "cannot be set for an Ephemeral Container";
    let others: Vec<&str> = items(pod.spec, "containers")
        .iter()
        .chain(items(pod.spec, "initContainers"))
        .map(|c| text(c, "name"))
        .collect();
    let mut seen = others.clone();
    for (i, it) in items(pod.spec, "ephemeralContainers").iter().enumerate() {
        let here = format!("{}.ephemeralContainers[{i}]", pod.path);
        common(out, it, &here, pod);
        padded_image(out, it, &here);
        let name = text(it, "name");
        if seen.contains(&name) {
            out.push(FieldError::duplicate(format!("{here}.name"), &json!(name)));
        } else {
            seen.push(name);
        }
        let target = text(it, "targetContainerName");
        if !target.is_empty() && !others.contains(&target) {
            out.push(FieldError::not_found(format!("{here}.targetContainerName"), &json!(target)));
        }
        for field in NOT_EPHEMERAL {
            if !super::value::empty(&it[field]) {
                out.push(FieldError::forbidden(format!("{here}.{field}"), DETAIL));
            }
        }
        for (j, mount) in items(it, "volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !text(mount, field).is_empty() {
                    out.push(FieldError::forbidden(format!("{here}.volumeMounts[{j}].{field}"), DETAIL));
                }
            }
        }
    }
}

/// What pods, but not their templates, are held to.
pub(super) fn padded_images(out: &mut Vec<FieldError>, spec: &Value, path: &str) {
    for list in ["containers", "initContainers"] {
        for (i, it) in items(spec, list).iter().enumerate() {
            padded_image(out, it, &format!("{path}.{list}[{i}]"));
        }
    }
}

fn padded_image(out: &mut Vec<FieldError>, it: &Value, path: &str) {
    let image = text(it, "image");
    if image.trim() != image {
        let detail = "must not have leading or trailing whitespace";
        out.push(FieldError::invalid(format!("{path}.image"), &json!(image), detail));
    }
}

fn common(out: &mut Vec<FieldError>, it: &Value, path: &str, pod: &PodView<'_>) {
    let name = text(it, "name");
    if name.is_empty() {
        out.push(FieldError::required(format!("{path}.name"), ""));
    } else {
        invalid_all(out, &format!("{path}.name"), &json!(name), names::label(name));
    }
    if text(it, "image").is_empty() {
        out.push(FieldError::required(format!("{path}.image"), ""));
    }
    one_of(out, it, path, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"]);
    ports(out, it, path);
    pod_env::check(out, it, path);
    pod_mounts::check(out, it, path, &pod.volumes);
    one_of(out, it, path, "imagePullPolicy", &["Always", "IfNotPresent", "Never"]);
    resources::requirements(out, &it["resources"], &format!("{path}.resources"));
    resources::claims(out, &it["resources"], &format!("{path}.resources.claims"), pod.spec);
    resize_policy(out, it, path, text(pod.spec, "restartPolicy"));
    pod_security::container(out, &it["securityContext"], &format!("{path}.securityContext"), pod.spec);
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

/// No two containers may have the same port of the host.
fn host_ports(out: &mut Vec<FieldError>, containers: &[(String, &Value)]) {
    let mut seen: Vec<String> = Vec::new();
    for (path, it) in containers {
        for (i, port) in items(it, "ports").iter().enumerate() {
            let number = int(port, "hostPort");
            if number == 0 {
                continue;
            }
            let shown = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
            if seen.contains(&shown) {
                out.push(FieldError::duplicate(format!("{path}.ports[{i}].hostPort"), &json!(shown)));
            } else {
                seen.push(shown);
            }
        }
    }
}

fn resize_policy(out: &mut Vec<FieldError>, it: &Value, path: &str, restarts: &str) {
    let field = format!("{path}.resizePolicy");
    let all = items(it, "resizePolicy");
    for (i, policy) in all.iter().enumerate() {
        let (name, restart) = (&policy["resourceName"], text(policy, "restartPolicy"));
        if all[..i].iter().any(|p| p["resourceName"] == *name) {
            out.push(FieldError::duplicate(format!("{field}[{i}]"), name));
        }
        for (value, all) in [
            (text(policy, "resourceName"), ["cpu", "memory"]),
            (restart, ["NotRequired", "RestartContainer"]),
        ] {
            if value.is_empty() {
                out.push(FieldError::required(&field, ""));
            } else {
                known(out, &json!(value), &field, &all);
            }
        }
        if restarts == "Never" && restart != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            out.push(FieldError::invalid(&field, &json!(restart), detail));
        }
    }
}

/// `restartPolicy` and `restartPolicyRules` of a container.
fn restarts(out: &mut Vec<FieldError>, it: &Value, path: &str) {
    let rules = items(it, "restartPolicyRules");
    let field = format!("{path}.restartPolicy");
    if it["restartPolicy"].is_null() {
        if !rules.is_empty() {
            out.push(FieldError::required(field, "must specify restartPolicy when restart rules are used"));
        }
    } else {
        known(out, &it["restartPolicy"], &field, &["Always", "Never", "OnFailure"]);
    }
    let all = format!("{path}.restartPolicyRules");
    if rules.len() > 20 {
        out.push(FieldError::too_many(&all, rules.len(), 20));
    }
    for (i, rule) in rules.iter().enumerate() {
        let here = format!("{all}[{i}]");
        if text(rule, "action") != "Restart" {
            let actions = ["Restart", "RestartAllContainers"];
            known(out, &json!(text(rule, "action")), &format!("{here}.action"), &actions);
        }
        let codes = &rule["exitCodes"];
        if codes.is_null() {
            out.push(FieldError::required(format!("{here}.exitCodes"), "must be specified"));
            continue;
        }
        let field = format!("{here}.exitCodes.operator");
        known(out, &json!(text(codes, "operator")), &field, &["In", "NotIn"]);
        let count = items(codes, "values").len();
        if count > 255 {
            out.push(FieldError::too_many(format!("{here}.exitCodes.values"), count, 255));
        }
    }
}
