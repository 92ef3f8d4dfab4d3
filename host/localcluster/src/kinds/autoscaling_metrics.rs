//! Checks of what a HorizontalPodAutoscaler measures and how it scales.

use serde_json::{Value, json};

use super::meta::{invalid_all, path_segment};
use super::names;
use super::resources::limit_resource;
use super::resources::quantity;
use super::value::{int, items, text};
use super::volume_sources::known;
use crate::status::FieldError;

const MAX_WINDOW: i64 = 3600;
const MAX_PERIOD: i64 = 1800;
/// Sources of metrics: the type, its field, in the order in which the real server looks at them.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

/// A reference to an object that has a scale, or a metric.
pub(super) fn reference(out: &mut Vec<FieldError>, target: &Value, field: &str, group_needed: bool) {
    for key in ["kind", "name"] {
        path_segment(out, text(target, key), &format!("{field}.{key}"), "");
    }
    let (field, version) = (format!("{field}.apiVersion"), text(target, "apiVersion"));
    if version.split('/').count() > 2 {
        let detail = format!("unexpected GroupVersion string: {version}");
        out.push(FieldError::invalid(field, &json!(version), &detail));
    } else if group_needed && !version.contains('/') {
        let detail = "apiVersion must specify API group";
        out.push(FieldError::invalid(field, &json!(version), detail));
    }
}

/// `spec.metrics`.
pub(super) fn metrics(out: &mut Vec<FieldError>, spec: &Value) {
    for (i, metric) in items(spec, "metrics").iter().enumerate() {
        one(out, metric, &format!("spec.metrics[{i}]"));
    }
    let outside = |m: &Value| ["Object", "External"].contains(&text(m, "type"));
    if spec["minReplicas"] == 0 && !items(spec, "metrics").iter().any(outside) {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        out.push(FieldError::forbidden("spec.metrics", detail));
    }
}

fn one(out: &mut Vec<FieldError>, metric: &Value, here: &str) {
    let kind = text(metric, "type");
    let field = format!("{here}.type");
    let unknown = || FieldError::not_supported(&field, &json!(kind), &TYPES);
    if kind.is_empty() {
        out.push(FieldError::required(&field, "must specify a metric source type"));
    }
    if !TYPES.contains(&kind) {
        out.push(unknown());
    }
    let mut present: Vec<&str> =
        SOURCES.iter().map(|(_, key)| *key).filter(|key| !metric[*key].is_null()).collect();
    if let Some(first) = present.first() {
        source(out, first, &metric[*first], &format!("{here}.{first}"));
    }
    match SOURCES.iter().find(|(name, _)| *name == kind) {
        None => out.push(unknown()),
        Some((_, key)) => {
            if metric[*key].is_null() {
                let detail = "must populate information for the given metric source";
                out.push(FieldError::required(format!("{here}.{key}"), detail));
            }
            if present.len() != 1 {
                present.retain(|other| other != key);
            } else {
                present.clear();
            }
            for other in present {
                let detail = "must populate the given metric source only";
                out.push(FieldError::forbidden(format!("{here}.{other}"), detail));
            }
        }
    }
}

fn source(out: &mut Vec<FieldError>, key: &str, source: &Value, here: &str) {
    let at = |name: &str| format!("{here}.target.{name}");
    if key == "object" {
        reference(out, &source["describedObject"], &format!("{here}.describedObject"), false);
    }
    if matches!(key, "object" | "external" | "pods") {
        let field = format!("{here}.metric.name");
        path_segment(out, text(&source["metric"], "name"), &field, "must specify a metric name");
    } else if text(source, "name").is_empty() {
        out.push(FieldError::required(format!("{here}.name"), "must specify a resource name"));
    } else if key == "containerResource" {
        limit_resource(out, text(source, "name"), &format!("{here}.name"));
    }
    if key == "containerResource" {
        let (field, container) = (format!("{here}.container"), text(source, "container"));
        if container.is_empty() {
            out.push(FieldError::required(field, "must specify a container"));
        } else {
            invalid_all(out, &field, &json!(container), names::label(container));
        }
    }
    let target = &source["target"];
    target_values(out, target, &at);
    let (value, average) = (!target["value"].is_null(), !target["averageValue"].is_null());
    let utilization = !target["averageUtilization"].is_null();
    match key {
        "object" if !value && !average => {
            let detail = "must set either a target value or averageValue";
            out.push(FieldError::required(at("averageValue"), detail));
        }
        "external" if !value && !average => {
            let detail = "must set either a target value for metric or a per-pod target";
            out.push(FieldError::required(at("averageValue"), detail));
        }
        "external" if value && average => {
            let detail = "may not set both a target value for metric and a per-pod target";
            out.push(FieldError::forbidden(at("value"), detail));
        }
        "pods" if !average => {
            let detail = "must specify a positive target averageValue";
            out.push(FieldError::required(at("averageValue"), detail));
        }
        "resource" | "containerResource" if !utilization && !average => {
            let detail = "must set either a target raw value or a target utilization";
            out.push(FieldError::required(at("averageUtilization"), detail));
        }
        "resource" | "containerResource" if utilization && average => {
            let detail = "may not set both a target raw value and a target utilization";
            out.push(FieldError::forbidden(at("averageValue"), detail));
        }
        _ => {}
    }
}

fn target_values(out: &mut Vec<FieldError>, target: &Value, at: &dyn Fn(&str) -> String) {
    let kind = text(target, "type");
    if kind.is_empty() {
        out.push(FieldError::required(at("type"), "must specify a metric target type"));
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind) {
        let detail = "must be either Utilization, Value, or AverageValue";
        out.push(FieldError::invalid(at("type"), &json!(kind), detail));
    }
    for key in ["value", "averageValue"] {
        let amount = &target[key];
        if !amount.is_null() && (quantity(amount).is_zero() || quantity(amount).is_negative()) {
            out.push(FieldError::invalid(at(key), amount, "must be positive"));
        }
    }
    let percent = &target["averageUtilization"];
    if percent.as_i64().is_some_and(|percent| percent < 1) {
        out.push(FieldError::invalid(at("averageUtilization"), percent, "must be greater than 0"));
    }
}

/// `spec.behavior`.
pub(super) fn behavior(out: &mut Vec<FieldError>, behavior: &Value) {
    for direction in ["scaleUp", "scaleDown"] {
        let rules = &behavior[direction];
        if !rules.is_null() {
            scaling_rules(out, rules, &format!("spec.behavior.{direction}"));
        }
    }
}

fn scaling_rules(out: &mut Vec<FieldError>, rules: &Value, here: &str) {
    let window = &rules["stabilizationWindowSeconds"];
    let field = format!("{here}.stabilizationWindowSeconds");
    if window.as_i64().is_some_and(|seconds| seconds < 0) {
        out.push(FieldError::invalid(&field, window, "must be greater than or equal to zero"));
    }
    if window.as_i64().is_some_and(|seconds| seconds > MAX_WINDOW) {
        let detail = format!("must be less than or equal to {MAX_WINDOW}");
        out.push(FieldError::invalid(&field, window, &detail));
    }
    let field = format!("{here}.selectPolicy");
    known(out, &rules["selectPolicy"], &field, &["Disabled", "Max", "Min"]);
    if items(rules, "policies").is_empty() {
        out.push(FieldError::required(format!("{here}.policies"), "must specify at least one Policy"));
    }
    for (i, policy) in items(rules, "policies").iter().enumerate() {
        let at = |key: &str| format!("{here}.policies[{i}].{key}");
        let kind = text(policy, "type");
        if !["Percent", "Pods"].contains(&kind) {
            out.push(FieldError::not_supported(at("type"), &json!(kind), &["Percent", "Pods"]));
        }
        for key in ["value", "periodSeconds"] {
            if int(policy, key) <= 0 {
                let value = json!(int(policy, key));
                out.push(FieldError::invalid(at(key), &value, "must be greater than zero"));
            }
        }
        if int(policy, "periodSeconds") > MAX_PERIOD {
            let detail = format!("must be less than or equal to {MAX_PERIOD}");
            out.push(FieldError::invalid(at("periodSeconds"), &policy["periodSeconds"], &detail));
        }
    }
    let tolerance = &rules["tolerance"];
    if !tolerance.is_null() && quantity(tolerance).is_negative() {
        let detail = "must be greater than or equal to 0";
        out.push(FieldError::invalid(format!("{here}.tolerance"), tolerance, detail));
    }
}
