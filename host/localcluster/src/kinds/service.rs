//! Service.

use serde_json::{Value, json};

use super::meta::invalid_all;
use super::names::{self, NameRule};
use super::pod_validation::{one_of, port_number};
use super::service_ip::Services;
use super::spec::Spec;
use super::value::{child, empty, entries, fill, int, items, items_mut, present, set, text};
use crate::schema;
use crate::selector::label_selector_text;
use crate::status::{FieldError, FieldReason};
use crate::table::{AGE, Column, Columns, NAME, age, column, name, wide};

pub(super) fn spec() -> Spec {
    Spec {
        name: NameRule::Label,
        returns_deleted: true,
        create_on_update: true,
        default: defaults,
        allocator: Some(Box::new(Services::default())),
        validate,
        validate_update,
        validate_sub: |sub, _, new| if sub == "status" { balancer(new) } else { Vec::new() },
        field_names: &["spec.clusterIP", "spec.type"],
        fields: |object| {
            let spec = &object["spec"];
            vec![("spec.clusterIP", text(spec, "clusterIP").into()), ("spec.type", text(spec, "type").into())]
        },
        columns: Columns::Own(COLUMNS, cells),
        ..Spec::new()
    }
}

fn defaults(object: &mut Value) {
    let spec = child(object, "spec");
    fill(spec, "sessionAffinity", "None");
    if text(spec, "sessionAffinity") == "ClientIP" {
        let config = child(child(spec, "sessionAffinityConfig"), "clientIP");
        fill(config, "timeoutSeconds", 10_800);
    }
    fill(spec, "type", "ClusterIP");
    for port in items_mut(spec, "ports") {
        fill(port, "protocol", "TCP");
        let zero = match &port["targetPort"] {
            Value::Null => true,
            Value::Number(n) => n.as_i64() == Some(0),
            Value::String(s) => s.is_empty(),
            _ => false,
        };
        if zero {
            let number = port["port"].clone();
            set(port, "targetPort", number);
        }
    }
    let type_name = text(spec, "type").to_owned();
    let external = matches!(type_name.as_str(), "NodePort" | "LoadBalancer")
        || (type_name == "ClusterIP" && !empty(&spec["externalIPs"]));
    if external {
        fill(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(type_name.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        fill(spec, "internalTrafficPolicy", "Cluster");
    }
    if type_name == "LoadBalancer" {
        fill(spec, "allocateLoadBalancerNodePorts", true);
    }
    for ingress in present(object, "status")
        .and_then(|s| present(s, "loadBalancer"))
        .into_iter()
        .flat_map(|lb| items_mut(lb, "ingress").collect::<Vec<_>>())
    {
        if !text(ingress, "ip").is_empty() {
            fill(ingress, "ipMode", "VIP");
        }
    }
}

fn validate(object: &Value) -> Vec<FieldError> {
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
            let external = text(spec, "externalName");
            if external.is_empty() {
                out.push(FieldError::required("spec.externalName", ""));
            } else {
                let bare = external.trim_end_matches('.');
                invalid_all(&mut out, "spec.externalName", &json!(external), names::subdomain(bare));
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
    if type_name != "ExternalName" {
        for (i, ip) in items(spec, "clusterIPs").iter().enumerate() {
            let text = ip.as_str().unwrap_or("");
            if text != "None" && text.parse::<std::net::IpAddr>().is_err() {
                let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
                out.push(FieldError::invalid(format!("spec.clusterIPs[{i}]"), ip, detail));
            }
        }
    }
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    one_of(&mut out, spec, "spec", "type", &types);
    if !text(spec, "externalTrafficPolicy").is_empty() {
        one_of(&mut out, spec, "spec", "externalTrafficPolicy", &["Cluster", "Local"]);
    }
    if !text(spec, "internalTrafficPolicy").is_empty() {
        one_of(&mut out, spec, "spec", "internalTrafficPolicy", &["Cluster", "Local"]);
    }
    out
}

fn ports(out: &mut Vec<FieldError>, spec: &Value) {
    let all = items(spec, "ports");
    let type_name = text(spec, "type");
    let mut seen_names: Vec<&str> = Vec::new();
    let mut seen: Vec<(i64, &str)> = Vec::new();
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
        if !matches!(type_name, "NodePort" | "LoadBalancer") && int(port, "nodePort") != 0 {
            let detail = "may not be used when `type` is 'ClusterIP'";
            let field = format!("{here}.nodePort");
            out.push(FieldError::forbidden(field, detail));
        }
        let key = (int(port, "port"), text(port, "protocol"));
        if seen.contains(&key) {
            let value = json!({"name": "", "protocol": key.1, "port": key.0, "targetPort": 0});
            out.push(FieldError::duplicate(&here, &value));
        }
        seen.push(key);
    }
}

fn balancer(object: &Value) -> Vec<FieldError> {
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

fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let (before, after) = (&old["spec"], &new["spec"]);
    let had = !items(before, "clusterIPs").is_empty();
    let external = text(before, "type") == "ExternalName" || text(after, "type") == "ExternalName";
    if had && !external {
        let first = |spec: &Value| items(spec, "clusterIPs").first().cloned().unwrap_or(Value::Null);
        if first(before) != first(after) {
            let shown = schema::show(&schema::Type::Any, &after["clusterIPs"]);
            let message = format!("Invalid value: {shown}: may not change once set");
            out.push(FieldError::raw(FieldReason::Invalid, "spec.clusterIPs[0]", message));
        }
    }
    out
}

const COLUMNS: &[Column] = &[
    NAME,
    column("Type"),
    column("Cluster-IP"),
    column("External-IP"),
    column("Port(s)"),
    AGE,
    wide("Selector"),
];

fn cells(object: &Value, now: &str) -> Vec<Value> {
    let spec = &object["spec"];
    let address = match text(spec, "clusterIP") {
        "" => "<none>",
        address => address,
    };
    let ports: Vec<String> = items(spec, "ports")
        .iter()
        .map(|p| {
            let (port, protocol) = (int(p, "port"), text(p, "protocol"));
            match int(p, "nodePort") {
                0 => format!("{port}/{protocol}"),
                node => format!("{port}:{node}/{protocol}"),
            }
        })
        .collect();
    let ports = if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") };
    let selector = match label_selector_text(&json!({"matchLabels": spec["selector"]})) {
        text if text.is_empty() => "<none>".to_owned(),
        text => text,
    };
    vec![
        name(object),
        json!(text(spec, "type")),
        json!(address),
        json!(external(object)),
        json!(ports),
        age(object, now),
        json!(selector),
    ]
}

fn external(object: &Value) -> String {
    let spec = &object["spec"];
    let listed = |parent: &Value, key: &str| -> Vec<String> {
        items(parent, key).iter().filter_map(|v| v.as_str().map(str::to_owned)).collect()
    };
    let extra = listed(spec, "externalIPs");
    match text(spec, "type") {
        "ExternalName" => text(spec, "externalName").to_owned(),
        "LoadBalancer" => {
            let mut out: Vec<String> = items(&object["status"]["loadBalancer"], "ingress")
                .iter()
                .map(|i| match text(i, "ip") {
                    "" => text(i, "hostname").to_owned(),
                    ip => ip.to_owned(),
                })
                .collect();
            out.extend(extra);
            if out.is_empty() { "<pending>".into() } else { out.join(",") }
        }
        _ if extra.is_empty() => "<none>".into(),
        _ => extra.join(","),
    }
}
