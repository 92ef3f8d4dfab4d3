//! NetworkPolicy.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::ip_text;
use super::meta::invalid_all;
use super::names;
use super::pod_validation::{label_selector, port_number};
use super::spec::{Generation, Spec};
use super::value::{child, empty, fill_null, items, items_mut, set};
use super::volume_sources::known;
use crate::selector::label_selector_text;
use crate::status::FieldError;
use crate::table::{AGE, Column, Columns, NAME, age, column, name};

pub(super) fn spec() -> Spec {
    const COLUMNS: &[Column] = &[NAME, column("Pod-Selector"), AGE];
    Spec {
        warnings: super::warnings::network_policy,
        generation: Generation::Spec,
        default: |object| {
            let spec = child(object, "spec");
            for direction in ["ingress", "egress"] {
                for rule in items_mut(spec, direction) {
                    for port in items_mut(rule, "ports") {
                        fill_null(port, "protocol", "TCP");
                    }
                }
            }
            if empty(&spec["policyTypes"]) {
                let mut types = vec![json!("Ingress")];
                if !empty(&spec["egress"]) {
                    types.push(json!("Egress"));
                }
                set(spec, "policyTypes", types);
            }
        },
        validate,
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

fn validate(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = &object["spec"];
    label_selector(&mut out, &spec["podSelector"], "spec.podSelector");
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (i, rule) in items(spec, direction).iter().enumerate() {
            let here = format!("spec.{direction}[{i}]");
            for (j, it) in items(rule, "ports").iter().enumerate() {
                port(&mut out, it, &format!("{here}.ports[{j}]"));
            }
            for (j, it) in items(rule, peers).iter().enumerate() {
                peer(&mut out, it, &format!("{here}.{peers}[{j}]"));
            }
        }
    }
    let types = items(spec, "policyTypes");
    if types.len() > 2 {
        let detail = "may not specify more than two policyTypes";
        out.push(FieldError::invalid("spec.policyTypes", &spec["policyTypes"], detail));
        return out;
    }
    for (i, kind) in types.iter().enumerate() {
        known(&mut out, kind, &format!("spec.policyTypes[{i}]"), &["Ingress", "Egress"]);
    }
    out
}

fn port(out: &mut Vec<FieldError>, it: &Value, path: &str) {
    known(out, &it["protocol"], &format!("{path}.protocol"), &["TCP", "UDP", "SCTP"]);
    let (field, end) = (format!("{path}.port"), &it["endPort"]);
    let at_end = format!("{path}.endPort");
    match &it["port"] {
        Value::Number(n) => {
            let number = n.as_i64().unwrap_or(0);
            port_number(out, &field, number);
            if let Some(last) = end.as_i64() {
                if last < number {
                    let detail = "must be greater than or equal to `port`";
                    out.push(FieldError::invalid(&at_end, &json!(number), detail));
                }
                if !(1..=65_535).contains(&last) {
                    port_number(out, &at_end, last);
                }
            }
        }
        Value::String(name) => {
            if !end.is_null() {
                let detail = "may not be specified when `port` is non-numeric";
                out.push(FieldError::invalid(&at_end, end, detail));
            }
            invalid_all(out, &field, &json!(name), names::port_name(name));
        }
        _ if !end.is_null() => {
            let detail = "may not be specified when `port` is not specified";
            out.push(FieldError::invalid(&at_end, end, detail));
        }
        _ => {}
    }
}

fn peer(out: &mut Vec<FieldError>, it: &Value, path: &str) {
    let given = ["podSelector", "namespaceSelector", "ipBlock"].iter().filter(|k| !it[**k].is_null()).count();
    for key in ["podSelector", "namespaceSelector"] {
        label_selector(out, &it[key], &format!("{path}.{key}"));
    }
    let block = &it["ipBlock"];
    if !block.is_null() {
        ip_block(out, block, &format!("{path}.ipBlock"));
    }
    if given == 0 {
        out.push(FieldError::required(path, "must specify a peer"));
    } else if given > 1 && !block.is_null() {
        out.push(FieldError::forbidden(path, "may not specify both ipBlock and another peer"));
    }
}

/// A range as first address and number of bits, among all addresses of its family.
fn range(text: &str) -> Option<(u128, u32, bool)> {
    let (ip, bits) = text.split_once('/')?;
    let bits: u32 = bits.parse().ok()?;
    let (address, all, v6) = match ip.parse().ok()? {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)), 32, false),
        IpAddr::V6(v6) => (u128::from(v6), 128, true),
    };
    let host = all.min(128) - bits.min(all);
    Some((if host == 128 { 0 } else { address >> host << host }, bits, v6))
}

fn ip_block(out: &mut Vec<FieldError>, block: &Value, path: &str) {
    let whole = block["cidr"].as_str().unwrap_or("");
    let field = format!("{path}.cidr");
    if whole.is_empty() {
        out.push(FieldError::required(field, ""));
        return;
    }
    ip_text::range(out, whole, &field);
    let Some((start, bits, v6)) = range(whole) else { return };
    for (i, part) in items(block, "except").iter().enumerate() {
        let field = format!("{path}.except[{i}]");
        let text = part.as_str().unwrap_or("");
        ip_text::range(out, text, &field);
        let Some((inner, more, family)) = range(text) else { continue };
        let host = if v6 { 128 } else { 32 } - bits;
        let same = family == v6 && (host == 128 || inner >> host == start >> host);
        if !same || more <= bits {
            out.push(FieldError::invalid(field, part, "must be a strict subset of `cidr`"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_lie_inside_their_block() {
        let found = |except: &str| {
            let mut out = Vec::new();
            ip_block(&mut out, &json!({"cidr": "10.0.0.0/8", "except": [except]}), "b");
            out.len()
        };
        assert_eq!(["10.1.0.0/16", "11.0.0.0/16", "10.0.0.0/8", "x"].map(found), [0, 1, 1, 1]);
    }
}
