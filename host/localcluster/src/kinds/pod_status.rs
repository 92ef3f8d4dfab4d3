//! Checks of what is written to the status of a pod.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::ip_text::address;
use super::meta::{immutable, invalid_all};
use super::names;
use super::pod_annotations;
use super::value::{items, text};
use crate::status::{FieldError, FieldReason};

pub(super) fn check(out: &mut Vec<FieldError>, old: &Value, new: &Value) {
    pod_annotations::change(out, old, new);
    let status = &new["status"];
    for (i, condition) in items(status, "conditions").iter().enumerate() {
        let ty = text(condition, "type");
        let field = format!("status.conditions[{i}].Type");
        invalid_all(out, &field, &json!(ty), names::qualified_name(ty));
    }
    if old["spec"]["nodeName"] != new["spec"]["nodeName"] {
        out.push(FieldError::forbidden("status.nodeName", "may not be changed directly"));
    }
    let nominated = text(status, "nominatedNodeName");
    if !nominated.is_empty() && nominated != text(&old["status"], "nominatedNodeName") {
        let field = "status.nominatedNodeName";
        invalid_all(out, field, &json!(nominated), names::subdomain(nominated));
        if !text(&old["spec"], "nodeName").is_empty() {
            let detail = "may not be set on pods that are already bound to a node";
            out.push(FieldError::forbidden(field, detail));
        }
    }
    immutable(out, "status.qosClass", &old["status"]["qosClass"], &status["qosClass"]);
    for list in ["containerStatuses", "initContainerStatuses"] {
        restarts(out, old, new, list);
    }
    let claims = items(status, "resourceClaimStatuses");
    for (i, claim) in claims.iter().enumerate() {
        let field = format!("status.resourceClaimStatuses[{i}].name");
        let name = text(claim, "name");
        if !items(&new["spec"], "resourceClaims").iter().any(|c| text(c, "name") == name) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            out.push(FieldError::invalid(&field, &json!(name), detail));
        }
        if claims[..i].iter().any(|c| text(c, "name") == name) {
            out.push(FieldError::duplicate(field, &json!(name)));
        }
    }
    addresses(out, items(status, "podIPs"), "status.podIPs");
    let hosts = items(status, "hostIPs");
    if let Some(first) = hosts.first().filter(|first| text(first, "ip") != text(status, "hostIP")) {
        let field = "status.hostIPs[0].ip";
        out.push(FieldError::invalid(field, &first["ip"], "must be equal to `hostIP`"));
    }
    addresses(out, hosts, "status.hostIPs");
}

/// Addresses of which there may be one a family.
fn addresses(out: &mut Vec<FieldError>, all: &[Value], field: &str) {
    for (i, it) in all.iter().enumerate() {
        address(out, &it["ip"], &format!("{field}[{i}]"));
    }
    let parsed: Vec<IpAddr> = all.iter().filter_map(|it| text(it, "ip").parse().ok()).collect();
    let both = parsed.iter().any(IpAddr::is_ipv4) && parsed.iter().any(IpAddr::is_ipv6);
    if all.len() > 1 && parsed.len() == all.len() && (!both || all.len() > 2) {
        let shown: Vec<Value> = all.iter().map(|it| json!({"IP": it["ip"]})).collect();
        let detail = "may specify no more than one IP for each IP family";
        let message = format!("Invalid value: {}: {detail}", json!(shown));
        out.push(FieldError::raw(FieldReason::Invalid, field, message));
    }
}

/// A container that ended does not run again unless its pod restarts it.
fn restarts(out: &mut Vec<FieldError>, old: &Value, new: &Value, list: &str) {
    let policy = text(&old["spec"], "restartPolicy");
    for (i, before) in items(&old["status"], list).iter().enumerate() {
        let ended = &before["state"]["terminated"];
        let code = ended["exitCode"].as_i64().unwrap_or(0);
        let own = items(&old["spec"], "containers").iter().find(|c| c["name"] == before["name"]);
        let policy = own.and_then(|c| c["restartPolicy"].as_str()).unwrap_or(policy);
        if ended.is_null() || policy == "Always" || (policy == "OnFailure" && code != 0) {
            continue;
        }
        let again = |after: &Value| after["name"] == before["name"] && after["state"]["terminated"].is_null();
        if items(&new["status"], list).iter().any(again) {
            let detail = "may not be transitioned to non-terminated state";
            out.push(FieldError::forbidden(format!("status.{list}[{i}].state"), detail));
        }
    }
}
