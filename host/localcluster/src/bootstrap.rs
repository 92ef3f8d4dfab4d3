//! What every cluster has from the start: namespaces, the `kubernetes` service, priority classes, roles and bindings, flow
//! schemas, APIServices, and what the server says of itself.
//!
//! Invariant: what is there already is left as it is, so that a restart keeps changes.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::patch::PatchType;
use crate::rest::{InProcess, Target, clock};
use crate::schema::types::unpack;
use crate::status::Status;

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// Creates what is missing; `ca` is the certificate of who signs clients' certificates.
pub fn run(api: &InProcess, address: SocketAddr, ca: &str) -> Result<(), Status> {
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
    served_by_itself(api)?;
    authentication(api, ca)?;
    service_range(api)?;
    token_tracking(api)?;
    renew_identity(api, address)?;
    kubernetes_service(api, address)
}

/// The flow schemas, priority levels and APIServices of `data/bootstrap.json.gz`.
fn served_by_itself(api: &InProcess) -> Result<(), Status> {
    let data = unpack(include_bytes!("../data/bootstrap.json.gz"));
    let now = clock::seconds(api.rest().now());
    for (version, plural) in [
        ("flowcontrol.apiserver.k8s.io/v1", "prioritylevelconfigurations"),
        ("flowcontrol.apiserver.k8s.io/v1", "flowschemas"),
        ("apiregistration.k8s.io/v1", "apiservices"),
    ] {
        let target = Target::new(version, plural);
        for object in data[plural].as_array().into_iter().flatten() {
            ensure(api, target, object.clone())?;
            let Some(conditions) = object["status"]["conditions"].as_array() else { continue };
            let status = target.named(object["metadata"]["name"].as_str().unwrap_or_default()).sub("status");
            if api.get(&status)?["status"]["conditions"].is_array() {
                continue;
            }
            let mut conditions = conditions.clone();
            for condition in &mut conditions {
                condition["lastTransitionTime"] = json!(now);
            }
            api.patch(&status, PatchType::Merge, &json!({"status": {"conditions": conditions}}))?;
        }
    }
    Ok(())
}

/// Where other API servers learn whose certificates to believe.
fn authentication(api: &InProcess, ca: &str) -> Result<(), Status> {
    let object =
        json!({"metadata": {"name": "extension-apiserver-authentication"}, "data": {"client-ca-file": ca}});
    ensure(api, Target::new("v1", "configmaps").in_namespace("kube-system"), object)
}

/// So long the server is believed to live after it has said so.
const IDENTITY_SECONDS: u32 = 3600;

/// The lease by which the server says that it lives.
pub fn renew_identity(api: &InProcess, address: SocketAddr) -> Result<(), Status> {
    const NAME: &str = "apiserver-localcluster";
    let now = api.rest().now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let target = Target::new("coordination.k8s.io/v1", "leases").in_namespace("kube-system");
    let lease = json!({
        "metadata": {
            "name": NAME,
            "labels": {"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": "localcluster"},
            "annotations": {"kubernetes.io/peer-advertise-address": address.to_string()},
        },
        "spec": {"holderIdentity": NAME, "leaseDurationSeconds": IDENTITY_SECONDS, "renewTime": now},
    });
    match api.get(&target.named(NAME)) {
        Err(status) if status.code == 404 => api.create(&target, &lease).map(drop),
        Err(status) => Err(status),
        Ok(_) => api.patch(&target.named(NAME), PatchType::Merge, &lease).map(drop),
    }
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

/// The roles and bindings of `data/rbac.json.gz`.
fn roles(api: &InProcess) -> Result<(), Status> {
    let data = unpack(include_bytes!("../data/rbac.json.gz"));
    for plural in ["clusterroles", "clusterrolebindings", "roles", "rolebindings"] {
        for object in data[plural].as_array().into_iter().flatten() {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            ensure(api, Target::new(RBAC, plural).in_namespace(namespace), object.clone())?;
        }
    }
    Ok(())
}

/// The range of addresses that services have from the start.
fn service_range(api: &InProcess) -> Result<(), Status> {
    let target = Target::new("networking.k8s.io/v1", "servicecidrs");
    ensure(api, target, json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.0.0.0/16"]}}))?;
    let target = target.named("kubernetes").sub("status");
    let range = api.get(&target)?;
    if range["status"]["conditions"].is_array() {
        return Ok(());
    }
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "",
        "message": "Kubernetes default Service CIDR is ready",
        "lastTransitionTime": clock::seconds(api.rest().now()),
    });
    let status = json!({"status": {"conditions": [condition]}});
    api.patch(&target, PatchType::Merge, &status).map(drop)
}

/// Since when the use of tokens of service accounts is tracked: from the start.
fn token_tracking(api: &InProcess) -> Result<(), Status> {
    let since = api.rest().now().strftime("%Y-%m-%d").to_string();
    let name = "kube-apiserver-legacy-service-account-token-tracking";
    let object = json!({"metadata": {"name": name}, "data": {"since": since}});
    ensure(api, Target::new("v1", "configmaps").in_namespace("kube-system"), object)
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
