//! Group `rbac.authorization.k8s.io`.

use serde_json::{Value, json};

use super::meta::{invalid_all, path_segment};
use super::names::{self, NameRule};
use super::pod_validation;
use super::spec::{Order, Spec};
use super::value::{empty, fill, items, items_mut, present, text};
use crate::status::FieldError;
use crate::table::{AGE, Column, Columns, NAME, age, column, name, wide};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn spec(plural: &str) -> Spec {
    let base = Spec {
        name: NameRule::PathSegment,
        create_on_update: true,
        revalidates: true,
        order: Order::New,
        ..Spec::new()
    };
    match plural {
        "rolebindings" | "clusterrolebindings" => Spec {
            default: binding_defaults,
            validate: if plural == "rolebindings" {
                |object| binding_validation(object, &["Role", "ClusterRole"])
            } else {
                |object| binding_validation(object, &["ClusterRole"])
            },
            validate_update: |old, new| {
                let mut out = Vec::new();
                if old["roleRef"] != new["roleRef"] {
                    let role = &new["roleRef"];
                    let part = |key: &str| json!(text(role, key));
                    let shown = format!(
                        "{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}",
                        part("apiGroup"),
                        part("kind"),
                        part("name")
                    );
                    let message = format!("Invalid value: {shown}: cannot change roleRef");
                    let reason = crate::status::FieldReason::Invalid;
                    out.push(FieldError::raw(reason, "roleRef", message));
                }
                out
            },
            columns: Columns::Own(COLUMNS, cells),
            ..base
        },
        "clusterroles" => Spec {
            validate: |object| {
                let mut out = rules(object, true);
                aggregation(&mut out, &object["aggregationRule"]);
                out
            },
            ..base
        },
        _ => Spec { validate: |object| rules(object, false), ..base },
    }
}

/// Selectors of the roles that a role gathers.
fn aggregation(out: &mut Vec<FieldError>, rule: &Value) {
    const FIELD: &str = "aggregationRule.clusterRoleSelectors";
    if rule.is_null() {
        return;
    }
    let selectors = items(rule, "clusterRoleSelectors");
    if selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        out.push(FieldError::required(FIELD, detail));
    }
    for (i, selector) in selectors.iter().enumerate() {
        let here = format!("{FIELD}[{i}]");
        pod_validation::label_selector(out, selector, &here);
        if !pod_validation::selector_is_sound(selector) {
            out.push(FieldError::invalid(here, &Value::Null, "invalid label selector."));
        }
    }
}

fn binding_defaults(object: &mut Value) {
    if let Some(role) = present(object, "roleRef") {
        fill(role, "apiGroup", GROUP);
    }
    for subject in items_mut(object, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") {
            fill(subject, "apiGroup", GROUP);
        }
    }
}

fn binding_validation(object: &Value, kinds: &[&str]) -> Vec<FieldError> {
    let mut out = Vec::new();
    let role = &object["roleRef"];
    if text(role, "apiGroup") != GROUP {
        let value = json!(text(role, "apiGroup"));
        out.push(FieldError::not_supported("roleRef.apiGroup", &value, &[GROUP]));
    }
    if !kinds.contains(&text(role, "kind")) {
        out.push(FieldError::not_supported("roleRef.kind", &json!(text(role, "kind")), kinds));
    }
    path_segment(&mut out, text(role, "name"), "roleRef.name", "");
    for (i, subject) in items(object, "subjects").iter().enumerate() {
        let here = format!("subjects[{i}]");
        if text(subject, "name").is_empty() {
            out.push(FieldError::required(format!("{here}.name"), ""));
        }
        match text(subject, "kind") {
            "ServiceAccount" => {
                let name = text(subject, "name");
                if !name.is_empty() {
                    invalid_all(&mut out, &format!("{here}.name"), &json!(name), names::subdomain(name));
                }
                if !text(subject, "apiGroup").is_empty() {
                    let value = json!(text(subject, "apiGroup"));
                    out.push(FieldError::not_supported(format!("{here}.apiGroup"), &value, &[""]));
                }
                if !kinds.contains(&"Role") && text(subject, "namespace").is_empty() {
                    out.push(FieldError::required(format!("{here}.namespace"), ""));
                }
            }
            "User" | "Group" => {
                if text(subject, "apiGroup") != GROUP {
                    let value = json!(text(subject, "apiGroup"));
                    out.push(FieldError::not_supported(format!("{here}.apiGroup"), &value, &[GROUP]));
                }
            }
            other => {
                let known = ["ServiceAccount", "User", "Group"];
                out.push(FieldError::not_supported(format!("{here}.kind"), &json!(other), &known));
            }
        }
    }
    out
}

fn rules(object: &Value, cluster: bool) -> Vec<FieldError> {
    let mut out = Vec::new();
    for (i, rule) in items(object, "rules").iter().enumerate() {
        let here = format!("rules[{i}]");
        if empty(&rule["verbs"]) {
            out.push(FieldError::required(format!("{here}.verbs"), "verbs must contain at least one value"));
        }
        if !empty(&rule["nonResourceURLs"]) {
            if !cluster {
                let detail = "namespaced rules cannot apply to non-resource URLs";
                let field = format!("{here}.nonResourceURLs");
                out.push(FieldError::invalid(field, &rule["nonResourceURLs"], detail));
            }
            let resources = ["apiGroups", "resources", "resourceNames"].iter().any(|k| !empty(&rule[*k]));
            if resources {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                let field = format!("{here}.nonResourceURLs");
                out.push(FieldError::invalid(field, &rule["nonResourceURLs"], detail));
            }
            continue;
        }
        if empty(&rule["apiGroups"]) {
            let detail = "resource rules must supply at least one api group";
            out.push(FieldError::required(format!("{here}.apiGroups"), detail));
        }
        if empty(&rule["resources"]) {
            let detail = "resource rules must supply at least one resource";
            out.push(FieldError::required(format!("{here}.resources"), detail));
        }
    }
    out
}

const COLUMNS: &[Column] =
    &[NAME, column("Role"), AGE, wide("Users"), wide("Groups"), wide("ServiceAccounts")];

fn cells(object: &Value, now: &str) -> Vec<Value> {
    let role = &object["roleRef"];
    let of = |kind: &str| {
        let all: Vec<String> = items(object, "subjects")
            .iter()
            .filter(|s| text(s, "kind") == kind)
            .map(|s| match (kind, text(s, "namespace")) {
                ("ServiceAccount", namespace) => format!("{namespace}/{}", text(s, "name")),
                _ => text(s, "name").to_owned(),
            })
            .collect();
        json!(all.join(", "))
    };
    vec![
        name(object),
        json!(format!("{}/{}", text(role, "kind"), text(role, "name"))),
        age(object, now),
        of("User"),
        of("Group"),
        of("ServiceAccount"),
    ]
}
