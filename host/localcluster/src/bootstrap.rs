//! What every cluster has from the start: namespaces, the `kubernetes` service, priority classes, basic roles.
//!
//! Invariant: what is there already is left as it is, so that a restart keeps changes.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::rest::{InProcess, Target};
use crate::status::Status;

/// Creates what is missing.
pub fn run(api: &InProcess, address: SocketAddr) -> Result<(), Status> {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        ensure(api, Target::new("v1", "namespaces"), json!({"metadata": {"name": name}}))?;
    }
    for (name, value, description) in [
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ] {
        let object = json!({"metadata": {"name": name}, "value": value, "description": description});
        ensure(api, Target::new("scheduling.k8s.io/v1", "priorityclasses"), object)?;
    }
    roles(api)?;
    kubernetes_service(api, address)
}

fn ensure(api: &InProcess, target: Target<'_>, object: Value) -> Result<(), Status> {
    if api.kind(target.api_version, target.plural).is_err() {
        return Ok(());
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    match api.get(&target.named(name)) {
        Err(status) if status.code == 404 => api.create(&target, &object).map(drop),
        found => found.map(drop),
    }
}

fn roles(api: &InProcess) -> Result<(), Status> {
    const VERSION: &str = "rbac.authorization.k8s.io/v1";
    let info = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
    let discovery = [
        "/api",
        "/api/*",
        "/apis",
        "/apis/*",
        "/healthz",
        "/livez",
        "/openapi",
        "/openapi/*",
        "/readyz",
        "/version",
        "/version/",
    ];
    let reviews = json!([
        {"apiGroups": ["authorization.k8s.io"],
         "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], "verbs": ["create"]},
        {"apiGroups": ["authentication.k8s.io"],
         "resources": ["selfsubjectreviews"], "verbs": ["create"]},
    ]);
    let all = json!([
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]);
    let authenticated = ["system:authenticated"].as_slice();
    let anybody = ["system:authenticated", "system:unauthenticated"].as_slice();
    for (name, rules, groups) in [
        ("cluster-admin", all, ["system:masters"].as_slice()),
        ("system:basic-user", reviews, authenticated),
        ("system:discovery", json!([{"nonResourceURLs": discovery, "verbs": ["get"]}]), authenticated),
        ("system:public-info-viewer", json!([{"nonResourceURLs": info, "verbs": ["get"]}]), anybody),
    ] {
        let metadata = json!({
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        });
        let role = json!({"metadata": metadata, "rules": rules});
        ensure(api, Target::new(VERSION, "clusterroles"), role)?;
        let subjects: Vec<_> = groups
            .iter()
            .map(|group| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}))
            .collect();
        let binding = json!({
            "metadata": metadata, "subjects": subjects,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        });
        ensure(api, Target::new(VERSION, "clusterrolebindings"), binding)?;
    }
    Ok(())
}

/// The service behind which clients in the cluster find the API server.
fn kubernetes_service(api: &InProcess, address: SocketAddr) -> Result<(), Status> {
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    let service = json!({
        "metadata": {"name": "kubernetes", "labels": labels},
        "spec": {
            "type": "ClusterIP", "clusterIP": "10.0.0.1", "sessionAffinity": "None",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": address.port()}],
        },
    });
    ensure(api, Target::new("v1", "services").in_namespace("default"), service)?;
    // Loopback addresses are not allowed as endpoints, so such a cluster has none.
    if address.ip().is_loopback() || address.ip().is_unspecified() {
        return Ok(());
    }
    let slice = json!({
        "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{"addresses": [address.ip().to_string()], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": address.port(), "protocol": "TCP"}],
    });
    let target = Target::new("discovery.k8s.io/v1", "endpointslices").in_namespace("default");
    ensure(api, target, slice)
}
