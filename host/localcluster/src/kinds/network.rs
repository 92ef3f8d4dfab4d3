//! Group `networking.k8s.io`: Ingress, IngressClass, NetworkPolicy, ServiceCIDR, IPAddress.

use serde_json::{Value, json};

use super::meta::{immutable, invalid_all};
use super::names;
use super::pod_validation::label_selector;
use super::spec::{Generation, Spec, StatusMeta};
use super::value::{child, empty, fill, items, items_mut, text};
use crate::selector::label_selector_text;
use crate::status::FieldError;
use crate::table::{AGE, Column, Columns, NAME, age, column, name};

pub(super) fn spec(plural: &str) -> Option<Spec> {
    Some(match plural {
        "ingresses" => ingress(),
        "ingressclasses" => ingress_class(),
        "networkpolicies" => network_policy(),
        "servicecidrs" => service_cidr(),
        "ipaddresses" => ip_address(),
        _ => return None,
    })
}

fn ingress() -> Spec {
    const COLUMNS: &[Column] =
        &[NAME, column("Class"), column("Hosts"), column("Address"), column("Ports"), AGE];
    Spec {
        revalidates: true,
        generation: Generation::Spec,
        validate: ingress_validation,
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
            let bare = host.strip_prefix("*.").unwrap_or(host);
            invalid_all(&mut out, &format!("{here}.host"), &json!(host), names::subdomain(bare));
        }
        if rule["http"].is_object() && items(&rule["http"], "paths").is_empty() {
            out.push(FieldError::required(format!("{here}.http.paths"), ""));
        }
        for (j, path) in items(&rule["http"], "paths").iter().enumerate() {
            let here = format!("{here}.http.paths[{j}]");
            let (kind, value) = (text(path, "pathType"), text(path, "path"));
            match kind {
                "" => {
                    out.push(FieldError::required(format!("{here}.pathType"), "pathType must be specified"))
                }
                "Exact" | "Prefix" => {
                    if !value.starts_with('/') {
                        let detail = "must be an absolute path";
                        out.push(FieldError::invalid(format!("{here}.path"), &json!(value), detail));
                    }
                }
                "ImplementationSpecific" => {}
                other => {
                    let known = ["Exact", "ImplementationSpecific", "Prefix"];
                    out.push(FieldError::not_supported(format!("{here}.pathType"), &json!(other), &known));
                }
            }
            backend(&mut out, &path["backend"], &format!("{here}.backend"));
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
                invalid_all(out, &field, &json!(name), names::label_1035(name));
            }
            let port = &service["port"];
            if port["number"].is_null() && text(port, "name").is_empty() {
                out.push(FieldError::required(path, "port name or number is required"));
            }
        }
        (false, true) => {}
    }
}

fn ingress_class() -> Spec {
    const COLUMNS: &[Column] = &[NAME, column("Controller"), column("Parameters"), AGE];
    Spec {
        revalidates: true,
        generation: Generation::Spec,
        default: |object| {
            if let Some(parameters) = super::value::present(child(object, "spec"), "parameters") {
                fill(parameters, "scope", "Cluster");
            }
        },
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

fn network_policy() -> Spec {
    const COLUMNS: &[Column] = &[NAME, column("Pod-Selector"), AGE];
    Spec {
        generation: Generation::Spec,
        default: |object| {
            let spec = child(object, "spec");
            for direction in ["ingress", "egress"] {
                for rule in items_mut(spec, direction) {
                    for port in items_mut(rule, "ports") {
                        fill(port, "protocol", "TCP");
                    }
                }
            }
            if empty(&spec["policyTypes"]) {
                let mut types = vec![json!("Ingress")];
                if !empty(&spec["egress"]) {
                    types.push(json!("Egress"));
                }
                super::value::set(spec, "policyTypes", types);
            }
        },
        validate: |object| {
            let mut out = Vec::new();
            label_selector(&mut out, &object["spec"]["podSelector"], "spec.podSelector");
            let known = ["Egress", "Ingress"];
            for (i, kind) in items(&object["spec"], "policyTypes").iter().enumerate() {
                if !known.iter().any(|k| kind == k) {
                    let field = format!("spec.policyTypes[{i}]");
                    out.push(FieldError::not_supported(field, kind, &known));
                }
            }
            out
        },
        columns: Columns::Own(COLUMNS, |object, now| {
            let selector = match label_selector_text(&object["spec"]["podSelector"]) {
                text if text.is_empty() => "<none>".to_owned(),
                text => text,
            };
            vec![name(object), json!(selector), age(object, now)]
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
            for (i, range) in ranges.iter().enumerate() {
                let good = range.as_str().and_then(|r| r.split_once('/')).is_some_and(|(ip, bits)| {
                    ip.parse::<std::net::IpAddr>().is_ok() && bits.parse::<u8>().is_ok_and(|b| b <= 128)
                });
                if !good {
                    let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
                    out.push(FieldError::invalid(format!("spec.cidrs[{i}]"), range, detail));
                }
            }
            out
        },
        validate_update: |old, new| {
            let mut out = Vec::new();
            let (before, after) = (&old["spec"]["cidrs"], &new["spec"]["cidrs"]);
            immutable(&mut out, "spec.cidrs", before, after);
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
    const COLUMNS: &[Column] = &[NAME, column("ParentRef"), AGE];
    Spec {
        name: names::NameRule::PathSegment,
        validate: |object| {
            let mut out = Vec::new();
            let address = text(&object["metadata"], "name");
            if address.parse::<std::net::IpAddr>().is_err() {
                let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
                out.push(FieldError::invalid("metadata.name", &json!(address), detail));
            }
            let parent = &object["spec"]["parentRef"];
            if parent.is_null() {
                out.push(FieldError::required("spec.parentRef", ""));
            } else {
                for key in ["resource", "name"] {
                    if text(parent, key).is_empty() {
                        out.push(FieldError::required(format!("spec.parentRef.{key}"), ""));
                    }
                }
            }
            out
        },
        validate_update: |old, new| {
            let mut out = Vec::new();
            let (before, after) = (&old["spec"]["parentRef"], &new["spec"]["parentRef"]);
            immutable(&mut out, "spec.parentRef", before, after);
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
