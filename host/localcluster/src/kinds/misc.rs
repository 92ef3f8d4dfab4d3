//! Kinds of small groups: leases, endpoint slices, priority and runtime classes, flow control, API
//! services.

use serde_json::{Value, json};

use super::meta::{immutable, invalid_all, non_negative};
use super::names;
use super::spec::{Generation, Spec, StatusMeta};
use super::value::{child, fill, flag, int, items, items_mut, present, set, text};
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
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => Spec {
            columns: Columns::Own(SCHEMAS, |object, now| {
                let spec = &object["spec"];
                let method = match text(&spec["distinguisherMethod"], "type") {
                    "" => "<none>",
                    method => method,
                };
                vec![
                    name(object),
                    json!(text(&spec["priorityLevelConfiguration"], "name")),
                    json!(int(spec, "matchingPrecedence")),
                    json!(method),
                    age(object, now),
                    json!(dangling(object)),
                ]
            }),
            generation: Generation::Spec,
            status_meta: StatusMeta::KeepAll,
            default: |object| super::value::fill_zero(child(object, "spec"), "matchingPrecedence", 1000),
            ..Spec::new()
        },
        ("flowcontrol.apiserver.k8s.io", _) => priority_level(),
        ("apiregistration.k8s.io", _) => Spec {
            unconditional: false,
            status_meta: StatusMeta::KeepAll,
            default: |object| {
                if let Some(service) = present(child(object, "spec"), "service") {
                    fill(service, "port", 443);
                }
            },
            ..Spec::new()
        },
        _ => return None,
    })
}

const SCHEMAS: &[Column] = &[
    NAME,
    column("PriorityLevel"),
    column("MatchingPrecedence"),
    column("DistinguisherMethod"),
    AGE,
    column("MissingPL"),
];

/// Whether the priority level of a schema is missing.
fn dangling(schema: &Value) -> String {
    let conditions = items(&schema["status"], "conditions");
    let found = conditions.iter().find(|c| text(c, "type") == "Dangling");
    found.map_or("?".to_owned(), |c| text(c, "status").to_owned())
}

fn priority_level() -> Spec {
    const COLUMNS: &[Column] = &[
        NAME,
        column("Type"),
        column("NominalConcurrencyShares"),
        column("Queues"),
        column("HandSize"),
        column("QueueLengthLimit"),
        AGE,
    ];
    Spec {
        generation: Generation::Spec,
        status_meta: StatusMeta::KeepAll,
        default: |object| {
            let spec = child(object, "spec");
            if let Some(limited) = present(spec, "limited") {
                fill(limited, "nominalConcurrencyShares", 30);
                fill(limited, "lendablePercent", 0);
                if let Some(queues) = present(limited, "limitResponse").and_then(|r| present(r, "queuing")) {
                    super::value::fill_zero(queues, "handSize", 8);
                    super::value::fill_zero(queues, "queues", 64);
                    super::value::fill_zero(queues, "queueLengthLimit", 50);
                }
            }
            if let Some(exempt) = present(spec, "exempt") {
                fill(exempt, "nominalConcurrencyShares", 0);
                fill(exempt, "lendablePercent", 0);
            }
        },
        columns: Columns::Own(COLUMNS, |object, now| {
            let spec = &object["spec"];
            let queues = &spec["limited"]["limitResponse"]["queuing"];
            let or_none = |value: &Value| if value.is_null() { json!("<none>") } else { value.clone() };
            vec![
                name(object),
                json!(text(spec, "type")),
                or_none(&spec["limited"]["nominalConcurrencyShares"]),
                or_none(&queues["queues"]),
                or_none(&queues["handSize"]),
                or_none(&queues["queueLengthLimit"]),
                age(object, now),
            ]
        }),
        ..Spec::new()
    }
}

pub(super) const NAME_AND_AGE: &[Column] = &[NAME, AGE];

pub(super) fn spec_is_immutable(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    immutable(&mut out, "spec", &old["spec"], &new["spec"]);
    out
}

fn lease() -> Spec {
    const COLUMNS: &[Column] = &[NAME, column("Holder"), AGE];
    Spec {
        create_on_update: true,
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
            super::pod_dns::address(out, value, &field);
            continue;
        };
        if (kind == "IPv4" && !ip.is_ipv4()) || (kind == "IPv6" && !ip.is_ipv6()) {
            out.push(FieldError::invalid(&list, value, &format!("must be an {kind} address")));
        }
        super::service::external_address(out, value, &field);
    }
    for (key, rule) in [("nodeName", names::subdomain as fn(&str) -> Vec<String>), ("hostname", names::label)]
    {
        if let Some(name) = endpoint[key].as_str() {
            invalid_all(out, &format!("{path}.{key}"), &json!(name), rule(name));
        }
    }
}

fn endpoint_slice() -> Spec {
    const COLUMNS: &[Column] = &[NAME, column("AddressType"), column("Ports"), column("Endpoints"), AGE];
    Spec {
        generation: Generation::ContentAndLabels,
        default: |object| {
            for port in items_mut(object, "ports") {
                if port["name"].is_null() {
                    set(port, "name", "");
                }
                fill(port, "protocol", "TCP");
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
            let endpoints = items(object, "endpoints");
            if endpoints.len() > 1000 {
                out.push(FieldError::too_many("endpoints", endpoints.len(), 1000));
            }
            for (i, endpoint) in endpoints.iter().enumerate() {
                slice_endpoint(&mut out, endpoint, kind, &format!("endpoints[{i}]"));
            }
            out
        },
        validate_update: |old, new| {
            let mut out = Vec::new();
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
        generation: Generation::Content,
        default: |object| fill(object, "preemptionPolicy", "PreemptLowerPriority"),
        validate: |object| {
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
            let policy = text(object, "preemptionPolicy");
            let known = ["PreemptLowerPriority", "Never"];
            if !known.contains(&policy) {
                out.push(FieldError::not_supported("preemptionPolicy", &json!(policy), &known));
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
