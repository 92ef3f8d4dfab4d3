//! Checks of flow schemas and priority levels.

use serde_json::{Value, json};

use super::meta::invalid_all;
use super::names;
use super::value::{flag, int, items, text};
use super::volume_sources::known;
use crate::status::{FieldError, FieldReason};

const MAX_PRECEDENCE: i64 = 10_000;
const MAX_QUEUES: i64 = 10_000_000;
const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

/// Checks a flow schema.
pub(super) fn schema(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = &object["spec"];
    let precedence = int(spec, "matchingPrecedence");
    let field = "spec.matchingPrecedence";
    if precedence <= 0 {
        out.push(FieldError::invalid(field, &json!(precedence), "must be a positive value"));
    } else if precedence > MAX_PRECEDENCE {
        let detail = format!("must not be greater than {MAX_PRECEDENCE}");
        out.push(FieldError::invalid(field, &json!(precedence), &detail));
    }
    if precedence == 1 && text(&object["metadata"], "name") != "exempt" {
        let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
        out.push(FieldError::invalid(field, &json!(1), detail));
    }
    let method = &spec["distinguisherMethod"];
    if !method.is_null() && !matches!(text(method, "type"), "ByUser" | "ByNamespace") {
        let message = format!(
            "Unsupported value: {{\"Type\":{}}}: supported values: \"ByNamespace\", \"ByUser\"",
            json!(text(method, "type"))
        );
        out.push(FieldError::raw(FieldReason::NotSupported, "spec.distinguisherMethod.type", message));
    }
    let level = text(&spec["priorityLevelConfiguration"], "name");
    let field = "spec.priorityLevelConfiguration.name";
    if level.is_empty() {
        out.push(FieldError::required(field, "must reference a priority level"));
    } else {
        invalid_all(&mut out, field, &json!(level), names::subdomain(level));
    }
    for (i, rule) in items(spec, "rules").iter().enumerate() {
        policy_rule(&mut out, rule, &format!("spec.rules[{i}]"));
    }
    out
}

fn policy_rule(out: &mut Vec<FieldError>, rule: &Value, path: &str) {
    let subjects = items(rule, "subjects");
    if subjects.is_empty() {
        let detail = "subjects must contain at least one value";
        out.push(FieldError::required(format!("{path}.subjects"), detail));
    }
    for (i, it) in subjects.iter().enumerate() {
        subject(out, it, &format!("{path}.subjects[{i}]"));
    }
    let (resources, paths) = (items(rule, "resourceRules"), items(rule, "nonResourceRules"));
    if resources.is_empty() && paths.is_empty() {
        let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
        out.push(FieldError::required(path, detail));
    }
    for (i, rule) in resources.iter().enumerate() {
        resource_rule(out, rule, &format!("{path}.resourceRules[{i}]"));
    }
    for (i, rule) in paths.iter().enumerate() {
        path_rule(out, rule, &format!("{path}.nonResourceRules[{i}]"));
    }
}

fn subject(out: &mut Vec<FieldError>, subject: &Value, path: &str) {
    const KINDS: [(&str, &str); 3] =
        [("Group", "group"), ("ServiceAccount", "serviceAccount"), ("User", "user")];
    let kind = text(subject, "kind");
    let Some((_, own)) = KINDS.iter().find(|(name, _)| *name == kind) else {
        let known = ["Group", "ServiceAccount", "User"];
        out.push(FieldError::not_supported(format!("{path}.kind"), &json!(kind), &known));
        return;
    };
    let details = &subject[*own];
    if details.is_null() {
        let detail = format!("{own} is required when subject kind is '{kind}'");
        out.push(FieldError::required(format!("{path}.{own}"), &detail));
    } else {
        named(out, details, &format!("{path}.{own}"), *own == "serviceAccount");
    }
    for (other, key) in KINDS.iter().filter(|(_, key)| key != own) {
        if !subject[*key].is_null() {
            let detail = format!("{key} is forbidden when subject kind is not '{other}'");
            out.push(FieldError::forbidden(format!("{path}.{key}"), &detail));
        }
    }
}

fn named(out: &mut Vec<FieldError>, details: &Value, path: &str, account: bool) {
    let name = text(details, "name");
    let field = format!("{path}.name");
    if name.is_empty() {
        out.push(FieldError::required(&field, ""));
    } else if account && name != "*" {
        invalid_all(out, &field, &json!(name), names::subdomain(name));
    }
    if !account {
        return;
    }
    let (namespace, field) = (text(details, "namespace"), format!("{path}.namespace"));
    if namespace.is_empty() {
        out.push(FieldError::required(field, "must specify namespace for service account"));
    } else {
        invalid_all(out, &field, &json!(namespace), names::label(namespace));
    }
}

/// A list that either holds everything or names what it holds.
fn all_or_some(
    out: &mut Vec<FieldError>,
    rule: &Value,
    key: &str,
    path: &str,
    missing: &str,
    what: &str,
) -> bool {
    let list = items(rule, key);
    let field = format!("{path}.{key}");
    if list.is_empty() {
        out.push(FieldError::required(field, missing));
    } else if list.len() > 1 && list.iter().any(|it| it == "*") {
        let detail = format!("if '*' is present, must not specify other {what}");
        out.push(FieldError::invalid(field, &rule[key], &detail));
    } else {
        return true;
    }
    false
}

fn verbs(out: &mut Vec<FieldError>, rule: &Value, path: &str) {
    let missing = "verbs must contain at least one value";
    if all_or_some(out, rule, "verbs", path, missing, "verbs")
        && !items(rule, "verbs").iter().all(|v| v == "*" || VERBS.contains(&v.as_str().unwrap_or("")))
    {
        out.push(FieldError::not_supported(format!("{path}.verbs"), &rule["verbs"], &VERBS));
    }
}

fn resource_rule(out: &mut Vec<FieldError>, rule: &Value, path: &str) {
    verbs(out, rule, path);
    let missing = "resource rules must supply at least one api group";
    all_or_some(out, rule, "apiGroups", path, missing, "api groups");
    let missing = "resource rules must supply at least one resource";
    all_or_some(out, rule, "resources", path, missing, "resources");
    if items(rule, "namespaces").is_empty() && flag(rule, "clusterScope") {
        return;
    }
    let missing = "resource rules that are not cluster scoped must supply at least one namespace";
    if all_or_some(out, rule, "namespaces", path, missing, "namespaces") {
        for (i, namespace) in items(rule, "namespaces").iter().enumerate().filter(|(_, n)| **n != "*") {
            let messages = names::label(namespace.as_str().unwrap_or("")).into_iter();
            let messages =
                messages.map(|m| format!("each member of this list must be '*' or a DNS-1123 label; {m}"));
            invalid_all(out, &format!("{path}.namespaces[{i}]"), namespace, messages);
        }
    }
}

fn path_rule(out: &mut Vec<FieldError>, rule: &Value, path: &str) {
    verbs(out, rule, path);
    let missing = "nonResourceURLs must contain at least one value";
    if !all_or_some(out, rule, "nonResourceURLs", path, missing, "non-resource URLs") {
        return;
    }
    for (i, url) in items(rule, "nonResourceURLs").iter().enumerate().filter(|(_, url)| **url != "*") {
        let text = url.as_str().unwrap_or("");
        let detail = if text.is_empty() {
            "must not be empty"
        } else if !text.starts_with('/') {
            "must start with slash"
        } else if text.contains("//") {
            "must not contain double slash"
        } else if text.contains(' ') {
            "must not contain white-space"
        } else if text.strip_suffix('*').unwrap_or(text).contains('*') {
            "wildcard can only do suffix matching"
        } else {
            continue;
        };
        out.push(FieldError::invalid(format!("{path}.nonResourceURLs[{i}]"), url, detail));
    }
}

/// Conditions have types, each one of its own.
pub(super) fn conditions(status: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let all = items(status, "conditions");
    for (i, condition) in all.iter().enumerate() {
        let (field, kind) = (format!("status.conditions[{i}].type"), text(condition, "type"));
        if all[..i].iter().any(|other| text(other, "type") == kind) {
            out.push(FieldError::duplicate(&field, &json!(kind)));
        }
        if kind.is_empty() {
            out.push(FieldError::required(field, ""));
        }
    }
    out
}

/// Checks a priority level.
pub(super) fn level(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = &object["spec"];
    let kind = text(spec, "type");
    let exempt = text(&object["metadata"], "name") == "exempt";
    if exempt != (kind == "Exempt") && matches!(kind, "Exempt" | "Limited") {
        let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
        out.push(FieldError::invalid("spec.type", &json!(kind), detail));
    }
    match kind {
        "Exempt" => {
            if !spec["limited"].is_null() {
                let detail = "must be nil if the type is not Limited";
                out.push(FieldError::forbidden("spec.limited", detail));
            }
            if !spec["exempt"].is_null() {
                shares(&mut out, &spec["exempt"], "spec.exempt");
                percent(&mut out, &spec["exempt"], "spec.exempt");
            }
        }
        "Limited" => {
            if !spec["exempt"].is_null() {
                let detail = "must be nil if the type is Limited";
                out.push(FieldError::forbidden("spec.exempt", detail));
            }
            if spec["limited"].is_null() {
                out.push(FieldError::required("spec.limited", "must not be empty when type is Limited"));
            } else {
                limited(&mut out, &spec["limited"]);
            }
        }
        other => out.push(FieldError::not_supported("spec.type", &json!(other), &["Exempt", "Limited"])),
    }
    out
}

fn shares(out: &mut Vec<FieldError>, of: &Value, path: &str) {
    if int(of, "nominalConcurrencyShares") < 0 {
        let (field, value) = (format!("{path}.nominalConcurrencyShares"), &of["nominalConcurrencyShares"]);
        out.push(FieldError::invalid(field, value, "must be a non-negative integer"));
    }
}

fn percent(out: &mut Vec<FieldError>, of: &Value, path: &str) {
    let value = &of["lendablePercent"];
    if value.as_i64().is_some_and(|percent| !(0..=100).contains(&percent)) {
        let detail = "must be between 0 and 100, inclusive";
        out.push(FieldError::invalid(format!("{path}.lendablePercent"), value, detail));
    }
}

fn limited(out: &mut Vec<FieldError>, limited: &Value) {
    const PATH: &str = "spec.limited";
    shares(out, limited, PATH);
    let response = &limited["limitResponse"];
    let queuing = &response["queuing"];
    let field = "spec.limited.limitResponse.queuing";
    match text(response, "type") {
        "Reject" if !queuing.is_null() => {
            let detail = "must be nil if limited.limitResponse.type is not Limited";
            out.push(FieldError::forbidden(field, detail));
        }
        "Queue" if queuing.is_null() => {
            let detail = "must not be empty if limited.limitResponse.type is Limited";
            out.push(FieldError::required(field, detail));
        }
        "Queue" => queues(out, queuing, field),
        _ => known(
            out,
            &json!(text(response, "type")),
            "spec.limited.limitResponse.type",
            &["Queue", "Reject"],
        ),
    }
    percent(out, limited, PATH);
    let borrowing = &limited["borrowingLimitPercent"];
    if borrowing.as_i64().is_some_and(|percent| percent < 0) {
        let detail = "if specified, must be a non-negative integer";
        out.push(FieldError::invalid("spec.limited.borrowingLimitPercent", borrowing, detail));
    }
}

fn queues(out: &mut Vec<FieldError>, queuing: &Value, path: &str) {
    let number = |key: &str| int(queuing, key);
    for key in ["queueLengthLimit", "queues", "handSize"] {
        let (field, value) = (format!("{path}.{key}"), json!(number(key)));
        if number(key) <= 0 {
            out.push(FieldError::invalid(field, &value, "must be positive"));
        } else if key == "queues" && number(key) > MAX_QUEUES {
            let detail = format!("must not be greater than {MAX_QUEUES}");
            out.push(FieldError::invalid(field, &value, &detail));
        } else if key == "handSize" && number(key) > number("queues") {
            let detail = format!("should not be greater than queues ({})", number("queues"));
            out.push(FieldError::invalid(field, &value, &detail));
        }
    }
}
