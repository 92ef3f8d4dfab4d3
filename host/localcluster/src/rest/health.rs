//! What `/livez`, `/readyz` and `/healthz` say.
//!
//! In: an endpoint and what is asked of it. Out: plain text. Invariant: the server answers once all is up, so every
//! check succeeds; their names are those of the real server, which clients name to ask for one or to leave it out.

use super::http::Response;
use super::options::Query;
use super::respond::{not_found, text};

/// Checks of every endpoint, in the order in which they are listed; `etcd` stands for the store.
const CHECKS: &[&str] = &[
    "ping",
    "log",
    "loopback-serving-certificate",
    "etcd",
    "informer-sync",
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-wait-for-first-sync",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
    "shutdown",
];

/// Whether an endpoint has a check.
fn has(endpoint: &str, check: &str) -> bool {
    match check {
        "loopback-serving-certificate" | "etcd" => endpoint != "readyz",
        "informer-sync" | "shutdown" => endpoint == "readyz",
        _ => true,
    }
}

/// All checks of an endpoint.
pub(super) fn all(endpoint: &str, query: &str) -> Response {
    let query = Query::parse(query);
    if !query.has("verbose") {
        return text(200, "ok");
    }
    let checks: Vec<&str> = CHECKS.iter().copied().filter(|check| has(endpoint, check)).collect();
    let excluded = query.all("exclude");
    let mut out = String::new();
    for check in &checks {
        let note = if excluded.iter().any(|name| name == check) { "excluded: ok" } else { "ok" };
        out.push_str(&format!("[+]{check} {note}\n"));
    }
    let mut unknown: Vec<String> = excluded
        .iter()
        .filter(|name| !checks.contains(&name.as_str()))
        .map(|name| format!("{name:?}"))
        .collect();
    unknown.sort();
    if !unknown.is_empty() {
        let names = unknown.join(",");
        out.push_str(&format!("warn: some health checks cannot be excluded: no matches for {names}\n"));
    }
    text(200, &format!("{out}{endpoint} check passed\n"))
}

/// One check of an endpoint.
pub(super) fn one(endpoint: &str, check: &str) -> Response {
    if CHECKS.contains(&check) && has(endpoint, check) { text(200, "ok") } else { not_found() }
}
