//! Checks of webhook configurations and admission policies.

use serde_json::{Value, json};

use super::meta::invalid_all;
use super::names;
use super::pod_validation::label_selector;
use super::value::{empty, items, text};
use super::volume_sources::known;
use super::webhooks::client_config;
use crate::expression::{Kind, mistake};
use crate::status::FieldError;

const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];
const MAX_CONDITIONS: usize = 64;

/// Checks the webhooks of a configuration.
pub(super) fn webhooks(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let all = items(object, "webhooks");
    for (i, hook) in all.iter().enumerate() {
        let here = format!("webhooks[{i}]");
        webhook(&mut out, hook, &here);
        if all[..i].iter().any(|other| text(other, "name") == text(hook, "name")) {
            out.push(FieldError::duplicate(format!("{here}.name"), &json!(text(hook, "name"))));
        }
    }
    out
}

fn webhook(out: &mut Vec<FieldError>, hook: &Value, here: &str) {
    let at = |key: &str| format!("{here}.{key}");
    let (name, field) = (text(hook, "name"), at("name"));
    if name.is_empty() {
        out.push(FieldError::required(field, ""));
    } else {
        let wrong = names::subdomain(name);
        if !wrong.is_empty() {
            out.push(FieldError::invalid(field, &json!(name), &wrong.join(",")));
        } else if name.split('.').count() < 3 {
            let detail = "should be a domain with at least three segments separated by dots";
            out.push(FieldError::invalid(field, &json!(name), detail));
        }
    }
    for (i, rule) in items(hook, "rules").iter().enumerate() {
        operations(out, rule, &format!("{here}.rules[{i}]"), false);
    }
    known(out, &hook["failurePolicy"], &at("failurePolicy"), &["Fail", "Ignore"]);
    known(out, &hook["matchPolicy"], &at("matchPolicy"), &["Equivalent", "Exact"]);
    if hook["sideEffects"].is_null() {
        let detail = "must specify one of None, NoneOnDryRun";
        out.push(FieldError::required(at("sideEffects"), detail));
    }
    known(out, &hook["sideEffects"], &at("sideEffects"), &["None", "NoneOnDryRun"]);
    if hook["timeoutSeconds"].as_i64().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        out.push(FieldError::invalid(at("timeoutSeconds"), &hook["timeoutSeconds"], detail));
    }
    for key in ["namespaceSelector", "objectSelector"] {
        label_selector(out, &hook[key], &at(key));
    }
    client_config(out, &hook["clientConfig"], &at("clientConfig"));
    review_versions(out, hook, &at("admissionReviewVersions"));
    conditions(out, hook, &at("matchConditions"), false);
    known(out, &hook["reinvocationPolicy"], &at("reinvocationPolicy"), &["IfNeeded", "Never"]);
}

fn review_versions(out: &mut Vec<FieldError>, hook: &Value, field: &str) {
    let versions = items(hook, "admissionReviewVersions");
    if versions.is_empty() {
        let detail = "must specify one of v1, v1beta1";
        return out.push(FieldError::required(field, detail));
    }
    for (i, version) in versions.iter().enumerate() {
        let field = format!("{field}[{i}]");
        if versions[..i].contains(version) {
            out.push(FieldError::invalid(field, version, "duplicate version"));
        } else {
            invalid_all(out, &field, version, names::label_1035(version.as_str().unwrap_or("")));
        }
    }
    if !versions.iter().any(|v| REVIEW_VERSIONS.contains(&v.as_str().unwrap_or(""))) {
        let detail = "must include at least one of v1, v1beta1";
        out.push(FieldError::invalid(field, &json!(versions), detail));
    }
}

/// What requests a rule is about; `named` rules may list names of objects too.
fn operations(out: &mut Vec<FieldError>, rule: &Value, here: &str, named: bool) {
    let at = |key: &str| format!("{here}.{key}");
    if named {
        let all = items(rule, "resourceNames");
        for (i, name) in all.iter().enumerate() {
            let field = at(&format!("resourceNames[{i}]"));
            let messages = names::NameRule::PathSegment.check(name.as_str().unwrap_or(""), false);
            invalid_all(out, &field, name, messages);
            if all[..i].contains(name) {
                out.push(FieldError::duplicate(field, name));
            }
        }
    }
    list(out, rule, "operations", here, "operations");
    for (i, operation) in items(rule, "operations").iter().enumerate() {
        known(out, operation, &at(&format!("operations[{i}]")), &OPERATIONS);
    }
    list(out, rule, "apiGroups", here, "API groups");
    list(out, rule, "apiVersions", here, "API versions");
    resources(out, rule, here);
    known(out, &rule["scope"], &at("scope"), &SCOPES);
}

/// A list that is there, and where `*` stands alone.
fn list(out: &mut Vec<FieldError>, rule: &Value, key: &str, here: &str, what: &str) {
    let (all, field) = (items(rule, key), format!("{here}.{key}"));
    if all.is_empty() {
        out.push(FieldError::required(&field, ""));
    } else if all.len() > 1 && all.iter().any(|it| it == "*") {
        let detail = format!("if '*' is present, must not specify other {what}");
        out.push(FieldError::invalid(&field, &rule[key], &detail));
    }
    for i in (0..all.len()).filter(|i| key == "apiVersions" && all[*i] == "") {
        out.push(FieldError::required(format!("{field}[{i}]"), ""));
    }
}

fn resources(out: &mut Vec<FieldError>, rule: &Value, here: &str) {
    let (all, field) = (items(rule, "resources"), format!("{here}.resources"));
    if all.is_empty() {
        return out.push(FieldError::required(field, ""));
    }
    let names: Vec<&str> = all.iter().map(|it| it.as_str().unwrap_or("")).collect();
    for (i, name) in names.iter().enumerate() {
        if name.is_empty() {
            out.push(FieldError::required(format!("{field}[{i}]"), ""));
        }
    }
    if names.contains(&"*/*") && names.len() > 1 {
        let detail = "if '*/*' is present, must not specify other resources";
        return out.push(FieldError::invalid(field, &rule["resources"], detail));
    }
    let plain = names.iter().filter(|name| !name.contains('/')).count();
    if names.contains(&"*") && plain > 1 {
        let detail = "if '*' is present, must not specify other resources without subresources";
        return out.push(FieldError::invalid(field, &rule["resources"], detail));
    }
    for (i, name) in names.iter().enumerate() {
        let Some((resource, sub)) = name.split_once('/') else { continue };
        let here = format!("{field}[{i}]");
        let others = || names.iter().filter(|it| *it != name);
        if sub == "*" && others().any(|it| it.starts_with(&format!("{resource}/"))) {
            let detail =
                format!("if '{resource}/*' is present, must not specify {resource}/ with other subresources");
            out.push(FieldError::invalid(here, &json!(name), &detail));
        } else if resource == "*" && others().any(|it| it.ends_with(&format!("/{sub}"))) {
            let detail = format!("if '*/{sub}' is present, must not specify other resources with /{sub}");
            out.push(FieldError::invalid(here, &json!(name), &detail));
        }
    }
}

/// What expressions of a webhook or a policy may name; only a policy has variables, only some have parameters.
fn names_for(of: &Value, policy: bool) -> Vec<(&'static str, Kind)> {
    let mut out = vec![
        ("object", Kind::Dyn),
        ("oldObject", Kind::Dyn),
        ("request", Kind::Unknown),
        ("namespaceObject", Kind::Unknown),
        ("authorizer", Kind::Unknown),
    ];
    if policy {
        out.push(("variables", Kind::Unknown));
    }
    if policy && !of["paramKind"].is_null() {
        out.push(("params", Kind::Dyn));
    }
    out
}

/// An expression that there is, that can be read and that comes to what is wanted of it.
fn expression(
    out: &mut Vec<FieldError>,
    (value, key): (&Value, &str),
    field: &str,
    missing: &str,
    (names, wanted): (&[(&'static str, Kind)], &[Kind]),
) {
    let source = text(value, key);
    if source.trim().is_empty() {
        out.push(FieldError::required(field, missing));
    } else if let Some(detail) = mistake(source, names, wanted) {
        out.push(FieldError::invalid(field, &json!(source), &detail));
    }
}

fn conditions(out: &mut Vec<FieldError>, of: &Value, path: &str, policy: bool) {
    let known = names_for(of, policy);
    let all = items(of, "matchConditions");
    if all.len() > MAX_CONDITIONS {
        out.push(FieldError::too_many(path, all.len(), MAX_CONDITIONS));
    }
    for (i, condition) in all.iter().enumerate() {
        let here = format!("{path}[{i}]");
        let rule = (known.as_slice(), [Kind::Bool].as_slice());
        expression(out, (condition, "expression"), &format!("{here}.expression"), "", rule);
        let (name, field) = (text(condition, "name"), format!("{here}.name"));
        if name.is_empty() {
            out.push(FieldError::required(&field, ""));
        } else {
            invalid_all(out, &field, &json!(name), super::names::qualified_name(name));
            if all[..i].iter().any(|other| text(other, "name") == name) {
                out.push(FieldError::duplicate(field, &json!(name)));
            }
        }
    }
}

/// Checks what objects a policy or a binding is about.
fn match_resources(out: &mut Vec<FieldError>, matching: &Value, path: &str, needs_rules: bool) {
    for key in ["namespaceSelector", "objectSelector"] {
        label_selector(out, &matching[key], &format!("{path}.{key}"));
    }
    if needs_rules && items(matching, "resourceRules").is_empty() {
        out.push(FieldError::required(format!("{path}.resourceRules"), ""));
    }
    known(out, &matching["matchPolicy"], &format!("{path}.matchPolicy"), &["Equivalent", "Exact"]);
    for key in ["resourceRules", "excludeResourceRules"] {
        for (i, rule) in items(matching, key).iter().enumerate() {
            operations(out, rule, &format!("{path}.{key}[{i}]"), true);
        }
    }
}

/// Checks a policy that validates.
pub(super) fn policy(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = &object["spec"];
    policy_head(&mut out, spec);
    variables(&mut out, spec);
    let (validations, annotations) = (items(spec, "validations"), items(spec, "auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        for key in ["validations", "auditAnnotations"] {
            out.push(FieldError::required(format!("spec.{key}"), detail));
        }
    }
    let names = names_for(spec, true);
    for (i, validation) in validations.iter().enumerate() {
        let at = |key: &str| format!("spec.validations[{i}].{key}");
        let (whole, missing) = ((validation, "expression"), "expression is not specified");
        expression(&mut out, whole, &at("expression"), missing, (&names, &[Kind::Bool]));
        let source = text(validation, "messageExpression");
        if !source.is_empty() {
            let missing = "must be non-empty if specified";
            let whole = (validation, "messageExpression");
            expression(&mut out, whole, &at("messageExpression"), missing, (&names, &[Kind::Text]));
        }
        let message = text(validation, "message");
        if !message.is_empty() && message.trim().is_empty() {
            let detail = "message must be non-empty if specified";
            out.push(FieldError::invalid(at("message"), &json!(message), detail));
        } else if message.trim().contains('\n') {
            let detail = "must not contain line breaks";
            out.push(FieldError::invalid(at("message"), &json!(message), detail));
        }
        let reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
        known(&mut out, &validation["reason"], &at("reason"), &reasons);
    }
    let owner = text(&object["metadata"], "name");
    for (i, annotation) in annotations.iter().enumerate() {
        let at = |key: &str| format!("spec.auditAnnotations[{i}].{key}");
        let key = text(annotation, "key");
        let named = format!("{owner}/{key}");
        invalid_all(&mut out, &at("key"), &json!(named), super::names::qualified_name(&named));
        if annotations[..i].iter().any(|other| text(other, "key") == key) {
            out.push(FieldError::duplicate(at("key"), &json!(key)));
        }
        let missing = "valueExpression is not specified";
        let (whole, wanted) = ((annotation, "valueExpression"), [Kind::Text, Kind::Null]);
        expression(&mut out, whole, &at("valueExpression"), missing, (&names, &wanted));
    }
    out
}

/// Checks a policy that changes objects.
pub(super) fn mutating_policy(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = &object["spec"];
    policy_head(&mut out, spec);
    variables(&mut out, spec);
    if items(spec, "mutations").is_empty() {
        out.push(FieldError::required("spec.mutations", "mutations must contain at least one item"));
    }
    known(&mut out, &spec["reinvocationPolicy"], "spec.reinvocationPolicy", &["IfNeeded", "Never"]);
    out
}

fn policy_head(out: &mut Vec<FieldError>, spec: &Value) {
    known(out, &spec["failurePolicy"], "spec.failurePolicy", &["Fail", "Ignore"]);
    let param = &spec["paramKind"];
    if !param.is_null() {
        let (version, kind) = (text(param, "apiVersion"), text(param, "kind"));
        if version.is_empty() {
            out.push(FieldError::required("spec.paramKind.apiVersion", ""));
        } else if version.split('/').count() > 2 {
            let detail = format!("unexpected GroupVersion string: {version}");
            out.push(FieldError::invalid("spec.paramKind.apiVersion", &json!(version), &detail));
        }
        if kind.is_empty() {
            out.push(FieldError::required("spec.paramKind.kind", ""));
        } else {
            let messages = names::label_1035(&kind.to_lowercase())
                .into_iter()
                .map(|m| format!("may have mixed case, but should otherwise match: {m}"));
            invalid_all(out, "spec.paramKind.kind", &json!(kind), messages);
        }
    }
    if spec["matchConstraints"].is_null() {
        out.push(FieldError::required("spec.matchConstraints", ""));
    } else {
        match_resources(out, &spec["matchConstraints"], "spec.matchConstraints", true);
    }
    conditions(out, spec, "spec.matchConditions", true);
}

fn variables(out: &mut Vec<FieldError>, spec: &Value) {
    let all = items(spec, "variables");
    let names = names_for(spec, true);
    for (i, variable) in all.iter().enumerate() {
        let at = |key: &str| format!("spec.variables[{i}].{key}");
        let name = text(variable, "name");
        if name.trim().is_empty() {
            out.push(FieldError::required(at("name"), "name is not specified"));
        } else if all[..i].iter().any(|other| text(other, "name") == name) {
            out.push(FieldError::duplicate(at("name"), &json!(name)));
        }
        let (whole, missing) = ((variable, "expression"), "expression is not specified");
        expression(out, whole, &at("expression"), missing, (&names, &[]));
    }
}

/// Checks a binding of a policy; `acts` are the actions of one that validates.
pub(super) fn binding(object: &Value, acts: bool) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = &object["spec"];
    let name = text(spec, "policyName");
    if name.is_empty() {
        out.push(FieldError::required("spec.policyName", ""));
    } else {
        invalid_all(&mut out, "spec.policyName", &json!(name), names::subdomain(name));
    }
    if !spec["paramRef"].is_null() {
        param_ref(&mut out, &spec["paramRef"]);
    }
    if !spec["matchResources"].is_null() {
        match_resources(&mut out, &spec["matchResources"], "spec.matchResources", false);
    }
    if acts {
        actions(&mut out, spec);
    }
    out
}

fn param_ref(out: &mut Vec<FieldError>, param: &Value) {
    let (name, selected) = (text(param, "name"), !param["selector"].is_null());
    if !name.is_empty() && selected {
        for key in ["name", "selector"] {
            let detail = "name and selector are mutually exclusive";
            out.push(FieldError::forbidden(format!("spec.paramRef.{key}"), detail));
        }
    } else if name.is_empty() && !selected {
        out.push(FieldError::required("spec.paramRef", "one of name or selector must be specified"));
    }
    let action = &param["parameterNotFoundAction"];
    if empty(action) {
        out.push(FieldError::required("spec.paramRef.parameterNotFoundAction", ""));
    } else {
        known(out, action, "spec.paramRef.parameterNotFoundAction", &["Allow", "Deny"]);
    }
}

fn actions(out: &mut Vec<FieldError>, spec: &Value) {
    let (all, field) = (items(spec, "validationActions"), "spec.validationActions");
    if all.is_empty() {
        out.push(FieldError::required(field, "at least one validation action is required"));
    }
    for (i, action) in all.iter().enumerate() {
        let here = format!("{field}[{i}]");
        known(out, action, &here, &["Audit", "Deny", "Warn"]);
        if all[..i].contains(action) {
            out.push(FieldError::duplicate(here, action));
        }
    }
    if ["Deny", "Warn"].iter().all(|action| all.iter().any(|a| a == action)) {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        out.push(FieldError::invalid(field, &spec["validationActions"], detail));
    }
}
