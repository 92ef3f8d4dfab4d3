//! Group `apps`: Deployment, ReplicaSet, ControllerRevision. DaemonSet and StatefulSet have files of their own.

use serde_json::{Value, json};

use super::internal;
use super::meta::{immutable, non_negative};
use super::pod_defaults;
use super::pod_validation;
use super::scale::Scale;
use super::spec::{Generation, Spec, StatusMeta};
use super::value::{child, empty, fill, int, text};
use super::{meta, names};
use crate::schema;
use crate::selector::{label_selector_text, object_matches};
use crate::status::{FieldError, FieldReason};
use crate::table::{AGE, Column, Columns, NAME, age, column, containers, name, number, wide};

pub(super) fn spec(plural: &str) -> Option<Spec> {
    Some(match plural {
        "deployments" => deployment(),
        "replicasets" => replica_set(),
        "daemonsets" => super::daemon::spec(),
        "statefulsets" => super::stateful::spec(),
        "controllerrevisions" => controller_revision(),
        _ => return None,
    })
}

/// A value as the type of that name is shown in messages.
pub(super) fn show_as(type_name: &str, value: &Value) -> String {
    let ty = schema::schema().named(type_name).map_or(schema::Type::Any, schema::Type::Struct);
    schema::show(&ty, value)
}

/// `selector` is there, well formed and not empty; it matches the labels of the template.
pub(super) fn selector_and_template(out: &mut Vec<FieldError>, spec: &Value, noun: &str) {
    let selector = &spec["selector"];
    if selector.is_null() {
        out.push(FieldError::required("spec.selector", ""));
    } else {
        pod_validation::label_selector(out, selector, "spec.selector");
        if empty(&selector["matchLabels"]) && empty(&selector["matchExpressions"]) {
            let detail = format!("empty selector is invalid for {noun}");
            out.push(FieldError::invalid("spec.selector", &json!({}), &detail));
        }
    }
    if !pod_validation::selector_is_sound(selector) {
        out.push(unsound(selector, ": invalid label selector"));
        return;
    }
    labels_match(out, spec);
    pod_validation::template(out, &spec["template"], "spec.template");
    always_restarts(out, spec, "ReplicaSet");
}

/// A selector that cannot be evaluated.
pub(super) fn unsound(selector: &Value, detail: &str) -> FieldError {
    let shown = show_as("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector", selector);
    FieldError::raw(FieldReason::Invalid, "spec.selector", format!("Invalid value: {shown}{detail}"))
}

pub(super) fn labels_match(out: &mut Vec<FieldError>, spec: &Value) {
    let selector = &spec["selector"];
    let everything =
        !selector.is_null() && empty(&selector["matchLabels"]) && empty(&selector["matchExpressions"]);
    let labels = &spec["template"]["metadata"]["labels"];
    if !everything && !object_matches(selector, labels) {
        let detail = "`selector` does not match template `labels`";
        out.push(FieldError::invalid("spec.template.metadata.labels", labels, detail));
    }
}

pub(super) fn always_restarts(out: &mut Vec<FieldError>, spec: &Value, noun: &str) {
    let policy = text(&spec["template"]["spec"], "restartPolicy");
    if policy != "Always" {
        let field = "spec.template.spec.restartPolicy";
        out.push(FieldError::not_supported(field, &json!(policy), &["Always"]));
    }
    if !spec["template"]["spec"]["activeDeadlineSeconds"].is_null() {
        let field = "spec.template.spec.activeDeadlineSeconds";
        let detail = format!("activeDeadlineSeconds in {noun} is not Supported");
        out.push(FieldError::forbidden(field, &detail));
    }
}

/// A whole number or percentage that is not negative.
pub(super) fn int_or_percent(out: &mut Vec<FieldError>, value: &Value, field: &str) {
    match value {
        Value::String(text) => {
            meta::invalid_all(out, field, value, names::percent(text));
        }
        Value::Number(n) => non_negative(out, field, n.as_i64().unwrap_or(0)),
        _ => {}
    }
}

/// Number or percentage as a number.
pub(super) fn amount(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.trim_end_matches('%').parse().unwrap_or(0),
        other => other.as_i64().unwrap_or(0),
    }
}

pub(super) fn at_most_all(out: &mut Vec<FieldError>, value: &Value, field: &str) {
    if value.is_string() && amount(value) > 100 {
        out.push(FieldError::invalid(field, value, "must not be greater than 100%"));
    }
}

fn deployment() -> Spec {
    Spec {
        warnings: |old, new| super::pod_warnings::of_template(old, new, "spec.template"),
        core_finalizers: true,
        generation: Generation::SpecAndAnnotations,
        status_meta: StatusMeta::KeepLabels,
        default: deployment_defaults,
        validate: deployment_validation,
        validate_update: selector_is_immutable,
        validate_sub: |sub, old, new| {
            let mut out = Vec::new();
            if sub == "status" {
                out = deployment_status(new);
                collisions(&mut out, old, new);
            }
            out
        },
        scale: Some(Scale::LabelSelector),
        columns: Columns::Own(DEPLOYMENT_COLUMNS, deployment_cells),
        ..Spec::new()
    }
}

fn deployment_defaults(object: &mut Value) {
    let spec = child(object, "spec");
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
    fill(spec, "progressDeadlineSeconds", 600);
    let strategy = child(spec, "strategy");
    fill(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = child(strategy, "rollingUpdate");
        fill(rolling, "maxUnavailable", "25%");
        fill(rolling, "maxSurge", "25%");
    }
    pod_defaults::template(child(spec, "template"));
}

fn deployment_validation(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = &object["spec"];
    non_negative(&mut out, "spec.replicas", int(spec, "replicas"));
    selector_and_template(&mut out, spec, "deployment");
    deployment_strategy(&mut out, &spec["strategy"]);
    non_negative(&mut out, "spec.minReadySeconds", int(spec, "minReadySeconds"));
    non_negative(&mut out, "spec.revisionHistoryLimit", int(spec, "revisionHistoryLimit"));
    if let Some(deadline) = spec["progressDeadlineSeconds"].as_i64() {
        let field = "spec.progressDeadlineSeconds";
        non_negative(&mut out, field, deadline);
        if deadline <= int(spec, "minReadySeconds") {
            let detail = "must be greater than minReadySeconds";
            out.push(FieldError::invalid(field, &json!(deadline), detail));
        }
    }
    out
}

fn deployment_strategy(out: &mut Vec<FieldError>, strategy: &Value) {
    let rolling = &strategy["rollingUpdate"];
    match text(strategy, "type") {
        "Recreate" => {
            if !rolling.is_null() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                out.push(FieldError::forbidden("spec.strategy.rollingUpdate", detail));
            }
        }
        "RollingUpdate" => {
            let (down, up) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
            let field = "spec.strategy.rollingUpdate.maxUnavailable";
            int_or_percent(out, down, field);
            int_or_percent(out, up, "spec.strategy.rollingUpdate.maxSurge");
            if amount(down) == 0 && amount(up) == 0 {
                out.push(FieldError::invalid(field, down, "may not be 0 when `maxSurge` is 0"));
            }
            at_most_all(out, down, field);
        }
        _ => {
            let shown = internal::strategy(strategy, &["maxUnavailable", "maxSurge"]);
            let message =
                format!("Unsupported value: {shown}: supported values: \"Recreate\", \"RollingUpdate\"");
            out.push(FieldError::raw(FieldReason::NotSupported, "spec.strategy", message));
        }
    }
}

fn deployment_status(object: &Value) -> Vec<FieldError> {
    let status = &object["status"];
    let keys = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    let mut out = counts(status, &keys);
    for key in ["updatedReplicas", "readyReplicas", "availableReplicas"] {
        not_above(&mut out, status, key, "replicas", "cannot be greater than status.replicas");
    }
    not_above(&mut out, status, "availableReplicas", "readyReplicas", "cannot be greater than readyReplicas");
    out
}

/// The count of collisions only grows.
pub(super) fn collisions(out: &mut Vec<FieldError>, old: &Value, new: &Value) {
    let count = |object: &Value| int(&object["status"], "collisionCount");
    if !old["status"]["collisionCount"].is_null() && count(new) < count(old) {
        let detail = "cannot be decremented";
        out.push(FieldError::invalid("status.collisionCount", &json!(count(new)), detail));
    }
}

/// Numbers of a status that may not be negative.
pub(super) fn counts(status: &Value, keys: &[&str]) -> Vec<FieldError> {
    let mut out = Vec::new();
    for key in keys {
        non_negative(&mut out, &format!("status.{key}"), int(status, key));
    }
    out
}

/// A number of a status that may not be above another.
pub(super) fn not_above(out: &mut Vec<FieldError>, status: &Value, key: &str, bound: &str, detail: &str) {
    if int(status, key) > int(status, bound) {
        out.push(FieldError::invalid(format!("status.{key}"), &json!(int(status, key)), detail));
    }
}

pub(super) fn selector_is_immutable(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let (old, new) = (&old["spec"]["selector"], &new["spec"]["selector"]);
    if old != new {
        let shown = show_as("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector", new);
        let message = format!("Invalid value: {shown}: field is immutable");
        out.push(FieldError::raw(FieldReason::Invalid, "spec.selector", message));
    }
    out
}

const DEPLOYMENT_COLUMNS: &[Column] = &[
    NAME,
    column("Ready"),
    column("Up-to-date"),
    column("Available"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

fn deployment_cells(object: &Value, now: &str) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let [names, images] = containers(&spec["template"]);
    vec![
        name(object),
        json!(format!("{}/{}", int(status, "readyReplicas"), int(spec, "replicas"))),
        json!(int(status, "updatedReplicas")),
        json!(int(status, "availableReplicas")),
        age(object, now),
        names,
        images,
        json!(selector_cell(&spec["selector"])),
    ]
}

/// A label selector as a cell.
pub(super) fn selector_cell(selector: &Value) -> String {
    match label_selector_text(selector) {
        text if text.is_empty() => "<none>".into(),
        text => text,
    }
}

fn replica_set() -> Spec {
    Spec {
        warnings: |old, new| super::pod_warnings::of_template(old, new, "spec.template"),
        generation: Generation::Spec,
        default: |object| {
            let spec = child(object, "spec");
            fill(spec, "replicas", 1);
            pod_defaults::template(child(spec, "template"));
        },
        validate: |object| {
            let mut out = Vec::new();
            let spec = &object["spec"];
            non_negative(&mut out, "spec.replicas", int(spec, "replicas"));
            non_negative(&mut out, "spec.minReadySeconds", int(spec, "minReadySeconds"));
            selector_and_template(&mut out, spec, "deployment");
            out
        },
        validate_update: selector_is_immutable,
        validate_sub: |sub, _, new| if sub == "status" { replica_status(&new["status"]) } else { Vec::new() },
        scale: Some(Scale::LabelSelector),
        columns: Columns::Own(REPLICA_COLUMNS, replica_cells),
        ..Spec::new()
    }
}

/// Checks of the status that ReplicaSets and ReplicationControllers share.
pub(super) fn replica_status(status: &Value) -> Vec<FieldError> {
    let keys = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    let mut out = counts(status, &keys);
    let than = "cannot be greater than status.replicas";
    for key in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
        not_above(&mut out, status, key, "replicas", than);
    }
    let ready = "cannot be greater than readyReplicas";
    not_above(&mut out, status, "availableReplicas", "readyReplicas", ready);
    out
}

/// Columns that ReplicaSets and ReplicationControllers share.
pub(super) const REPLICA_COLUMNS: &[Column] = &[
    NAME,
    number("Desired"),
    number("Current"),
    number("Ready"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

fn replica_cells(object: &Value, now: &str) -> Vec<Value> {
    replica_row(object, now, &selector_cell(&object["spec"]["selector"]))
}

/// Cells that ReplicaSets and ReplicationControllers share.
pub(super) fn replica_row(object: &Value, now: &str, selector: &str) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let [names, images] = containers(&spec["template"]);
    vec![
        name(object),
        json!(int(spec, "replicas")),
        json!(int(status, "replicas")),
        json!(int(status, "readyReplicas")),
        age(object, now),
        names,
        images,
        json!(selector),
    ]
}

fn controller_revision() -> Spec {
    const COLUMNS: &[Column] = &[NAME, column("Controller"), column("Revision"), AGE];
    Spec {
        revalidates: true,
        raw: Some("data"),
        validate: |object| {
            let mut out = Vec::new();
            non_negative(&mut out, "revision", int(object, "revision"));
            out
        },
        validate_create: |object| match &object["data"] {
            Value::Null => vec![FieldError::required("data", "data is mandatory")],
            Value::Object(_) => Vec::new(),
            _ => vec![FieldError::required("data", "data must be a valid JSON object")],
        },
        validate_update: |old, new| {
            let mut out = Vec::new();
            immutable(&mut out, "data", &old["data"], &new["data"]);
            out
        },
        columns: Columns::Own(COLUMNS, |object, now| {
            let owner = super::value::items(&object["metadata"], "ownerReferences")
                .iter()
                .find(|o| o["controller"] == true);
            let controller = owner.map_or("<none>".to_owned(), |o| {
                let api = text(o, "apiVersion");
                let kind = text(o, "kind").to_lowercase();
                match api.split_once('/') {
                    Some((group, _)) => format!("{kind}.{group}/{}", text(o, "name")),
                    None => format!("{kind}/{}", text(o, "name")),
                }
            });
            vec![name(object), json!(controller), json!(int(object, "revision")), age(object, now)]
        }),
        ..Spec::new()
    }
}
