//! Defaults of pods and pod templates.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use super::pod_containers::CONTAINERS;
use super::resources::pod_total;
use super::value::{
    child, empty, fill, fill_null, fill_zero, flag, int, items_mut, present, remove, set, text,
};

const MODE: i64 = 0o644;

/// Defaults of a `PodTemplateSpec`.
pub fn template(template: &mut Value) {
    spec(child(template, "spec"));
}

/// Defaults that pods have beyond their templates.
pub fn pod(pod: &mut Value) {
    let pod_spec = child(pod, "spec");
    for list in ["containers", "initContainers"] {
        for container in items_mut(pod_spec, list) {
            requests_from_limits(container);
        }
    }
    fill(pod_spec, "enableServiceLinks", true);
    if let Some(limits) = pod_spec["resources"]["limits"].as_object().cloned() {
        // Only what can be given to a pod as a whole; what its containers ask for in all comes first.
        let shared = |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
        for (name, mut amount) in limits.into_iter().filter(|(name, _)| shared(name)) {
            if let Some(asked) = pod_total(pod_spec, "requests", &name) {
                amount = json!(asked.to_string());
            }
            fill(child(child(pod_spec, "resources"), "requests"), &name, amount);
        }
    }
    spec(pod_spec);
    if let Some(status) = present(pod, "status") {
        addresses(status);
    }
}

/// The single address and the first of the list are one.
fn addresses(status: &mut Value) {
    let single = text(status, "podIP").to_owned();
    let first = status["podIPs"][0]["ip"].as_str().unwrap_or("").to_owned();
    if !single.is_empty() && single != first {
        set(status, "podIPs", json!([{"ip": single}]));
    } else if single.is_empty() && !first.is_empty() {
        set(status, "podIP", first);
    }
}

/// Limits without requests are requests.
fn requests_from_limits(container: &mut Value) {
    let Some(limits) = container["resources"]["limits"].as_object().cloned() else { return };
    if limits.is_empty() {
        return;
    }
    let requests = child(child(container, "resources"), "requests");
    for (name, amount) in limits {
        fill(requests, &name, amount);
    }
}

/// Defaults of a `PodSpec`.
pub fn spec(spec: &mut Value) {
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "restartPolicy", "Always");
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill(spec, "schedulerName", "default-scheduler");
    child(spec, "securityContext");
    // The older name of the field follows the newer one, whichever was sent.
    let account = text(spec, "serviceAccountName").to_owned();
    if account.is_empty() {
        let older = text(spec, "serviceAccount").to_owned();
        if !older.is_empty() {
            set(spec, "serviceAccountName", older);
        }
    } else {
        set(spec, "serviceAccount", account);
    }
    let host_network = flag(spec, "hostNetwork");
    for list in CONTAINERS {
        for it in items_mut(spec, list) {
            container(it, host_network && list != "ephemeralContainers");
        }
    }
    for it in items_mut(spec, "volumes") {
        volume(it);
    }
    for it in items_mut(spec, "topologySpreadConstraints") {
        if empty(&it["labelSelector"]) && it["labelSelector"].is_null() {
            remove(it, "labelSelector");
        }
    }
}

fn container(container: &mut Value, host_network: bool) {
    let policy = pull_policy(text(container, "image"));
    fill(container, "imagePullPolicy", policy);
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    for port in items_mut(container, "ports") {
        fill(port, "protocol", "TCP");
        if host_network {
            let number = int(port, "containerPort");
            fill_zero(port, "hostPort", number);
        }
    }
    for env in items_mut(container, "env") {
        if let Some(field) = env.get_mut("valueFrom").and_then(|v| present(v, "fieldRef")) {
            fill(field, "apiVersion", "v1");
        }
        if let Some(file) = env.get_mut("valueFrom").and_then(|v| present(v, "fileKeyRef")) {
            fill(file, "optional", false);
        }
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(it) = present(container, kind) {
            probe(it);
        }
    }
    if let Some(lifecycle) = present(container, "lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(it) = present(lifecycle, hook) {
                handler(it);
            }
        }
    }
}

/// Images that name no fixed version are always pulled; what names no image at all is nothing to look for.
fn pull_policy(image: &str) -> &'static str {
    static NAME: LazyLock<Regex> = LazyLock::new(|| {
        // The grammar of references of the OCI distribution specification and of Docker.
        const LABEL: &str = "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?";
        const PART: &str = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
        let host = format!(r"(?:{LABEL}(?:\.{LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?");
        let digest = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}";
        let text = format!(r"^((?:{host}/)?{PART}(?:/{PART})*)(?::([\w][\w.-]{{0,127}}))?(@{digest})?$");
        // The text is fixed.
        Regex::new(&text).unwrap_or_else(|error| unreachable!("{error}"))
    });
    let Some(found) = NAME.captures(image) else { return "IfNotPresent" };
    let (tag, digest) = (found.get(2).map(|m| m.as_str()), found.get(3));
    match tag {
        _ if found[1].len() > 255 => "IfNotPresent",
        Some("latest") => "Always",
        None if digest.is_none() => "Always",
        _ => "IfNotPresent",
    }
}

fn probe(probe: &mut Value) {
    fill_zero(probe, "timeoutSeconds", 1);
    fill_zero(probe, "periodSeconds", 10);
    fill_zero(probe, "successThreshold", 1);
    fill_zero(probe, "failureThreshold", 3);
    handler(probe);
    if let Some(grpc) = present(probe, "grpc") {
        if grpc["service"].is_null() {
            set(grpc, "service", "");
        }
    }
}

fn handler(handler: &mut Value) {
    if let Some(http) = present(handler, "httpGet") {
        fill(http, "path", "/");
        fill(http, "scheme", "HTTP");
    }
}

fn volume(volume: &mut Value) {
    let has_source = volume.as_object().is_some_and(|v| v.keys().any(|key| key != "name"));
    if !has_source {
        set(volume, "emptyDir", json!({}));
    }
    for source in ["secret", "configMap"] {
        if let Some(it) = present(volume, source) {
            fill(it, "defaultMode", MODE);
        }
    }
    if let Some(it) = present(volume, "downwardAPI") {
        fill(it, "defaultMode", MODE);
        downward_items(it);
    }
    if let Some(it) = present(volume, "projected") {
        fill(it, "defaultMode", MODE);
        for source in items_mut(it, "sources") {
            if let Some(downward) = present(source, "downwardAPI") {
                downward_items(downward);
            }
            if let Some(token) = present(source, "serviceAccountToken") {
                fill(token, "expirationSeconds", 3600);
            }
        }
    }
    volume_source(volume);
    if let Some(claim) = present(volume, "ephemeral").and_then(|e| present(e, "volumeClaimTemplate")) {
        fill_null(child(claim, "spec"), "volumeMode", "Filesystem");
    }
    if let Some(image) = present(volume, "image") {
        let policy = pull_policy(text(image, "reference"));
        fill(image, "pullPolicy", policy);
    }
}

/// Defaults of sources that PersistentVolumes have too.
pub(super) fn volume_source(volume: &mut Value) {
    if let Some(it) = present(volume, "hostPath") {
        if it["type"].is_null() {
            set(it, "type", "");
        }
    }
    if let Some(it) = present(volume, "iscsi") {
        fill(it, "iscsiInterface", "default");
    }
    if let Some(it) = present(volume, "rbd") {
        fill(it, "pool", "rbd");
        fill(it, "user", "admin");
        fill(it, "keyring", "/etc/ceph/keyring");
    }
    if let Some(it) = present(volume, "azureDisk") {
        fill_null(it, "cachingMode", "ReadWrite");
        fill_null(it, "kind", "Shared");
        fill_null(it, "fsType", "ext4");
        fill(it, "readOnly", false);
    }
    if let Some(it) = present(volume, "scaleIO") {
        fill(it, "storageMode", "ThinProvisioned");
        fill(it, "fsType", "xfs");
    }
}

fn downward_items(source: &mut Value) {
    for item in items_mut(source, "items") {
        if let Some(field) = present(item, "fieldRef") {
            fill(field, "apiVersion", "v1");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pull_policy_follows_the_tag() {
        for (image, want) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1.27", "IfNotPresent"),
            ("host:5000/nginx", "Always"),
            ("host:5000/nginx:1", "IfNotPresent"),
            ("nginx@sha256:abc", "IfNotPresent"),
            ("host.example:5000/a/b_c", "Always"),
            ("Nginx", "IfNotPresent"),
            ("no image", "IfNotPresent"),
            ("", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), want, "{image}");
        }
    }
}
