//! Group `apiregistration.k8s.io`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::meta::invalid_all;
use super::names::{self, NameRule};
use super::spec::{Spec, StatusMeta};
use super::value::{child, fill, flag, int, items, present, text};
use crate::status::FieldError;
use crate::table::{AGE, Column, Columns, NAME, age, column, name};

const COLUMNS: &[Column] = &[NAME, column("Service"), column("Available"), AGE];

pub(super) fn spec() -> Spec {
    Spec {
        name: NameRule::Own(name_rule),
        core_finalizers: false,
        revalidates: true,
        unconditional: false,
        status_meta: StatusMeta::KeepAll,
        default: |object| {
            if let Some(service) = present(child(object, "spec"), "service") {
                fill(service, "port", 443);
            }
        },
        validate,
        columns: Columns::Own(COLUMNS, |object, now| {
            let service = &object["spec"]["service"];
            let served = match service.is_object() {
                true => format!("{}/{}", text(service, "namespace"), text(service, "name")),
                false => "Local".to_owned(),
            };
            let conditions = items(&object["status"], "conditions").iter();
            let known = conditions.clone().find(|c| text(c, "type") == "Available");
            let available = known.map_or_else(
                || "Unknown".to_owned(),
                |c| match text(c, "status") {
                    "True" => "True".to_owned(),
                    status => format!("{status} ({})", text(c, "reason")),
                },
            );
            vec![name(object), json!(served), json!(available), age(object, now)]
        }),
        ..Spec::new()
    }
}

/// A service is called after what it serves.
fn name_rule(object: &Value, name: &str) -> Vec<String> {
    let spec = &object["spec"];
    let wanted = format!("{}.{}", text(spec, "version"), text(spec, "group"));
    let wrong = NameRule::PathSegment.check(name, false);
    if name == wanted || !wrong.is_empty() {
        return wrong;
    }
    vec![format!("must be `spec.version+\".\"+spec.group`: {wanted:?}")]
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = &object["spec"];
    let (group, version) = (text(spec, "group"), text(spec, "version"));
    if !group.is_empty() {
        let wrong = names::subdomain(group);
        if !wrong.is_empty() {
            out.push(FieldError::invalid("spec.group", &json!(group), &wrong.join(",")));
        }
    } else if version != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        out.push(FieldError::required("spec.group", detail));
    }
    invalid_all(&mut out, "spec.version", &json!(version), names::label_1035(version));
    for (key, limit) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let value = int(spec, key);
        if value <= 0 || value > limit {
            let detail = format!("must be positive and less than {limit}");
            out.push(FieldError::invalid(format!("spec.{key}"), &json!(value), &detail));
        }
    }
    let bundle = STANDARD.decode(text(spec, "caBundle")).map_or(0, |bytes| bytes.len());
    let insecure = flag(spec, "insecureSkipTLSVerify");
    let service = &spec["service"];
    if service.is_null() {
        if bundle > 0 {
            let detail = "local APIServices may not have a caBundle";
            out.push(FieldError::invalid("spec.caBundle", &json!(format!("{bundle} bytes")), detail));
        }
        if insecure {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            out.push(FieldError::invalid("spec.insecureSkipTLSVerify", &json!(true), detail));
        }
        return out;
    }
    for key in ["namespace", "name"] {
        if text(service, key).is_empty() {
            out.push(FieldError::required(format!("spec.service.{key}"), ""));
        }
    }
    let port = int(service, "port");
    if !(1..=65_535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        out.push(FieldError::invalid("spec.service.port", &json!(port), detail));
    }
    if insecure && bundle > 0 {
        let detail = "may not be true if caBundle is present";
        out.push(FieldError::invalid("spec.insecureSkipTLSVerify", &json!(true), detail));
    }
    out
}
