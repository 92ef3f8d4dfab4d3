//! Service: defaults, what may change, warnings and columns.

use serde_json::{Value, json};

use super::ip_text;
use super::names::NameRule;
use super::service_ip::Services;
use super::service_validation::{balancer, validate};
use super::spec::{Order, Spec};
use super::value::{child, empty, fill, fill_null, int, items, items_mut, present, remove, set, text};
use crate::schema;
use crate::selector::label_selector_text;
use crate::status::{FieldError, FieldReason};
use crate::table::{AGE, Column, Columns, NAME, age, column, name, wide};

const HINTS: &str = "service.kubernetes.io/topology-aware-hints";

pub(super) fn spec() -> Spec {
    Spec {
        name: NameRule::Label,
        returns_deleted: true,
        create_on_update: true,
        default: defaults,
        allocator: Some(Box::new(Services::default())),
        validate,
        order: Order::Change,
        validate_update,
        warnings: |_, new| warnings(new),
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
    } else if text(spec, "sessionAffinity") == "None" {
        remove(spec, "sessionAffinityConfig");
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
        fill_null(spec, "internalTrafficPolicy", "Cluster");
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
            fill_null(ingress, "ipMode", "VIP");
        }
    }
}

/// What is said of fields that do nothing or are on their way out.
fn warnings(object: &Value) -> Vec<String> {
    let mut out = Vec::new();
    let spec = &object["spec"];
    if object["metadata"]["annotations"][HINTS].is_string() {
        let instead = "service.kubernetes.io/topology-mode";
        out.push(format!("annotation {HINTS} is deprecated, please use {instead} instead"));
    }
    let external = text(spec, "type") == "ExternalName";
    let headless = text(spec, "type") == "ClusterIP" && text(spec, "clusterIP") == "None";
    let addresses = |out: &mut Vec<String>, key: &str| {
        for (i, ip) in items(spec, key).iter().enumerate() {
            ip_text::address_warnings(out, ip.as_str().unwrap_or(""), &format!("spec.{key}[{i}]"));
        }
    };
    if !headless {
        addresses(&mut out, "clusterIPs");
    }
    let away = !items(spec, "externalIPs").is_empty();
    for (ignored, what) in [
        (!text(spec, "loadBalancerIP").is_empty(), "loadBalancerIP"),
        (away, "externalIPs"),
        (text(spec, "sessionAffinity") != "None", "SessionAffinity"),
    ] {
        if headless && ignored {
            out.push(format!("spec.{what} is ignored for headless services"));
        }
    }
    addresses(&mut out, "externalIPs");
    if away && !headless && !external {
        out.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".into());
    }
    ip_text::address_warnings(&mut out, text(spec, "loadBalancerIP"), "spec.loadBalancerIP");
    for (i, range) in items(spec, "loadBalancerSourceRanges").iter().enumerate() {
        let field = format!("spec.loadBalancerSourceRanges[{i}]");
        ip_text::range_warnings(&mut out, range.as_str().unwrap_or(""), &field);
    }
    if external && away {
        out.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".into());
    }
    if !external && !text(spec, "externalName").is_empty() {
        out.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".into());
    }
    if text(spec, "trafficDistribution") == "PreferClose" {
        out.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".into());
    }
    out
}

fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let (before, after) = (&old["spec"], &new["spec"]);
    let had = !items(before, "clusterIPs").is_empty();
    let external = text(before, "type") == "ExternalName" || text(after, "type") == "ExternalName";
    if had && !external {
        if before["clusterIP"] != after["clusterIP"] {
            let shown = schema::show(&schema::Type::Any, &after["clusterIPs"]);
            let message = format!("Invalid value: {shown}: may not change once set");
            out.push(FieldError::raw(FieldReason::Invalid, "spec.clusterIPs[0]", message));
        }
    }
    let balanced = |spec: &Value| text(spec, "type") == "LoadBalancer";
    let key = "loadBalancerClass";
    if balanced(before) && balanced(after) && before[key] != after[key] {
        out.push(FieldError::invalid("spec.loadBalancerClass", &after[key], "may not change once set"));
    }
    super::service_validation::balancer_class(&mut out, after);
    let checked = |spec: &Value| balanced(spec) && text(spec, "externalTrafficPolicy") == "Local";
    let key = "healthCheckNodePort";
    if checked(before) && checked(after) && before[key] != after[key] {
        out.push(FieldError::forbidden("spec.healthCheckNodePort", "field is immutable"));
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
