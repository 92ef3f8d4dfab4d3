//! Checks of what a pod asks of its node.

use serde_json::{Value, json};

use super::meta::invalid_all;
use super::names;
use super::value::{empty, int, items, text};
use crate::status::FieldError;

pub(super) fn affinity(out: &mut Vec<FieldError>, affinity: &Value, path: &str) {
    let required = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    if !required.is_null() && empty(&required["nodeSelectorTerms"]) {
        let field =
            format!("{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
        out.push(FieldError::required(field, "must have at least one node selector term"));
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let list = "requiredDuringSchedulingIgnoredDuringExecution";
        for (i, term) in items(&affinity[kind], list).iter().enumerate() {
            if text(term, "topologyKey").is_empty() {
                let field = format!("{path}.{kind}.{list}[{i}].topologyKey");
                out.push(FieldError::required(field, "can not be empty"));
            }
        }
    }
}

pub(super) fn topology(out: &mut Vec<FieldError>, spec: &Value, path: &str) {
    for (i, it) in items(spec, "topologySpreadConstraints").iter().enumerate() {
        let here = format!("{path}.topologySpreadConstraints[{i}]");
        let skew = int(it, "maxSkew");
        if skew <= 0 {
            let detail = "must be greater than zero";
            out.push(FieldError::invalid(format!("{here}.maxSkew"), &json!(skew), detail));
        }
        if text(it, "topologyKey").is_empty() {
            out.push(FieldError::required(format!("{here}.topologyKey"), "can not be empty"));
        }
        let action = text(it, "whenUnsatisfiable");
        let known = ["DoNotSchedule", "ScheduleAnyway"];
        if !known.contains(&action) {
            let field = format!("{here}.whenUnsatisfiable");
            out.push(FieldError::not_supported(field, &json!(action), &known));
        }
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
                invalid_all(out, &format!("{here}.operator"), &json!(value), names::label_value(value));
            }
            "Exists" => {
                if !text(it, "value").is_empty() {
                    let detail = "value must be empty when `operator` is 'Exists'";
                    let value = json!(text(it, "value"));
                    out.push(FieldError::invalid(format!("{here}.operator"), &value, detail));
                }
            }
            other => {
                let field = format!("{here}.operator");
                out.push(FieldError::not_supported(field, &json!(other), &["Equal", "Exists"]));
            }
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if !effect.is_empty() && !effects.contains(&effect) {
            let field = format!("{here}.effect");
            out.push(FieldError::not_supported(field, &json!(effect), &effects));
        }
    }
}
