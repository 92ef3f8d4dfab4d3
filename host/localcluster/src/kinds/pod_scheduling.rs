//! Checks of what a pod asks of its node.

use serde_json::{Value, json};

use super::meta::invalid_all;
use super::names;
use super::pod_validation::label_selector;
use super::value::{empty, entries, int, items, items_mut, present, set, text};
use super::volume_sources::known;
use crate::status::FieldError;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn affinity(out: &mut Vec<FieldError>, affinity: &Value, path: &str) {
    let node = &affinity["nodeAffinity"];
    if !node[REQUIRED].is_null() {
        node_selector(out, &node[REQUIRED], &format!("{path}.nodeAffinity.{REQUIRED}"));
    }
    for (i, term) in items(node, PREFERRED).iter().enumerate() {
        let here = format!("{path}.nodeAffinity.{PREFERRED}[{i}]");
        weight(out, term, &here);
        node_term(out, &term["preference"], true, &format!("{here}.preference"));
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (i, term) in items(&affinity[kind], REQUIRED).iter().enumerate() {
            pod_term(out, term, &format!("{path}.{kind}.{REQUIRED}[{i}]"));
        }
        for (i, term) in items(&affinity[kind], PREFERRED).iter().enumerate() {
            let here = format!("{path}.{kind}.{PREFERRED}[{i}]");
            weight(out, term, &here);
            pod_term(out, &term["podAffinityTerm"], &format!("{here}.podAffinityTerm"));
        }
    }
}

fn weight(out: &mut Vec<FieldError>, term: &Value, path: &str) {
    let weight = int(term, "weight");
    if !(1..=100).contains(&weight) {
        let detail = "must be in the range 1-100";
        out.push(FieldError::invalid(format!("{path}.weight"), &json!(weight), detail));
    }
}

/// A `NodeSelector`.
pub(super) fn node_selector(out: &mut Vec<FieldError>, selector: &Value, path: &str) {
    let terms = items(selector, "nodeSelectorTerms");
    let field = format!("{path}.nodeSelectorTerms");
    if terms.is_empty() {
        out.push(FieldError::required(&field, "must have at least one node selector term"));
    }
    for (i, term) in terms.iter().enumerate() {
        node_term(out, term, false, &format!("{field}[{i}]"));
    }
}

fn node_term(out: &mut Vec<FieldError>, term: &Value, any_value: bool, path: &str) {
    for (i, requirement) in items(term, "matchExpressions").iter().enumerate() {
        node_requirement(out, requirement, any_value, &format!("{path}.matchExpressions[{i}]"));
    }
    for (i, requirement) in items(term, "matchFields").iter().enumerate() {
        node_field(out, requirement, &format!("{path}.matchFields[{i}]"));
    }
}

fn node_requirement(out: &mut Vec<FieldError>, it: &Value, any_value: bool, path: &str) {
    let values = items(it, "values");
    let field = format!("{path}.values");
    match text(it, "operator") {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            out.push(FieldError::required(&field, detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            out.push(FieldError::forbidden(&field, detail));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            out.push(FieldError::required(&field, detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => {
            let detail = "not a valid selector operator";
            out.push(FieldError::invalid(format!("{path}.operator"), &json!(other), detail));
        }
    }
    let key = text(it, "key");
    invalid_all(out, &format!("{path}.key"), &json!(key), names::qualified_name(key));
    if !any_value {
        for (i, value) in values.iter().enumerate() {
            let messages = names::label_value(value.as_str().unwrap_or(""));
            invalid_all(out, &format!("{field}[{i}]"), value, messages);
        }
    }
}

fn node_field(out: &mut Vec<FieldError>, it: &Value, path: &str) {
    let values = items(it, "values");
    match text(it, "operator") {
        "In" | "NotIn" => {
            if values.len() != 1 {
                let detail =
                    "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                out.push(FieldError::required(format!("{path}.values"), detail));
            }
        }
        other => {
            let detail = "not a valid selector operator";
            out.push(FieldError::invalid(format!("{path}.operator"), &json!(other), detail));
        }
    }
    if text(it, "key") != "metadata.name" {
        let detail = "not a valid field selector key";
        out.push(FieldError::invalid(format!("{path}.key"), &json!(text(it, "key")), detail));
        return;
    }
    for (i, value) in values.iter().enumerate() {
        let messages = names::subdomain(value.as_str().unwrap_or(""));
        invalid_all(out, &format!("{path}.values[{i}]"), value, messages);
    }
}

fn pod_term(out: &mut Vec<FieldError>, term: &Value, path: &str) {
    for key in ["labelSelector", "namespaceSelector"] {
        label_selector(out, &term[key], &format!("{path}.{key}"));
    }
    for name in items(term, "namespaces") {
        let messages = names::label(name.as_str().unwrap_or(""));
        invalid_all(out, &format!("{path}.namespace"), name, messages);
    }
    label_keys(out, term, path);
    let key = text(term, "topologyKey");
    let field = format!("{path}.topologyKey");
    if key.is_empty() {
        out.push(FieldError::required(&field, "can not be empty"));
    }
    invalid_all(out, &field, &json!(key), names::qualified_name(key));
}

/// `matchLabelKeys` and `mismatchLabelKeys` beside a `labelSelector`.
fn label_keys(out: &mut Vec<FieldError>, it: &Value, path: &str) {
    let selector = &it["labelSelector"];
    for list in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = items(it, list);
        if !keys.is_empty() && selector.is_null() {
            let detail = "must not be specified when labelSelector is not set";
            out.push(FieldError::forbidden(format!("{path}.{list}"), detail));
            continue;
        }
        for (i, key) in keys.iter().enumerate() {
            let messages = names::qualified_name(key.as_str().unwrap_or(""));
            invalid_all(out, &format!("{path}.{list}[{i}]"), key, messages);
        }
    }
    let wanted = items(it, "matchLabelKeys");
    let mut known: Vec<&str> = entries(selector, "matchLabels").map(|e| e.0.as_str()).collect();
    for expression in items(selector, "matchExpressions") {
        let key = text(expression, "key");
        if let (Some(i), true) = (wanted.iter().rposition(|w| w == key), known.contains(&key)) {
            let detail = "exists in both matchLabelKeys and labelSelector";
            out.push(FieldError::invalid(format!("{path}[{i}]"), &json!(key), detail));
        }
        known.push(key);
    }
    for (i, key) in wanted.iter().enumerate() {
        if items(it, "mismatchLabelKeys").contains(key) {
            let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
            out.push(FieldError::invalid(format!("{path}.matchLabelKeys[{i}]"), key, detail));
        }
    }
}

/// Turns `matchLabelKeys` into requirements of the selectors beside them, by the labels that a new pod has.
pub(super) fn select_own_labels(spec: &mut Value, labels: &Value) {
    let add = |it: &mut Value| {
        for (list, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
            for key in items(it, list).to_vec() {
                let value = &labels[key.as_str().unwrap_or("")];
                if value.is_null() || it["labelSelector"].is_null() {
                    continue;
                }
                let mut all = items(&it["labelSelector"], "matchExpressions").to_vec();
                all.push(json!({"key": key, "operator": operator, "values": [value]}));
                set(&mut it["labelSelector"], "matchExpressions", all);
            }
        }
    };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(terms) = present(spec, "affinity").and_then(|a| present(a, kind)) else { continue };
        items_mut(terms, REQUIRED).for_each(add);
        items_mut(terms, PREFERRED).filter_map(|t| present(t, "podAffinityTerm")).for_each(add);
    }
    items_mut(spec, "topologySpreadConstraints").for_each(add);
}

pub(super) fn topology(out: &mut Vec<FieldError>, spec: &Value, path: &str) {
    let all = items(spec, "topologySpreadConstraints");
    for (i, it) in all.iter().enumerate() {
        let here = format!("{path}.topologySpreadConstraints[{i}]");
        positive(out, int(it, "maxSkew"), &format!("{here}.maxSkew"));
        if text(it, "topologyKey").is_empty() {
            out.push(FieldError::required(format!("{here}.topologyKey"), "can not be empty"));
        }
        let action = text(it, "whenUnsatisfiable");
        known(
            out,
            &json!(action),
            &format!("{here}.whenUnsatisfiable"),
            &["DoNotSchedule", "ScheduleAnyway"],
        );
        let same = |other: &Value| {
            other["topologyKey"] == it["topologyKey"] && text(other, "whenUnsatisfiable") == action
        };
        if all[i + 1..].iter().any(same) {
            let shown = format!("{{{}, {action}}}", text(it, "topologyKey"));
            let field = format!("{here}.{{topologyKey, whenUnsatisfiable}}");
            out.push(FieldError::duplicate(field, &json!(shown)));
        }
        if let Some(domains) = it["minDomains"].as_i64() {
            let field = format!("{here}.minDomains");
            positive(out, domains, &field);
            if action != "DoNotSchedule" {
                let detail =
                    format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                out.push(FieldError::invalid(field, &json!(domains), &detail));
            }
        }
        for key in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            known(out, &it[key], &format!("{here}.{key}"), &["Honor", "Ignore"]);
        }
        label_keys(out, it, &here);
        label_selector(out, &it["labelSelector"], &format!("{here}.labelSelector"));
    }
}

fn positive(out: &mut Vec<FieldError>, number: i64, field: &str) {
    if number <= 0 {
        out.push(FieldError::invalid(field, &json!(number), "must be greater than zero"));
    }
}

pub(super) fn tolerations(out: &mut Vec<FieldError>, spec: &Value, path: &str) {
    for (i, it) in items(spec, "tolerations").iter().enumerate() {
        let here = format!("{path}.tolerations[{i}]");
        let (key, operator) = (text(it, "key"), text(it, "operator"));
        if !key.is_empty() {
            invalid_all(out, &format!("{here}.key"), &json!(key), names::qualified_name(key));
        } else if operator != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            out.push(FieldError::invalid(format!("{here}.operator"), &json!(operator), detail));
        }
        let effect = text(it, "effect");
        if !it["tolerationSeconds"].is_null() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            out.push(FieldError::invalid(format!("{here}.effect"), &json!(effect), detail));
        }
        match operator {
            "" | "Equal" => {
                let value = text(it, "value");
                let wrong = names::label_value(value);
                if !wrong.is_empty() {
                    let field = format!("{here}.operator");
                    out.push(FieldError::invalid(field, &json!(value), &wrong.join(";")));
                }
            }
            "Exists" => {
                if !text(it, "value").is_empty() {
                    let detail = "value must be empty when `operator` is 'Exists'";
                    let value = json!(text(it, "value"));
                    out.push(FieldError::invalid(format!("{here}.operator"), &value, detail));
                }
            }
            other => {
                // Comparing is off unless asked for, but known.
                let all = ["Equal", "Exists", "Lt", "Gt"];
                let known = if all.contains(&other) { &all[..] } else { &all[..2] };
                out.push(FieldError::not_supported(format!("{here}.operator"), &json!(other), known));
            }
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if !empty(&it["effect"]) {
            known(out, &it["effect"], &format!("{here}.effect"), &effects);
        }
    }
}
