//! LimitRange and ResourceQuota.

use serde_json::{Value, json};

use super::internal;
use super::meta::{immutable, invalid_all};
use super::names;
use super::resources::{amount_of, is_pages, limit_resource, quantity, resource_name};
use super::spec::Spec;
use super::value::{child, empty, entries, fill, items, items_mut, text};
use crate::status::{FieldError, FieldReason};
use crate::table::{AGE, Column, Columns, NAME, age, column, name};

pub(super) fn limit_range() -> Spec {
    Spec {
        checks_meta: false,
        revalidates: true,
        create_on_update: true,
        default: |object| {
            for limit in items_mut(child(object, "spec"), "limits") {
                if text(limit, "type") != "Container" {
                    continue;
                }
                // A maximum is a default limit, a default limit or minimum is a default request.
                let max = limit["max"].clone();
                let min = limit["min"].clone();
                merge(limit, "default", &max);
                let default = limit["default"].clone();
                merge(limit, "defaultRequest", &default);
                merge(limit, "defaultRequest", &min);
            }
        },
        validate: |object| {
            let mut out = Vec::new();
            let all = items(&object["spec"], "limits");
            for (i, limit) in all.iter().enumerate() {
                let here = format!("spec.limits[{i}]");
                type_name(&mut out, text(limit, "type"), &format!("{here}.type"));
                if all[..i].iter().any(|l| l["type"] == limit["type"]) {
                    let value = json!(text(limit, "type"));
                    out.push(FieldError::duplicate(format!("{here}.type"), &value));
                }
                one_limit(&mut out, limit, &here);
            }
            out
        },
        ..Spec::new()
    }
}

fn merge(limit: &mut Value, key: &str, from: &Value) {
    for (name, amount) in from.as_object().into_iter().flatten() {
        fill(child(limit, key), name, amount.clone());
    }
}

fn type_name(out: &mut Vec<FieldError>, ty: &str, field: &str) {
    let wrong = names::qualified_name(ty);
    if !wrong.is_empty() {
        invalid_all(out, field, &json!(ty), wrong);
    } else if !ty.contains('/') && !matches!(ty, "Pod" | "Container" | "PersistentVolumeClaim") {
        out.push(FieldError::invalid(field, &json!(ty), "must be a standard limit type or fully qualified"));
    }
}

fn one_limit(out: &mut Vec<FieldError>, limit: &Value, path: &str) {
    let ty = text(limit, "type");
    let mut keys: Vec<&String> = Vec::new();
    for list in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        if ty == "Pod" && list.starts_with("default") {
            if !empty(&limit[list]) {
                let detail = "may not be specified when `type` is 'Pod'";
                out.push(FieldError::forbidden(format!("{path}.{list}"), detail));
            }
            continue;
        }
        if list == "maxLimitRequestRatio" && ty == "PersistentVolumeClaim" {
            let bounded = ["min", "max"].iter().any(|key| !limit[*key]["storage"].is_null());
            if !bounded {
                let detail = "either minimum or maximum storage value is required, but neither was provided";
                out.push(FieldError::required(format!("{path}.limits"), detail));
            }
        }
        for (name, _) in entries(limit, list) {
            let field = format!("{path}.{list}[{name}]");
            if matches!(ty, "Pod" | "Container") {
                limit_resource(out, name, &field);
            } else {
                resource_name(out, name, &field);
            }
            if !keys.contains(&name) {
                keys.push(name);
            }
        }
    }
    for key in keys {
        relations(out, limit, key, path);
    }
}

/// How the bounds and defaults of one resource have to stand to each other.
fn relations(out: &mut Vec<FieldError>, limit: &Value, key: &str, path: &str) {
    let pod = text(limit, "type") == "Pod";
    let get = |list: &str| {
        if pod && list.starts_with("default") { &Value::Null } else { &limit[list][key] }
    };
    let shown = |value: &Value| quantity(value).to_string();
    // Lesser, greater, the words for both, where it is said and which value is shown.
    for (lesser, greater, words, field, value) in [
        ("min", "max", ("min", "max"), "min", "min"),
        ("min", "defaultRequest", ("min", "default request"), "defaultRequest", "defaultRequest"),
        ("defaultRequest", "max", ("default request", "max"), "defaultRequest", "defaultRequest"),
        (
            "defaultRequest",
            "default",
            ("default request", "default limit"),
            "defaultRequest",
            "defaultRequest",
        ),
        ("min", "default", ("min", "default"), "default", "min"),
        ("default", "max", ("default", "max"), "default", "max"),
    ] {
        let (low, high) = (get(lesser), get(greater));
        if low.is_null() || high.is_null() || !(quantity(low) > quantity(high)) {
            continue;
        }
        let detail =
            format!("{} value {} is greater than {} value {}", words.0, shown(low), words.1, shown(high));
        out.push(FieldError::invalid(format!("{path}.{field}[{key}]"), get(value), &detail));
    }
    let ratio = get("maxLimitRequestRatio");
    if !ratio.is_null() {
        let field = format!("{path}.maxLimitRequestRatio[{key}]");
        let value = quantity(ratio).milli_value() as f64 / 1000.0;
        if value < 1.0 {
            let detail = format!("ratio {} is less than 1", shown(ratio));
            out.push(FieldError::invalid(&field, ratio, &detail));
        }
        let (min, max) = (get("min"), get("max"));
        if !min.is_null() && !max.is_null() {
            let bound = quantity(max).milli_value() as f64 / quantity(min).milli_value() as f64;
            if value > bound {
                let detail = format!("ratio {} is greater than max/min = {bound:.6}", shown(ratio));
                out.push(FieldError::invalid(&field, ratio, &detail));
            }
        }
    }
    let (default, request) = (get("default"), get("defaultRequest"));
    let exact = is_pages(key) || (key.contains('/') && !key.contains("kubernetes.io/"));
    if exact && !default.is_null() && !request.is_null() && quantity(default) != quantity(request) {
        let detail = format!(
            "default value {} must equal to defaultRequest value {} in {key}",
            shown(default),
            shown(request)
        );
        out.push(FieldError::invalid(format!("{path}.defaultRequest[{key}]"), request, &detail));
    }
}

/// Resources that a quota may limit without naming a group.
fn is_quota_resource(name: &str) -> bool {
    const STANDARD: [&str; 19] = [
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.storage",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "persistentvolumeclaims",
        "configmaps",
        "services.nodeports",
        "services.loadbalancers",
    ];
    STANDARD.contains(&name) || is_pages(name) || name.starts_with("requests.hugepages-")
}

/// Amounts of resources in a quota, at `path`.
fn amounts(out: &mut Vec<FieldError>, parent: &Value, key: &str, path: &str) {
    for (resource, amount) in entries(parent, key) {
        let field = format!("{path}.{key}[{resource}]");
        resource_name(out, resource, &field);
        if !resource.contains('/') && !is_quota_resource(resource) {
            let detail = "must be a standard resource for quota";
            out.push(FieldError::invalid(&field, &json!(resource), detail));
        }
        amount_of(out, resource, amount, &field);
    }
}

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];

/// Whether a scope says anything about a resource.
fn scope_fits(scope: &str, resource: &str) -> bool {
    const OF_PODS: [&str; 6] =
        ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
    match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => resource == "pods" || OF_PODS.contains(&resource),
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

fn conflicts(scopes: &[&str]) -> usize {
    [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]]
        .iter()
        .filter(|pair| pair.iter().all(|scope| scopes.contains(scope)))
        .count()
}

fn scopes(out: &mut Vec<FieldError>, spec: &Value) {
    let given: Vec<&str> = items(spec, "scopes").iter().filter_map(Value::as_str).collect();
    let mut refuse = |detail: &str| {
        out.push(FieldError::invalid("spec.scopes", &spec["scopes"], detail));
    };
    let limited: Vec<&String> = entries(spec, "hard").map(|e| e.0).filter(|r| is_quota_resource(r)).collect();
    for scope in &given {
        if !SCOPES.contains(scope) {
            refuse("unsupported scope");
        }
        for _ in limited.iter().filter(|r| !scope_fits(scope, r)) {
            refuse("unsupported scope applied to resource");
        }
    }
    for _ in 0..conflicts(&given) {
        refuse("conflicting scopes");
    }
}

fn scope_selector(out: &mut Vec<FieldError>, spec: &Value) {
    const PATH: &str = "spec.scopeSelector.matchExpressions";
    let limited: Vec<&String> = entries(spec, "hard").map(|e| e.0).filter(|r| is_quota_resource(r)).collect();
    let all = items(&spec["scopeSelector"], "matchExpressions");
    for it in all {
        let (scope, operator) = (text(it, "scopeName"), text(it, "operator"));
        if !SCOPES.contains(&scope) {
            out.push(FieldError::invalid(format!("{PATH}.scopeName"), &json!(scope), "unsupported scope"));
        }
        for _ in limited.iter().filter(|r| !scope_fits(scope, r)) {
            let detail = "unsupported scope applied to resource";
            let expressions: Vec<String> =
                all.iter().map(|e| internal::capitalised(&["scopeName", "operator", "values"], e)).collect();
            let message =
                format!("Invalid value: {{\"MatchExpressions\":[{}]}}: {detail}", expressions.join(","));
            out.push(FieldError::raw(FieldReason::Invalid, PATH, message));
        }
        let plain = matches!(
            scope,
            "BestEffort" | "NotBestEffort" | "Terminating" | "NotTerminating" | "CrossNamespacePodAffinity"
        );
        let field = format!("{PATH}.operator");
        if plain && operator != "Exists" {
            let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            out.push(FieldError::invalid(&field, &json!(operator), detail));
        }
        let values = items(it, "values");
        match operator {
            "In" | "NotIn" => {
                if values.is_empty() {
                    let detail =
                        "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                    out.push(FieldError::required(format!("{PATH}.values"), detail));
                }
            }
            "Exists" | "DoesNotExist" => {
                if !values.is_empty() {
                    let detail =
                        "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                    out.push(FieldError::invalid(format!("{PATH}.values"), &it["values"], detail));
                }
            }
            other => out.push(FieldError::invalid(field, &json!(other), "not a valid selector operator")),
        }
    }
    let given: Vec<&str> = all.iter().map(|it| text(it, "scopeName")).collect();
    for _ in 0..conflicts(&given) {
        out.push(FieldError::invalid("spec.scopeSelector.scopes", &spec["scopes"], "conflicting scopes"));
    }
}

pub(super) fn quota() -> Spec {
    const COLUMNS: &[Column] = &[NAME, column("Request"), column("Limit"), AGE];
    Spec {
        warnings: super::warnings::quota,
        returns_deleted: true,
        validate: |object| {
            let mut out = Vec::new();
            amounts(&mut out, &object["spec"], "hard", "spec");
            scopes(&mut out, &object["spec"]);
            scope_selector(&mut out, &object["spec"]);
            out
        },
        validate_update: |old, new| {
            let mut out = Vec::new();
            let (before, after) = (&old["spec"]["scopes"], &new["spec"]["scopes"]);
            immutable(&mut out, "spec.scopes", before, after);
            out
        },
        validate_sub: |sub, _, new| {
            let mut out = Vec::new();
            if sub == "status" {
                for key in ["hard", "used"] {
                    amounts(&mut out, &new["status"], key, "status");
                }
            }
            out
        },
        columns: Columns::Own(COLUMNS, |object, now| {
            let (mut requests, mut limits) = (Vec::new(), Vec::new());
            let status = &object["status"];
            for (resource, hard) in entries(status, "hard") {
                let used = text(&status["used"], resource);
                let used = if used.is_empty() { "0" } else { used };
                let shown = format!("{resource}: {used}/{}", hard.as_str().unwrap_or(""));
                if resource.starts_with("limits") { limits.push(shown) } else { requests.push(shown) }
            }
            vec![name(object), json!(requests.join(", ")), json!(limits.join(", ")), age(object, now)]
        }),
        ..Spec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_has_scopes_that_fit_what_it_limits() {
        let cases: [(&str, &str, &[&str]); 9] = [
            ("Terminating", "pods", &[]),
            ("NotBestEffort", "limits.cpu", &[]),
            ("PriorityClass", "memory", &[]),
            ("CrossNamespacePodAffinity", "pods", &[]),
            ("VolumeAttributesClass", "requests.storage", &[]),
            ("BestEffort", "cpu", &["unsupported scope applied to resource"]),
            ("CrossNamespacePodAffinity", "services", &["unsupported scope applied to resource"]),
            ("VolumeAttributesClass", "pods", &["unsupported scope applied to resource"]),
            ("Anything", "pods", &["unsupported scope"]),
        ];
        for (scope, resource, want) in cases {
            let mut found = Vec::new();
            scopes(&mut found, &json!({ "scopes": [scope], "hard": { resource: "1" } }));
            let found: Vec<&str> = found.iter().map(|error: &FieldError| error.message.as_str()).collect();
            assert_eq!(found.len(), want.len(), "{scope} {resource}: {found:?}");
            assert!(
                found.iter().zip(want).all(|(error, detail)| error.ends_with(detail)),
                "{scope} {resource}: {found:?}"
            );
        }
    }
}
