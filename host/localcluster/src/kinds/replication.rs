//! ReplicationController.

use serde_json::{Value, json};

use super::apps::{REPLICA_COLUMNS, replica_row, replica_status, selector_cell};
use super::meta::non_negative;
use super::names::NameRule;
use super::pod_defaults;
use super::pod_validation;
use super::scale::Scale;
use super::spec::{Generation, Spec};
use super::value::{child, empty, fill, int, set, text};
use crate::selector::object_matches;
use crate::status::FieldError;
use crate::table::Columns;

pub(super) fn spec() -> Spec {
    Spec {
        warnings: |old, new| super::pod_warnings::of_template(old, new, "spec.template"),
        generation: Generation::Spec,
        name: NameRule::Declared,
        orphans: true,
        default: defaults,
        validate,
        validate_sub: |sub, _, new| {
            if sub == "status" { replica_status(&new["status"]) } else { Vec::new() }
        },
        field_names: &["status.replicas"],
        fields: |object| vec![("status.replicas", int(&object["status"], "replicas").to_string())],
        scale: Some(Scale::Map),
        columns: Columns::Own(REPLICA_COLUMNS, |object, now| {
            let selector = json!({"matchLabels": object["spec"]["selector"]});
            replica_row(object, now, &selector_cell(&selector))
        }),
        ..Spec::new()
    }
}

/// Selector and labels are those of the template unless given.
fn defaults(object: &mut Value) {
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    if !empty(&labels) {
        let spec = child(object, "spec");
        if empty(&spec["selector"]) {
            set(spec, "selector", labels.clone());
        }
        let meta = child(object, "metadata");
        if empty(&meta["labels"]) {
            set(meta, "labels", labels);
        }
    }
    let spec = child(object, "spec");
    fill(spec, "replicas", 1);
    if spec["template"].is_object() {
        pod_defaults::template(child(spec, "template"));
    }
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = &object["spec"];
    non_negative(&mut out, "spec.minReadySeconds", int(spec, "minReadySeconds"));
    if empty(&spec["selector"]) {
        out.push(FieldError::required("spec.selector", ""));
    }
    non_negative(&mut out, "spec.replicas", int(spec, "replicas"));
    if spec["template"].is_null() {
        out.push(FieldError::required("spec.template", ""));
        return out;
    }
    let labels = &spec["template"]["metadata"]["labels"];
    if !empty(&spec["selector"]) && !object_matches(&json!({"matchLabels": spec["selector"]}), labels) {
        let detail = "`selector` does not match template `labels`";
        out.push(FieldError::invalid("spec.template.metadata.labels", labels, detail));
    }
    pod_validation::template(&mut out, &spec["template"], "spec.template");
    let policy = text(&spec["template"]["spec"], "restartPolicy");
    if policy != "Always" {
        let field = "spec.template.spec.restartPolicy";
        out.push(FieldError::not_supported(field, &json!(policy), &["Always"]));
    }
    if !spec["template"]["spec"]["activeDeadlineSeconds"].is_null() {
        let detail = "activeDeadlineSeconds in ReplicationController is not Supported";
        out.push(FieldError::forbidden("spec.template.spec.activeDeadlineSeconds", detail));
    }
    out
}
