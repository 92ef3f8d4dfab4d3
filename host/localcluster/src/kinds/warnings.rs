//! Warnings about kinds that say little: what is deprecated, ambiguous or hardly meant.

use serde_json::Value;

use super::ip_text::{address_warnings, range_warnings};
use super::pod_warnings::{claim_spec, gone_sources, node_term, old_node_label};
use super::value::{entries, items, text};
use super::volumes::CLASS;
use crate::schema::quantity::Quantity;

/// Of the annotation that named the class of volumes and claims.
const OLD_CLASS_INSTEAD: &str = "deprecated since v1.8; use \"storageClassName\" attribute instead";

pub(super) fn volume(_: Option<&Value>, volume: &Value) -> Vec<String> {
    let mut out = Vec::new();
    let spec = &volume["spec"];
    for (key, instead) in [
        (CLASS, OLD_CLASS_INSTEAD),
        (
            "volume.beta.kubernetes.io/mount-options",
            "deprecated since v1.31; use \"mountOptions\" attribute instead",
        ),
    ] {
        if !volume["metadata"]["annotations"][key].is_null() {
            out.push(format!("metadata.annotations[{key}]: {instead}"));
        }
    }
    if text(spec, "persistentVolumeReclaimPolicy") == "Recycle" {
        out.push("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.".into());
    }
    for (i, term) in items(&spec["nodeAffinity"]["required"], "nodeSelectorTerms").iter().enumerate() {
        let path = format!("spec.nodeAffinity.required.nodeSelectorTerms[{i}]");
        out.append(&mut node_term(term, false, &path));
    }
    let of_pods_alone = |source: &str| matches!(source, "gitRepo" | "flocker" | "quobyte");
    let gone = gone_sources(spec).filter(|(source, _)| !of_pods_alone(source));
    out.extend(gone.map(|(source, why)| format!("spec.{source}: {why}")));
    out
}

pub(super) fn claim(_: Option<&Value>, claim: &Value) -> Vec<String> {
    let mut out = Vec::new();
    if !claim["metadata"]["annotations"][CLASS].is_null() {
        out.push(format!("metadata.annotations[{CLASS}]: {OLD_CLASS_INSTEAD}"));
    }
    out.append(&mut claim_spec(&claim["spec"], "spec"));
    out
}

pub(super) fn node(_: Option<&Value>, node: &Value) -> Vec<String> {
    let mut out = Vec::new();
    let spec = &node["spec"];
    if spec["configSource"].is_object() {
        out.push("spec.configSource: the feature is removed".into());
    }
    if !text(spec, "externalID").is_empty() {
        out.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".into());
    }
    for (i, range) in items(spec, "podCIDRs").iter().enumerate() {
        range_warnings(&mut out, range.as_str().unwrap_or(""), &format!("spec.podCIDRs[{i}]"));
    }
    out
}

pub(super) fn endpoints(_: Option<&Value>, object: &Value) -> Vec<String> {
    let mut out = Vec::new();
    if text(&object["metadata"]["labels"], "endpoints.kubernetes.io/managed-by") == "endpoint-controller" {
        return out;
    }
    for (i, subset) in items(object, "subsets").iter().enumerate() {
        for key in ["addresses", "notReadyAddresses"] {
            for (j, address) in items(subset, key).iter().enumerate() {
                address_warnings(&mut out, text(address, "ip"), &format!("subsets[{i}].{key}[{j}].ip"));
            }
        }
    }
    out
}

pub(super) fn endpoint_slice(old: Option<&Value>, object: &Value) -> Vec<String> {
    let mut out = Vec::new();
    if old.is_none() && text(object, "addressType") == "FQDN" {
        out.push("spec.addressType: FQDN endpoints are deprecated".into());
    }
    let by = text(&object["metadata"]["labels"], "endpointslice.kubernetes.io/managed-by");
    if matches!(by, "endpointslice-controller.k8s.io" | "endpointslicemirroring-controller.k8s.io") {
        return out;
    }
    for (i, endpoint) in items(object, "endpoints").iter().enumerate() {
        for (j, address) in items(endpoint, "addresses").iter().enumerate() {
            let field = format!("endpoints[{i}].addresses[{j}]");
            address_warnings(&mut out, address.as_str().unwrap_or(""), &field);
        }
    }
    out
}

/// Of the creation of a quota.
pub(super) fn quota(old: Option<&Value>, quota: &Value) -> Vec<String> {
    let hard = &quota["spec"]["hard"];
    let mut out = Vec::new();
    for name in ["cpu", "memory", "storage", "ephemeral-storage"].iter().filter(|_| old.is_none()) {
        let mut request = format!("requests.{name}");
        if hard[&request].is_null() && matches!(*name, "cpu" | "memory") {
            request = (*name).to_owned();
        }
        let limit = format!("limits.{name}");
        let amount = |key: &str| hard[key].as_str().and_then(Quantity::parse);
        if let (Some(wanted), Some(most)) = (amount(&request), amount(&limit)) {
            if wanted > most {
                out.push(format!("ResourceQuota {request} ({wanted}) should be less than {limit} ({most})"));
            }
        }
    }
    out
}

/// A pair of certificate and key that no server could use.
pub(super) fn secret(_: Option<&Value>, secret: &Value) -> Vec<String> {
    use base64::Engine as _;
    if text(secret, "type") != "kubernetes.io/tls" {
        return Vec::new();
    }
    let decoded = |key: &str| {
        let raw = base64::engine::general_purpose::STANDARD.decode(text(&secret["data"], key));
        String::from_utf8_lossy(&raw.unwrap_or_default()).into_owned()
    };
    let (certificate, key) = (decoded("tls.crt"), decoded("tls.key"));
    let missing = |part: &str, what: &str| {
        (!part.contains("-----BEGIN ")).then(|| format!("tls: failed to find any PEM data in {what} input"))
    };
    let wrong = missing(&certificate, "certificate");
    let wrong = wrong.or_else(|| {
        let switched = !certificate.contains("-----BEGIN CERTIFICATE-----");
        let text = "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched";
        (switched && certificate.contains("PRIVATE KEY-----")).then(|| text.to_owned())
    });
    wrong.or_else(|| missing(&key, "key")).into_iter().collect()
}

pub(super) fn service_account(old: Option<&Value>, account: &Value) -> Vec<String> {
    const KEY: &str = "kubernetes.io/enforce-mountable-secrets";
    let set = |object: &Value| !object["metadata"]["annotations"][KEY].is_null();
    if !set(account) || old.is_some_and(set) {
        return Vec::new();
    }
    vec![format!(
        "metadata.annotations[{KEY}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
    )]
}

/// Of the creation of an ingress.
pub(super) fn ingress(old: Option<&Value>, ingress: &Value) -> Vec<String> {
    const KEY: &str = "kubernetes.io/ingress.class";
    let annotated = !ingress["metadata"]["annotations"][KEY].is_null();
    if old.is_some() || !annotated || !ingress["spec"]["ingressClassName"].is_null() {
        return Vec::new();
    }
    vec![format!("annotation {KEY:?} is deprecated, please use 'spec.ingressClassName' instead")]
}

pub(super) fn network_policy(_: Option<&Value>, policy: &Value) -> Vec<String> {
    let mut out = Vec::new();
    for (way, peers) in [("ingress", "from"), ("egress", "to")] {
        for (i, rule) in items(&policy["spec"], way).iter().enumerate() {
            for (j, peer) in items(rule, peers).iter().enumerate() {
                let (block, path) = (&peer["ipBlock"], format!("spec.{way}[{i}].{peers}[{j}].ipBlock"));
                range_warnings(&mut out, text(block, "cidr"), &format!("{path}.cidr"));
                for (k, except) in items(block, "except").iter().enumerate() {
                    let field = format!("{path}.except[{k}]");
                    range_warnings(&mut out, except.as_str().unwrap_or(""), &field);
                }
            }
        }
    }
    out
}

pub(super) fn runtime_class(_: Option<&Value>, class: &Value) -> Vec<String> {
    let old = entries(&class["scheduling"], "nodeSelector").filter_map(|(key, _)| old_node_label(key));
    old.map(|instead| format!("scheduling.nodeSelector: {instead}")).collect()
}

pub(super) fn storage_class(_: Option<&Value>, class: &Value) -> Vec<String> {
    let mut out = Vec::new();
    for (i, topology) in items(class, "allowedTopologies").iter().enumerate() {
        for (j, expression) in items(topology, "matchLabelExpressions").iter().enumerate() {
            if let Some(instead) = old_node_label(text(expression, "key")) {
                out.push(format!("allowedTopologies[{i}].matchLabelExpressions[{j}].key: {instead}"));
            }
        }
    }
    out
}

pub(super) fn storage_capacity(_: Option<&Value>, capacity: &Value) -> Vec<String> {
    let selector = &capacity["nodeTopology"];
    let mut out = node_term(selector, false, "nodeTopology");
    for (key, _) in entries(selector, "matchLabels") {
        if let Some(instead) = old_node_label(key) {
            out.push(format!("nodeTopology.matchLabels.{key}: {instead}"));
        }
    }
    out
}

pub(super) fn resource_slice(_: Option<&Value>, slice: &Value) -> Vec<String> {
    let driver = text(&slice["spec"], "driver");
    if driver == driver.to_lowercase() {
        return Vec::new();
    }
    vec![format!("spec.driver: driver names should be lowercase; {driver:?} contains uppercase characters")]
}

pub(super) fn stateful_set(old: Option<&Value>, set: &Value) -> Vec<String> {
    let mut out = super::pod_warnings::of_template(old, set, "spec.template");
    // Its pods have names of their own rule.
    out.retain(|warning| !warning.starts_with("metadata.name:"));
    for (i, claim) in items(&set["spec"], "volumeClaimTemplates").iter().enumerate() {
        let inner = if old.is_some() { ".Spec" } else { "" };
        out.append(&mut claim_spec(&claim["spec"], &format!("spec.volumeClaimTemplates[{i}]{inner}")));
    }
    if set["spec"]["revisionHistoryLimit"].as_i64().is_some_and(|limit| limit < 0) {
        out.push("spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended".into());
    }
    out
}

pub(super) fn daemon_set(old: Option<&Value>, set: &Value) -> Vec<String> {
    if old.is_some_and(|old| old["spec"]["template"] == set["spec"]["template"]) {
        return Vec::new();
    }
    super::pod_warnings::of_pod(&set["spec"]["template"], "spec.template")
}

pub(super) fn job(old: Option<&Value>, job: &Value) -> Vec<String> {
    let path = if job["spec"]["jobTemplate"].is_object() { "spec.jobTemplate.spec" } else { "spec" };
    let mut out = super::pod_warnings::of_template(old, job, &format!("{path}.template"));
    let spec = super::value::at(job, path);
    let many = |key: &str, most: i64| spec[key].as_i64().is_some_and(|number| number > most);
    let changed = old.is_none_or(|old| old["metadata"]["generation"] != job["metadata"]["generation"]);
    let indexed = text(spec, "completionMode") == "Indexed";
    if changed && indexed && many("completions", 100_000) && many("parallelism", 10_000) {
        let after_name =
            usize::from(out.first().is_some_and(|warning| warning.starts_with("metadata.name:")));
        out.insert(after_name, format!("{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"));
    }
    out
}
