//! Checks of services: addresses, ports, traffic and load balancers.
//!
//! In: a service with defaults and families. Out: what is wrong, in the order and the words of the real server.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::ip_text::{self, address};
use super::meta::invalid_all;
use super::names;
use super::pod_validation::{one_of, port_number};
use super::value::{empty, entries, int, items, text};
use super::volume_sources::known;
use crate::status::{FieldError, FieldReason};

const ONLY: &str = "may only be used when `type` is 'LoadBalancer'";

const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

pub(super) fn validate(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = &object["spec"];
    let type_name = text(spec, "type");
    let headless = text(spec, "clusterIP") == "None";
    if items(spec, "ports").is_empty() && !headless && type_name != "ExternalName" {
        out.push(FieldError::required("spec.ports", ""));
    }
    match type_name {
        "LoadBalancer" | "NodePort" if headless => {
            let detail = format!("may not be set to 'None' for {type_name} services");
            out.push(FieldError::invalid("spec.clusterIPs[0]", &json!("None"), &detail));
        }
        "ExternalName" => {
            for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if !empty(&spec[key]) {
                    let detail = "may not be set for ExternalName services";
                    out.push(FieldError::forbidden(format!("spec.{key}"), detail));
                }
            }
            let external = text(spec, "externalName");
            if external.is_empty() {
                out.push(FieldError::required("spec.externalName", ""));
            } else {
                let bare = external.trim_end_matches('.');
                invalid_all(&mut out, "spec.externalName", &json!(bare), names::subdomain(bare));
            }
        }
        _ => {}
    }
    ports(&mut out, spec);
    for (key, value) in entries(spec, "selector") {
        invalid_all(&mut out, "spec.selector", &json!(key), names::qualified_name(key));
        invalid_all(&mut out, "spec.selector", value, names::label_value(value.as_str().unwrap_or("")));
    }
    one_of(&mut out, spec, "spec", "sessionAffinity", &["ClientIP", "None"]);
    affinity(&mut out, spec);
    if type_name != "ExternalName" {
        cluster_addresses(&mut out, spec);
    }
    for (i, ip) in items(spec, "externalIPs").iter().enumerate() {
        external_address(&mut out, ip, &format!("spec.externalIPs[{i}]"));
    }
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    one_of(&mut out, spec, "spec", "type", &types);
    repeated_ports(&mut out, spec);
    balancer_fields(&mut out, object);
    traffic(&mut out, spec);
    out
}

fn affinity(out: &mut Vec<FieldError>, spec: &Value) {
    const DAY: i64 = 86_400;
    let config = &spec["sessionAffinityConfig"];
    match text(spec, "sessionAffinity") {
        "ClientIP" => {
            let field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
            let seconds = &config["clientIP"]["timeoutSeconds"];
            if seconds.as_i64().is_some_and(|s| s <= 0 || s > DAY) {
                let detail = format!("must be greater than 0 and less than {DAY}");
                out.push(FieldError::invalid(field, seconds, &detail));
            }
        }
        "None" if !config.is_null() => {
            let detail = "must not be set when session affinity is None";
            out.push(FieldError::forbidden("spec.sessionAffinityConfig", detail));
        }
        _ => {}
    }
}

/// What is wrong with addresses and families of a service that has any.
pub(super) fn cluster_addresses(out: &mut Vec<FieldError>, spec: &Value) {
    let (one, all) = (text(spec, "clusterIP"), items(spec, "clusterIPs"));
    let shown = &spec["clusterIPs"];
    if one.is_empty() {
        if !all.is_empty() {
            let detail = "must be empty when `clusterIP` is not specified";
            out.push(FieldError::invalid("spec.clusterIPs", shown, detail));
        }
    } else if all.is_empty() {
        out.push(FieldError::required("spec.clusterIPs", ""));
    } else if all[0] != one {
        let detail = "first value must match `clusterIP`";
        out.push(FieldError::invalid("spec.clusterIPs", shown, detail));
    }
    for (i, family) in items(spec, "ipFamilies").iter().enumerate() {
        let field = format!("spec.ipFamilies[{i}]");
        known(out, family, &field, &["IPv4", "IPv6"]);
        if items(spec, "ipFamilies")[..i].contains(family) {
            out.push(FieldError::duplicate(field, family));
        }
    }
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    known(out, &spec["ipFamilyPolicy"], "spec.ipFamilyPolicy", &policies);
    let before = out.len();
    for (i, ip) in all.iter().enumerate() {
        if i == 0 && ip == "None" {
            if all.len() > 1 {
                let detail = "'None' must be the first and only value";
                out.push(FieldError::invalid("spec.clusterIPs", shown, detail));
            }
            continue;
        }
        address(out, ip, &format!("spec.clusterIPs[{i}]"));
    }
    let malformed = out.len() > before;
    if all.len() > 2 {
        out.push(FieldError::invalid("spec.clusterIPs", shown, "may only hold up to 2 values"));
    }
    if malformed {
        return;
    }
    let six = |ip: &Value| ip.as_str().is_some_and(|ip| ip.contains(':'));
    if all.len() > 1 && !(all.iter().any(six) && all.iter().any(|ip| !six(ip))) {
        let detail = "may specify no more than one IP for each IP family";
        out.push(FieldError::invalid("spec.clusterIPs", shown, detail));
    }
    if one == "None" {
        return;
    }
    for (i, (ip, family)) in all.iter().zip(items(spec, "ipFamilies")).enumerate() {
        if (family == "IPv4" && six(ip)) || (family == "IPv6" && !six(ip)) {
            let wanted = family.as_str().unwrap_or("");
            let detail = format!("expected an {wanted} value as indicated by `ipFamilies[{i}]`");
            out.push(FieldError::invalid(format!("spec.clusterIPs[{i}]"), ip, &detail));
        }
    }
}

/// An address outside the cluster, where traffic can come from.
pub(super) fn external_address(out: &mut Vec<FieldError>, value: &Value, field: &str) {
    let Ok(ip) = value.as_str().unwrap_or("").parse::<IpAddr>() else {
        return address(out, value, field);
    };
    let linked = match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    let shared = match ip {
        IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => v6.segments()[0] == 0xff02,
    };
    let unspecified = format!("may not be unspecified ({})", value.as_str().unwrap_or(""));
    for (bad, detail) in [
        (ip.is_unspecified(), unspecified.as_str()),
        (ip.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (linked, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (shared, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ] {
        if bad {
            out.push(FieldError::invalid(field, value, detail));
        }
    }
}

fn repeated_ports(out: &mut Vec<FieldError>, spec: &Value) {
    let all = items(spec, "ports");
    if text(spec, "type") == "ClusterIP" {
        for (i, _) in all.iter().enumerate().filter(|(_, port)| int(port, "nodePort") != 0) {
            let detail = "may not be used when `type` is 'ClusterIP'";
            out.push(FieldError::forbidden(format!("spec.ports[{i}].nodePort"), detail));
        }
    }
    let same = |i: usize, key: &str| {
        all[..i].iter().any(|p| int(p, key) == int(&all[i], key) && p["protocol"] == all[i]["protocol"])
    };
    for (i, port) in all.iter().enumerate().filter(|(_, port)| int(port, "nodePort") != 0) {
        if same(i, "nodePort") {
            out.push(FieldError::duplicate(format!("spec.ports[{i}].nodePort"), &port["nodePort"]));
        }
    }
    for (i, port) in all.iter().enumerate() {
        if same(i, "port") {
            let message = format!(
                "Duplicate value: {{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                json!(text(port, "protocol")),
                int(port, "port")
            );
            out.push(FieldError::raw(FieldReason::Duplicate, format!("spec.ports[{i}]"), message));
        }
    }
}

fn balancer_fields(out: &mut Vec<FieldError>, object: &Value) {
    let spec = &object["spec"];
    let balanced = text(spec, "type") == "LoadBalancer";
    let ranges = items(spec, "loadBalancerSourceRanges");
    if !ranges.is_empty() && !balanced {
        out.push(FieldError::forbidden("spec.LoadBalancerSourceRanges", ONLY));
    }
    for (i, value) in ranges.iter().enumerate() {
        let field = format!("spec.LoadBalancerSourceRanges[{i}]");
        ip_text::range(out, value.as_str().unwrap_or("").trim(), &field);
    }
    // The annotation that was there before the field.
    if let Some(listed) = object["metadata"]["annotations"][SOURCE_RANGES].as_str() {
        let field = format!("metadata.annotations[{SOURCE_RANGES}]");
        if ranges.is_empty() && !balanced {
            out.push(FieldError::forbidden(&field, ONLY));
        }
        if ranges.is_empty() && !listed.trim().is_empty() {
            for value in listed.split(',') {
                ip_text::range(out, value.trim(), &field);
            }
        }
    }
    if !spec["allocateLoadBalancerNodePorts"].is_null() && !balanced {
        out.push(FieldError::forbidden("spec.allocateLoadBalancerNodePorts", ONLY));
    }
    balancer_class(out, spec);
}

/// `loadBalancerClass`, which changes are checked for once more.
pub(super) fn balancer_class(out: &mut Vec<FieldError>, spec: &Value) {
    let class = &spec["loadBalancerClass"];
    if !class.is_null() && text(spec, "type") != "LoadBalancer" {
        out.push(FieldError::forbidden("spec.loadBalancerClass", ONLY));
    } else if let Some(name) = class.as_str() {
        invalid_all(out, "spec.loadBalancerClass", class, names::qualified_name(name));
    }
}

/// Can be reached from outside of the cluster.
pub(super) fn is_reachable(spec: &Value) -> bool {
    match text(spec, "type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !items(spec, "externalIPs").is_empty(),
        _ => false,
    }
}

fn traffic(out: &mut Vec<FieldError>, spec: &Value) {
    let (type_name, external) = (text(spec, "type"), text(spec, "externalTrafficPolicy"));
    let field = "spec.externalTrafficPolicy";
    if is_reachable(spec) {
        one_of(out, spec, "spec", "externalTrafficPolicy", &["Cluster", "Local"]);
    } else if !external.is_empty() {
        let detail = "may only be set for externally-accessible services";
        out.push(FieldError::invalid(field, &json!(external), detail));
    }
    let port = int(spec, "healthCheckNodePort");
    let field = "spec.healthCheckNodePort";
    if type_name == "LoadBalancer" && external == "Local" {
        if port == 0 {
            out.push(FieldError::required(field, ""));
        } else {
            port_number(out, field, port);
        }
    } else if port != 0 {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        out.push(FieldError::invalid(field, &json!(port), detail));
    }
    known(out, &spec["internalTrafficPolicy"], "spec.internalTrafficPolicy", &["Cluster", "Local"]);
    let ways = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    known(out, &spec["trafficDistribution"], "spec.trafficDistribution", &ways);
}

fn ports(out: &mut Vec<FieldError>, spec: &Value) {
    let all = items(spec, "ports");
    let mut seen_names: Vec<&str> = Vec::new();
    for (i, port) in all.iter().enumerate() {
        let here = format!("spec.ports[{i}]");
        let port_name = text(port, "name");
        if port_name.is_empty() {
            if all.len() > 1 {
                out.push(FieldError::required(format!("{here}.name"), ""));
            }
        } else {
            invalid_all(out, &format!("{here}.name"), &json!(port_name), names::label(port_name));
            if seen_names.contains(&port_name) {
                out.push(FieldError::duplicate(format!("{here}.name"), &json!(port_name)));
            }
            seen_names.push(port_name);
        }
        port_number(out, &format!("{here}.port"), int(port, "port"));
        one_of(out, port, &here, "protocol", &["SCTP", "TCP", "UDP"]);
        match &port["targetPort"] {
            Value::Number(n) => {
                port_number(out, &format!("{here}.targetPort"), n.as_i64().unwrap_or(0));
            }
            Value::String(name) => {
                let field = format!("{here}.targetPort");
                invalid_all(out, &field, &json!(name), names::port_name(name));
            }
            _ => {}
        }
        if let Some(protocol) = port["appProtocol"].as_str() {
            let field = format!("{here}.appProtocol");
            invalid_all(out, &field, &json!(protocol), names::qualified_name(protocol));
        }
    }
}

/// Checks the addresses of the load balancer in the status.
pub(super) fn balancer(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let field = "status.loadBalancer.ingress";
    let all = items(&object["status"]["loadBalancer"], "ingress");
    if text(&object["spec"], "type") != "LoadBalancer" && !all.is_empty() {
        let detail = "may only be used when `spec.type` is 'LoadBalancer'";
        out.push(FieldError::forbidden(field, detail));
        return out;
    }
    for (i, ingress) in all.iter().enumerate() {
        let (ip, mode, host) = (text(ingress, "ip"), text(ingress, "ipMode"), text(ingress, "hostname"));
        if !ip.is_empty() && ip.parse::<std::net::IpAddr>().is_err() {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            out.push(FieldError::invalid(format!("{field}[{i}].ip"), &json!(ip), detail));
        }
        let at = format!("{field}[{i}].ipMode");
        if !mode.is_empty() && ip.is_empty() {
            out.push(FieldError::forbidden(at, "may not be specified when `ip` is not set"));
        } else if !matches!(mode, "" | "VIP" | "Proxy") {
            out.push(FieldError::not_supported(at, &json!(mode), &["Proxy", "VIP"]));
        }
        if !host.is_empty() {
            let at = format!("{field}[{i}].hostname");
            invalid_all(&mut out, &at, &json!(host), names::subdomain(host));
            if host.parse::<std::net::IpAddr>().is_ok() {
                let detail = "must be a DNS name, not an IP address";
                out.push(FieldError::invalid(at, &json!(host), detail));
            }
        }
    }
    out
}
