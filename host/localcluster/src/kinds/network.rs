//! Group `networking.k8s.io`: Ingress, IngressClass, ServiceCIDR, IPAddress. NetworkPolicy has a file
//! of its own.

use serde_json::{Value, json};

use super::ip_text;
use super::meta::{immutable, invalid_all, path_segment};
use super::names;
use super::spec::{Generation, Order, Spec, StatusMeta};
use super::value::{child, fill_null, items, text};
use crate::status::{FieldError, FieldReason};
use crate::table::{AGE, Column, Columns, NAME, age, column, name};

pub(super) fn spec(plural: &str) -> Option<Spec> {
    Some(match plural {
        "ingresses" => ingress(),
        "ingressclasses" => ingress_class(),
        "networkpolicies" => super::network_policy::spec(),
        "servicecidrs" => service_cidr(),
        "ipaddresses" => ip_address(),
        _ => return None,
    })
}

fn ingress() -> Spec {
    const COLUMNS: &[Column] =
        &[NAME, column("Class"), column("Hosts"), column("Address"), column("Ports"), AGE];
    Spec {
        warnings: super::warnings::ingress,
        revalidates: true,
        generation: Generation::Spec,
        validate: ingress_validation,
        validate_create: class_annotation,
        validate_sub: |sub, _, new| if sub == "status" { balancer(new) } else { Vec::new() },
        columns: Columns::Own(COLUMNS, |object, now| {
            let spec = &object["spec"];
            let hosts: Vec<&str> =
                items(spec, "rules").iter().map(|r| text(r, "host")).filter(|h| !h.is_empty()).collect();
            let hosts = match hosts.len() {
                0 => "*".to_owned(),
                n if n > 3 => format!("{} + {} more...", hosts[..3].join(","), n - 3),
                _ => hosts.join(","),
            };
            let addresses: Vec<&str> = items(&object["status"]["loadBalancer"], "ingress")
                .iter()
                .map(|i| if text(i, "ip").is_empty() { text(i, "hostname") } else { text(i, "ip") })
                .collect();
            let ports = if items(spec, "tls").is_empty() { "80" } else { "80, 443" };
            let class = spec["ingressClassName"].as_str().unwrap_or("<none>");
            vec![
                name(object),
                json!(class),
                json!(hosts),
                json!(addresses.join(",")),
                json!(ports),
                age(object, now),
            ]
        }),
        ..Spec::new()
    }
}

fn ingress_validation(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = &object["spec"];
    if items(spec, "rules").is_empty() && spec["defaultBackend"].is_null() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        out.push(FieldError::invalid("spec", &Value::Null, detail));
    }
    if spec["defaultBackend"].is_object() {
        backend(&mut out, &spec["defaultBackend"], "spec.defaultBackend");
    }
    for (i, rule) in items(spec, "rules").iter().enumerate() {
        let here = format!("spec.rules[{i}]");
        let host = text(rule, "host");
        if !host.is_empty() {
            let field = format!("{here}.host");
            if host.parse::<std::net::IpAddr>().is_ok() {
                let detail = "must be a DNS name, not an IP address";
                out.push(FieldError::invalid(&field, &json!(host), detail));
            }
            dns_name(&mut out, host, &field);
        }
        if rule["http"].is_object() && items(&rule["http"], "paths").is_empty() {
            out.push(FieldError::required(format!("{here}.http.paths"), ""));
        }
        for (j, path) in items(&rule["http"], "paths").iter().enumerate() {
            let here = format!("{here}.http.paths[{j}]");
            let (kind, value) = (text(path, "pathType"), text(path, "path"));
            match kind {
                "" if path["pathType"].is_null() => {
                    out.push(FieldError::required(format!("{here}.pathType"), "pathType must be specified"));
                    continue;
                }
                "Exact" | "Prefix" => {
                    if !value.starts_with('/') {
                        let detail = "must be an absolute path";
                        out.push(FieldError::invalid(format!("{here}.path"), &json!(value), detail));
                    }
                    path_parts(&mut out, value, &format!("{here}.path"));
                }
                "ImplementationSpecific" => {
                    if !value.is_empty() && !value.starts_with('/') {
                        let detail = "must be an absolute path";
                        out.push(FieldError::invalid(format!("{here}.path"), &json!(value), detail));
                    }
                }
                other => {
                    let known = ["Exact", "ImplementationSpecific", "Prefix"];
                    out.push(FieldError::not_supported(format!("{here}.pathType"), &json!(other), &known));
                }
            }
            backend(&mut out, &path["backend"], &format!("{here}.backend"));
        }
    }
    for (i, tls) in items(spec, "tls").iter().enumerate() {
        let here = format!("spec.tls[{i}]");
        for (j, host) in items(tls, "hosts").iter().enumerate() {
            dns_name(&mut out, host.as_str().unwrap_or(""), &format!("{here}.hosts[{j}]"));
        }
        let secret = text(tls, "secretName");
        if !secret.is_empty() {
            invalid_all(&mut out, &format!("{here}.secretName"), &json!(secret), names::subdomain(secret));
        }
    }
    if let Some(class) = spec["ingressClassName"].as_str() {
        invalid_all(&mut out, "spec.ingressClassName", &json!(class), names::subdomain(class));
    }
    out
}

/// The annotation that named the class before there was a field agrees with it on a new object.
fn class_annotation(object: &Value) -> Vec<FieldError> {
    const KEY: &str = "kubernetes.io/ingress.class";
    let given = &object["metadata"]["annotations"][KEY];
    let class = &object["spec"]["ingressClassName"];
    if given.is_null() || class.is_null() || given == class {
        return Vec::new();
    }
    let detail = "must match `ingressClassName` when both are specified";
    vec![FieldError::invalid(format!("annotations.{KEY}"), given, detail)]
}

/// A host, whose first part may be a wildcard.
fn dns_name(out: &mut Vec<FieldError>, host: &str, field: &str) {
    let wrong = if host.contains('*') { names::wildcard_subdomain(host) } else { names::subdomain(host) };
    invalid_all(out, field, &json!(host), wrong);
}

/// What a path may not hold, anywhere or at its end.
fn path_parts(out: &mut Vec<FieldError>, path: &str, field: &str) {
    for part in ["//", "/./", "/../", "%2f", "%2F"] {
        if path.contains(part) {
            let detail = format!("must not contain '{part}'");
            out.push(FieldError::invalid(field, &json!(path), &detail));
        }
    }
    for end in ["/..", "/."] {
        if path.ends_with(end) {
            let detail = format!("cannot end with '{end}'");
            out.push(FieldError::invalid(field, &json!(path), &detail));
        }
    }
}

/// Where an ingress can be reached.
fn balancer(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let path = "status.loadBalancer.ingress";
    for (i, it) in items(&object["status"]["loadBalancer"], "ingress").iter().enumerate() {
        if !text(it, "ip").is_empty() {
            super::ip_text::address(&mut out, &it["ip"], &format!("{path}[{i}].ip"));
        }
        let host = text(it, "hostname");
        let field = format!("{path}[{i}].hostname");
        if !host.is_empty() {
            invalid_all(&mut out, &field, &json!(host), names::subdomain(host));
            if host.parse::<std::net::IpAddr>().is_ok() {
                let detail = "must be a DNS name, not an IP address";
                out.push(FieldError::invalid(field, &json!(host), detail));
            }
        }
    }
    out
}

fn backend(out: &mut Vec<FieldError>, backend: &Value, path: &str) {
    let service = &backend["service"];
    match (service.is_object(), backend["resource"].is_object()) {
        (false, false) => {
            let detail = "resource or service backend is required";
            out.push(FieldError::invalid(path, &json!(""), detail));
        }
        (true, true) => {
            let detail = "cannot set both resource and service backends";
            out.push(FieldError::invalid(path, &json!(""), detail));
        }
        (true, false) => {
            let name = text(service, "name");
            if name.is_empty() {
                out.push(FieldError::required(format!("{path}.service.name"), ""));
            } else {
                let field = format!("{path}.service.name");
                invalid_all(out, &field, &json!(name), names::label(name));
            }
            let port = &service["port"];
            if port["number"].is_null() && text(port, "name").is_empty() {
                out.push(FieldError::required(path, "port name or number is required"));
            } else if !port["number"].is_null() && !text(port, "name").is_empty() {
                let detail = "cannot set both port name & port number";
                out.push(FieldError::invalid(path, &json!(""), detail));
            } else if let Some(number) = port["number"].as_i64() {
                super::pod_validation::port_number(out, &format!("{path}.service.port.number"), number);
            } else {
                let name = text(port, "name");
                let field = format!("{path}.service.port.name");
                invalid_all(out, &field, &json!(name), names::port_name(name));
            }
        }
        (false, true) => {
            let resource = &backend["resource"];
            if let Some(group) = resource["apiGroup"].as_str() {
                let field = format!("{path}.resource.apiGroup");
                invalid_all(out, &field, &json!(group), names::subdomain(group));
            }
            for key in ["kind", "name"] {
                path_segment(out, text(resource, key), &format!("{path}.resource.{key}"), "");
            }
        }
    }
}

fn class_validation(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = &object["spec"];
    let controller = text(spec, "controller");
    if controller.len() > 250 {
        out.push(FieldError::too_long("spec.controller", 250));
    }
    if controller.is_empty() {
        out.push(FieldError::required("spec.controller", ""));
    } else {
        for (part, message) in names::domain_path(controller) {
            out.push(FieldError::invalid("spec.controller", &json!(part), &message));
        }
    }
    let parameters = &spec["parameters"];
    if parameters.is_null() {
        return out;
    }
    if let Some(group) = parameters["apiGroup"].as_str() {
        invalid_all(&mut out, "spec.parameters.apiGroup", &json!(group), names::subdomain(group));
    }
    for key in ["kind", "name"] {
        path_segment(&mut out, text(parameters, key), &format!("spec.parameters.{key}"), "");
    }
    let field = "spec.parameters.namespace";
    let namespace = parameters["namespace"].as_str();
    match text(parameters, "scope") {
        "" if parameters["scope"].is_null() => out.push(FieldError::required("spec.parameters.scope", "")),
        "Namespace" => match namespace {
            None => {
                out.push(FieldError::required(field, "`parameters.scope` is set to 'Namespace'"));
            }
            Some(name) => invalid_all(&mut out, field, &json!(name), names::label(name)),
        },
        "Cluster" => {
            if namespace.is_some() {
                out.push(FieldError::forbidden(field, "`parameters.scope` is set to 'Cluster'"));
            }
        }
        other => {
            let scopes = ["Cluster", "Namespace"];
            out.push(FieldError::not_supported("spec.parameters.scope", &json!(other), &scopes));
        }
    }
    out
}

fn ingress_class() -> Spec {
    const COLUMNS: &[Column] = &[NAME, column("Controller"), column("Parameters"), AGE];
    Spec {
        revalidates: true,
        order: Order::Change,
        generation: Generation::Spec,
        default: |object| {
            if let Some(parameters) = super::value::present(child(object, "spec"), "parameters") {
                fill_null(parameters, "scope", "Cluster");
            }
        },
        validate: class_validation,
        validate_update: |old, new| {
            let mut out = Vec::new();
            let (before, after) = (&old["spec"]["controller"], &new["spec"]["controller"]);
            immutable(&mut out, "spec.controller", before, after);
            out
        },
        columns: Columns::Own(COLUMNS, |object, now| {
            let spec = &object["spec"];
            let parameters = &spec["parameters"];
            let shown = if parameters.is_object() {
                let group = text(parameters, "apiGroup");
                let kind = text(parameters, "kind");
                let dot = if group.is_empty() { "" } else { "." };
                format!("{kind}{dot}{group}/{}", text(parameters, "name"))
            } else {
                "<none>".to_owned()
            };
            vec![name(object), json!(text(spec, "controller")), json!(shown), age(object, now)]
        }),
        ..Spec::new()
    }
}

fn service_cidr() -> Spec {
    const COLUMNS: &[Column] = &[NAME, column("CIDRs"), AGE];
    Spec {
        status_meta: StatusMeta::KeepAll,
        validate: |object| {
            let mut out = Vec::new();
            let ranges = items(&object["spec"], "cidrs");
            if ranges.is_empty() {
                out.push(FieldError::required("spec.cidrs", "at least one CIDR required"));
            }
            if ranges.len() > 2 {
                let shown = json!({ "CIDRs": ranges });
                out.push(FieldError::invalid("spec.cidrs", &shown, "may only hold up to 2 values"));
                return out;
            }
            for (i, range) in ranges.iter().enumerate() {
                let text = range.as_str().unwrap_or("");
                ip_text::canonical_range(&mut out, text, &format!("spec.cidrs[{i}]"));
            }
            let six = ranges.iter().filter(|r| r.as_str().is_some_and(|r| r.contains(':'))).count();
            if out.is_empty() && ranges.len() == 2 && six != 1 {
                let detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
                out.push(FieldError::invalid("spec.cidrs", &json!(ranges), detail));
            }
            out
        },
        validate_update: |old, new| {
            let mut out = Vec::new();
            let (before, after) = (items(&old["spec"], "cidrs"), items(&new["spec"], "cidrs"));
            for (i, (had, has)) in before.iter().zip(after).enumerate() {
                immutable(&mut out, &format!("spec.cidrs[{i}]"), had, has);
            }
            out
        },
        columns: Columns::Own(COLUMNS, |object, now| {
            let all: Vec<&str> = items(&object["spec"], "cidrs").iter().filter_map(Value::as_str).collect();
            vec![name(object), json!(all.join(",")), age(object, now)]
        }),
        ..Spec::new()
    }
}

fn ip_address() -> Spec {
    // The real server has a cell for the age too, without a column.
    const COLUMNS: &[Column] = &[NAME, column("ParentRef")];
    Spec {
        name: names::NameRule::Own(ip_text::name),
        revalidates: true,
        validate: |object| {
            let mut out = Vec::new();
            let parent = &object["spec"]["parentRef"];
            if parent.is_null() {
                out.push(FieldError::required("spec.parentRef", ""));
            } else {
                let group = text(parent, "group");
                if !group.is_empty() {
                    let messages = names::subdomain(group);
                    invalid_all(&mut out, "spec.parentRef.group", &json!(group), messages);
                }
                for key in ["resource", "name", "namespace"] {
                    let (field, value) = (format!("spec.parentRef.{key}"), text(parent, key));
                    if key != "namespace" || !value.is_empty() {
                        path_segment(&mut out, value, &field, "");
                    }
                }
            }
            out
        },
        validate_update: |old, new| {
            let mut out = Vec::new();
            let (before, after) = (&old["spec"]["parentRef"], &new["spec"]["parentRef"]);
            if before != after {
                let part = |key: &str| json!(text(after, key));
                let shown = match after {
                    Value::Null => "null".to_owned(),
                    _ => format!(
                        "{{\"Group\":{},\"Resource\":{},\"Namespace\":{},\"Name\":{}}}",
                        part("group"),
                        part("resource"),
                        part("namespace"),
                        part("name")
                    ),
                };
                let message = format!("Invalid value: {shown}: field is immutable");
                out.push(FieldError::raw(FieldReason::Invalid, "spec.parentRef", message));
            }
            out
        },
        columns: Columns::Own(COLUMNS, |object, now| {
            let parent = &object["spec"]["parentRef"];
            let mut parts = vec![text(parent, "resource").to_owned()];
            if !text(parent, "group").is_empty() {
                parts[0] = format!("{}.{}", parts[0], text(parent, "group"));
            }
            if !text(parent, "namespace").is_empty() {
                parts.push(text(parent, "namespace").to_owned());
            }
            parts.push(text(parent, "name").to_owned());
            vec![name(object), json!(parts.join("/")), age(object, now)]
        }),
        ..Spec::new()
    }
}
