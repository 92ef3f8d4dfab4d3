//! Group `admissionregistration.k8s.io`.

use serde_json::{Value, json};

use super::admission_rules as rules;
use super::spec::{Generation, Spec, StatusMeta};
use super::value::{child, entries, fill, fill_null, items, items_mut, present, text};
use crate::table::{AGE, Column, Columns, NAME, age, column, name, number};

pub(super) fn spec(plural: &str) -> Spec {
    const WEBHOOKS: &[Column] = &[NAME, number("Webhooks"), AGE];
    const POLICIES: &[Column] = &[NAME, number("Validations"), column("ParamKind"), AGE];
    const MUTATING_POLICIES: &[Column] = &[NAME, number("Mutations"), column("ParamKind"), AGE];
    const BINDINGS: &[Column] = &[NAME, column("PolicyName"), column("ParamRef"), AGE];
    let base = Spec {
        unconditional: false,
        checks_meta: false,
        revalidates: true,
        core_finalizers: false,
        generation: Generation::Spec,
        status_meta: StatusMeta::KeepAll,
        ..Spec::new()
    };
    match plural {
        "mutatingwebhookconfigurations" | "validatingwebhookconfigurations" => Spec {
            generation: Generation::Content,
            validate: rules::webhooks,
            default: if plural.starts_with("mutating") { mutating } else { webhooks },
            columns: Columns::Own(WEBHOOKS, |object, now| {
                vec![name(object), json!(items(object, "webhooks").len()), age(object, now)]
            }),
            ..base
        },
        "validatingadmissionpolicies" | "mutatingadmissionpolicies" => Spec {
            validate_sub: |sub, _, new| match sub {
                "status" => super::meta::conditions(&new["status"], "status.conditions"),
                _ => Vec::new(),
            },
            validate: if plural.starts_with("mutating") { rules::mutating_policy } else { rules::policy },
            default: |object| {
                let spec = child(object, "spec");
                fill_null(spec, "failurePolicy", "Fail");
                if let Some(matching) = present(spec, "matchConstraints") {
                    match_defaults(matching);
                }
            },
            columns: Columns::Own(
                if plural.starts_with("mutating") { MUTATING_POLICIES } else { POLICIES },
                |object, now| {
                    let spec = &object["spec"];
                    let param = &spec["paramKind"];
                    let shown = if param.is_object() {
                        let version = param["apiVersion"].as_str().unwrap_or("");
                        format!("{version}/{}", param["kind"].as_str().unwrap_or(""))
                    } else {
                        "<unset>".to_owned()
                    };
                    let count = items(spec, "validations").len() + items(spec, "mutations").len();
                    vec![name(object), json!(count), json!(shown), age(object, now)]
                },
            ),
            ..base
        },
        _ => Spec {
            validate: if plural.starts_with("mutating") {
                |object| rules::binding(object, false)
            } else {
                |object| rules::binding(object, true)
            },
            default: |object| {
                if let Some(matching) = present(child(object, "spec"), "matchResources") {
                    match_defaults(matching);
                }
            },
            columns: Columns::Own(BINDINGS, |object, now| {
                let spec = &object["spec"];
                let param = &spec["paramRef"];
                let shown = match (text(param, "namespace"), text(param, "name")) {
                    ("", "") if param["selector"].is_object() => go_selector(&param["selector"]),
                    (_, "") => "<unset>".to_owned(),
                    ("", name) => format!("*/{name}"),
                    (namespace, name) => format!("{namespace}/{name}"),
                };
                vec![name(object), spec["policyName"].clone(), json!(shown), age(object, now)]
            }),
            ..base
        },
    }
}

/// A label selector as Go prints one.
fn go_selector(selector: &Value) -> String {
    let mut labels: Vec<String> = entries(selector, "matchLabels")
        .map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or("")))
        .collect();
    labels.sort();
    let expressions: String = items(selector, "matchExpressions")
        .iter()
        .map(|one| {
            let values: Vec<&str> = items(one, "values").iter().filter_map(Value::as_str).collect();
            let (key, operator) = (text(one, "key"), text(one, "operator"));
            let values = values.join(" ");
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}",
        labels.concat()
    )
}

fn match_defaults(matching: &mut Value) {
    fill_null(matching, "matchPolicy", "Equivalent");
    child(matching, "namespaceSelector");
    child(matching, "objectSelector");
    for rules in ["resourceRules", "excludeResourceRules"] {
        for rule in items_mut(matching, rules) {
            fill_null(rule, "scope", "*");
        }
    }
}

fn webhooks(object: &mut Value) {
    for hook in items_mut(object, "webhooks") {
        fill_null(hook, "failurePolicy", "Fail");
        fill_null(hook, "matchPolicy", "Equivalent");
        child(hook, "namespaceSelector");
        child(hook, "objectSelector");
        fill(hook, "timeoutSeconds", 10);
        for rule in items_mut(hook, "rules") {
            fill_null(rule, "scope", "*");
        }
        if let Some(service) = present(child(hook, "clientConfig"), "service") {
            fill(service, "port", 443);
        }
    }
}

fn mutating(object: &mut Value) {
    webhooks(object);
    for hook in items_mut(object, "webhooks") {
        fill_null(hook, "reinvocationPolicy", "Never");
    }
}
