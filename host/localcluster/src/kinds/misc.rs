//! Kinds of small groups: leases, endpoint slices, priority and runtime classes.

use serde_json::{Value, json};

use super::meta::{immutable, invalid_all, non_negative};
use super::names;
use super::spec::{Generation, Spec};
use super::value::{fill_null, flag, int, items, items_mut, remove, set, text};
use super::volume_sources::known;
use crate::status::FieldError;
use crate::table::{AGE, Column, Columns, NAME, age, boolean, column, name, number};

pub(super) fn spec(group: &str, plural: &str) -> Option<Spec> {
    Some(match (group, plural) {
        ("coordination.k8s.io", "leases") => lease(),
        ("discovery.k8s.io", "endpointslices") => endpoint_slice(),
        ("scheduling.k8s.io", "priorityclasses") => priority_class(),
        ("node.k8s.io", "runtimeclasses") => runtime_class(),
        ("resource.k8s.io", plural) => return super::dra::spec(plural),
        ("flowcontrol.apiserver.k8s.io", plural) => super::flowcontrol::spec(plural),
        ("apiregistration.k8s.io", _) => super::apiregistration::spec(),
        _ => return None,
    })
}

pub(super) const NAME_AND_AGE: &[Column] = &[NAME, AGE];

fn lease() -> Spec {
    const COLUMNS: &[Column] = &[NAME, column("Holder"), AGE];
    Spec {
        create_on_update: true,
        core_finalizers: false,
        unconditional: false,
        validate: |object| {
            let mut out = Vec::new();
            let spec = &object["spec"];
            if let Some(seconds) = spec["leaseDurationSeconds"].as_i64() {
                if seconds <= 0 {
                    let detail = "must be greater than 0";
                    out.push(FieldError::invalid("spec.leaseDurationSeconds", &json!(seconds), detail));
                }
            }
            non_negative(&mut out, "spec.leaseTransitions", int(spec, "leaseTransitions"));
            out
        },
        columns: Columns::Own(COLUMNS, |object, now| {
            vec![name(object), json!(text(&object["spec"], "holderIdentity")), age(object, now)]
        }),
        ..Spec::new()
    }
}

fn slice_ports(out: &mut Vec<FieldError>, object: &Value) {
    let ports = items(object, "ports");
    for (i, port) in ports.iter().enumerate() {
        let here = format!("ports[{i}]");
        let name = text(port, "name");
        let field = format!("{here}.name");
        if !name.is_empty() {
            invalid_all(out, &field, &json!(name), names::label(name));
        }
        if ports[..i].iter().any(|p| text(p, "name") == name) {
            out.push(FieldError::duplicate(field, &json!(name)));
        }
        known(out, &port["protocol"], &format!("{here}.protocol"), &["SCTP", "TCP", "UDP"]);
        if let Some(protocol) = port["appProtocol"].as_str() {
            let field = format!("{here}.appProtocol");
            invalid_all(out, &field, &json!(protocol), names::qualified_name(protocol));
        }
    }
}

fn slice_endpoints(object: &Value) -> Vec<FieldError> {
    const MAX: usize = 1000;
    let mut out = Vec::new();
    let endpoints = items(object, "endpoints");
    if endpoints.len() > MAX {
        out.push(FieldError::too_many("endpoints", endpoints.len(), MAX));
        return out;
    }
    for (i, endpoint) in endpoints.iter().enumerate() {
        slice_endpoint(&mut out, endpoint, text(object, "addressType"), &format!("endpoints[{i}]"));
    }
    out
}

fn slice_endpoint(out: &mut Vec<FieldError>, endpoint: &Value, kind: &str, path: &str) {
    let addresses = items(endpoint, "addresses");
    let list = format!("{path}.addresses");
    if addresses.is_empty() {
        out.push(FieldError::required(&list, "must contain at least 1 address"));
    } else if addresses.len() > 100 {
        out.push(FieldError::too_many(&list, addresses.len(), 100));
    }
    for (j, value) in addresses.iter().enumerate() {
        let field = format!("{list}[{j}]");
        let text = value.as_str().unwrap_or("");
        if kind == "FQDN" {
            invalid_all(out, &field, value, names::subdomain(text));
            continue;
        }
        let Ok(ip) = text.parse::<std::net::IpAddr>() else {
            super::ip_text::address(out, value, &field);
            continue;
        };
        if (kind == "IPv4" && !ip.is_ipv4()) || (kind == "IPv6" && !ip.is_ipv6()) {
            out.push(FieldError::invalid(&list, value, &format!("must be an {kind} address")));
        }
        super::service_validation::external_address(out, value, &field);
    }
    for (key, rule) in [("nodeName", names::subdomain as fn(&str) -> Vec<String>), ("hostname", names::label)]
    {
        if let Some(name) = endpoint[key].as_str() {
            invalid_all(out, &format!("{path}.{key}"), &json!(name), rule(name));
        }
    }
    hints(out, &endpoint["hints"], &format!("{path}.hints"));
}

/// Zones and nodes an endpoint is meant for.
fn hints(out: &mut Vec<FieldError>, hints: &Value, path: &str) {
    const MAX: usize = 8;
    for (key, rule) in
        [("forZones", names::label_value as fn(&str) -> Vec<String>), ("forNodes", names::subdomain)]
    {
        let all = items(hints, key);
        if all.len() > MAX {
            out.push(FieldError::too_many(format!("{path}.{key}"), all.len(), MAX));
            return;
        }
        for (i, hint) in all.iter().enumerate() {
            let (field, name) = (format!("{path}.{key}[{i}].name"), text(hint, "name"));
            if all[..i].iter().any(|other| text(other, "name") == name) {
                out.push(FieldError::duplicate(&field, &json!(name)));
            }
            invalid_all(out, &field, &json!(name), rule(name));
        }
    }
}

fn endpoint_slice() -> Spec {
    const COLUMNS: &[Column] = &[NAME, column("AddressType"), column("Ports"), column("Endpoints"), AGE];
    Spec {
        checks_meta: false,
        revalidates: true,
        warnings: super::warnings::endpoint_slice,
        generation: Generation::ContentAndLabels,
        default: |object| {
            for port in items_mut(object, "ports") {
                if port["name"].is_null() {
                    set(port, "name", "");
                }
                fill_null(port, "protocol", "TCP");
            }
            for endpoint in items_mut(object, "endpoints") {
                // This version has none.
                remove(endpoint, "deprecatedTopology");
            }
        },
        validate: |object| {
            let mut out = Vec::new();
            let kind = text(object, "addressType");
            let known = ["FQDN", "IPv4", "IPv6"];
            if kind.is_empty() {
                out.push(FieldError::required("addressType", ""));
            } else if !known.contains(&kind) {
                out.push(FieldError::not_supported("addressType", &json!(kind), &known));
            }
            slice_ports(&mut out, object);
            out
        },
        validate_create: slice_endpoints,
        validate_update: |old, new| {
            // What did not change is not looked at again: it may be older than the rules.
            let changed = old["endpoints"] != new["endpoints"];
            let mut out = if changed { slice_endpoints(new) } else { Vec::new() };
            immutable(&mut out, "addressType", &old["addressType"], &new["addressType"]);
            out
        },
        columns: Columns::Own(COLUMNS, |object, now| {
            const SHOWN: usize = 3;
            let more = |all: Vec<String>, none: &str| match all.len() {
                0 => none.to_owned(),
                n if n > SHOWN => format!("{} + {} more...", all[..SHOWN].join(","), n - SHOWN),
                _ => all.join(","),
            };
            let ports: Vec<String> = items(object, "ports")
                .iter()
                .map(|p| p["port"].as_i64().map_or("*".to_owned(), |n| n.to_string()))
                .collect();
            let addresses: Vec<String> = items(object, "endpoints")
                .iter()
                .flat_map(|e| items(e, "addresses"))
                .filter_map(|a| a.as_str().map(str::to_owned))
                .collect();
            vec![
                name(object),
                json!(text(object, "addressType")),
                json!(more(ports, "<unset>")),
                json!(more(addresses, "<unset>")),
                age(object, now),
            ]
        }),
        ..Spec::new()
    }
}

fn priority_class() -> Spec {
    const COLUMNS: &[Column] =
        &[NAME, number("Value"), boolean("Global-Default"), AGE, column("PreemptionPolicy")];
    Spec {
        generation: Generation::Spec,
        undeletable: |name| {
            let system = matches!(name, "system-node-critical" | "system-cluster-critical");
            system.then_some("this is a system priority class and cannot be deleted")
        },
        default: |object| fill_null(object, "preemptionPolicy", "PreemptLowerPriority"),
        validate_create: |object| {
            let mut out = Vec::new();
            let system = text(&object["metadata"], "name").starts_with("system-");
            let value = int(object, "value");
            if let Some(why) = reserved(object).filter(|_| system) {
                let detail = format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {why}"
                );
                out.push(FieldError::forbidden("metadata.name", &detail));
            } else if !system && value > 1_000_000_000 {
                let detail = "maximum allowed value of a user defined priority is 1000000000";
                out.push(FieldError::forbidden("value", detail));
            }
            let (policy, field) = (&object["preemptionPolicy"], "preemptionPolicy");
            if policy == "" {
                out.push(FieldError::required(field, ""));
            } else {
                known(&mut out, policy, field, &["PreemptLowerPriority", "Never"]);
            }
            out
        },
        validate_update: |old, new| {
            let mut out = Vec::new();
            if old["value"] != new["value"] {
                out.push(FieldError::forbidden("value", "may not be changed in an update."));
            }
            immutable(&mut out, "preemptionPolicy", &old["preemptionPolicy"], &new["preemptionPolicy"]);
            out
        },
        columns: Columns::Own(COLUMNS, |object, now| {
            vec![
                name(object),
                json!(int(object, "value")),
                json!(flag(object, "globalDefault")),
                age(object, now),
                json!(text(object, "preemptionPolicy")),
            ]
        }),
        ..Spec::new()
    }
}

/// Why a class is none of those that the system makes.
fn reserved(class: &Value) -> Option<String> {
    let name = text(&class["metadata"], "name");
    let wanted = match name {
        "system-node-critical" => 2_000_001_000,
        "system-cluster-critical" => 2_000_000_000,
        _ => return Some(format!("{name} is not a known system priority class")),
    };
    if int(class, "value") != wanted {
        return Some(format!("value of {name} PriorityClass must be {wanted}"));
    }
    flag(class, "globalDefault").then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

fn runtime_class() -> Spec {
    const COLUMNS: &[Column] = &[NAME, column("Handler"), AGE];
    Spec {
        warnings: super::warnings::runtime_class,
        create_on_update: true,
        revalidates: true,
        unconditional: false,
        validate: |object| {
            let mut out = Vec::new();
            let handler = text(object, "handler");
            if handler.is_empty() {
                out.push(FieldError::required("handler", ""));
            } else {
                invalid_all(&mut out, "handler", &json!(handler), names::label(handler));
            }
            let fixed = json!({"limits": object["overhead"]["podFixed"]});
            super::resources::requirements(&mut out, &fixed, "overhead");
            let scheduling = &object["scheduling"];
            super::meta::labels(&mut out, scheduling, "nodeSelector", "scheduling.nodeSelector");
            super::pod_scheduling::tolerations(&mut out, scheduling, "scheduling");
            let all = items(scheduling, "tolerations");
            for (i, it) in all.iter().enumerate().filter(|(i, it)| all[..*i].contains(it)) {
                let shown = super::internal::shown("Toleration", it);
                let field = format!("scheduling.tolerations[{i}]");
                let message = format!("Duplicate value: {shown}");
                out.push(FieldError::raw(crate::status::FieldReason::Duplicate, field, message));
            }
            out
        },
        validate_update: |old, new| {
            let mut out = Vec::new();
            immutable(&mut out, "handler", &old["handler"], &new["handler"]);
            out
        },
        columns: Columns::Own(COLUMNS, |object, now| {
            vec![name(object), json!(text(object, "handler")), age(object, now)]
        }),
        ..Spec::new()
    }
}
