//! DaemonSet.

use serde_json::{Value, json};

use super::apps::{
    always_restarts, amount, at_most_all, collisions, counts, int_or_percent, labels_match, selector_cell,
    selector_is_immutable,
};
use super::internal;
use super::meta::non_negative;
use super::pod_defaults;
use super::pod_validation;
use super::spec::{Generation, Order, Spec};
use super::value::{child, empty, fill, int, set, text};
use crate::status::{FieldError, FieldReason};
use crate::table::{AGE, Column, Columns, NAME, age, column, containers, name, number, wide};

const STATUS_COUNTS: [&str; 9] = [
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
];
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) fn spec() -> Spec {
    Spec {
        warnings: super::warnings::daemon_set,
        generation: Generation::Spec,
        order: Order::Change,
        default: defaults,
        create: |_, object| {
            count_template(object, 1);
            Ok(())
        },
        update: |_, sub, old, new| {
            // What came with a status does not count it.
            let changed = sub.is_empty() && old["spec"]["template"] != new["spec"]["template"];
            count_template(new, template_generation(old) + i64::from(changed));
            Ok(())
        },
        validate,
        validate_update: selector_is_immutable,
        validate_sub: |sub, old, new| {
            let mut out = Vec::new();
            if sub == "status" {
                out = counts(&new["status"], &STATUS_COUNTS);
                collisions(&mut out, old, new);
            }
            out
        },
        columns: Columns::Own(COLUMNS, cells),
        ..Spec::new()
    }
}

fn template_generation(object: &Value) -> i64 {
    object["metadata"]["annotations"][TEMPLATE_GENERATION].as_str().and_then(|g| g.parse().ok()).unwrap_or(0)
}

/// The deprecated count of template changes lives in an annotation.
fn count_template(object: &mut Value, generation: i64) {
    let annotations = child(child(object, "metadata"), "annotations");
    set(annotations, TEMPLATE_GENERATION, generation.to_string());
}

fn defaults(object: &mut Value) {
    // The count is a field inside, so it is there from the start.
    fill(child(child(object, "metadata"), "annotations"), TEMPLATE_GENERATION, "0");
    let spec = child(object, "spec");
    fill(spec, "revisionHistoryLimit", 10);
    let strategy = child(spec, "updateStrategy");
    fill(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = child(strategy, "rollingUpdate");
        fill(rolling, "maxUnavailable", 1);
        fill(rolling, "maxSurge", 0);
    }
    pod_defaults::template(child(spec, "template"));
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = &object["spec"];
    let selector = &spec["selector"];
    pod_validation::label_selector(&mut out, selector, "spec.selector");
    if pod_validation::selector_is_sound(selector) {
        labels_match(&mut out, spec);
    }
    if !selector.is_null() && empty(&selector["matchLabels"]) && empty(&selector["matchExpressions"]) {
        let detail = "empty selector is invalid for daemonset";
        out.push(FieldError::invalid("spec.selector", &json!({}), detail));
    }
    pod_validation::template(&mut out, &spec["template"], "spec.template");
    always_restarts(&mut out, spec, "DaemonSet");
    non_negative(&mut out, "spec.minReadySeconds", int(spec, "minReadySeconds"));
    let strategy = &spec["updateStrategy"];
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let (down, up) =
                (&strategy["rollingUpdate"]["maxUnavailable"], &strategy["rollingUpdate"]["maxSurge"]);
            let field = "spec.updateStrategy.rollingUpdate.maxUnavailable";
            int_or_percent(&mut out, down, field);
            int_or_percent(&mut out, up, "spec.updateStrategy.rollingUpdate.maxSurge");
            at_most_all(&mut out, up, "spec.updateStrategy.rollingUpdate.maxSurge");
            match (amount(down) != 0, amount(up) != 0) {
                (false, false) => {
                    out.push(FieldError::required(field, "cannot be 0 when maxSurge is 0"));
                }
                (true, true) => {
                    let field = "spec.updateStrategy.rollingUpdate.maxSurge";
                    let detail = "may not be set when maxUnavailable is non-zero";
                    out.push(FieldError::invalid(field, up, detail));
                }
                _ => {}
            }
            at_most_all(&mut out, down, field);
        }
        _ => {
            let shown = internal::strategy(strategy, &["maxUnavailable", "maxSurge"]);
            let message =
                format!("Unsupported value: {shown}: supported values: \"RollingUpdate\", \"OnDelete\"");
            out.push(FieldError::raw(FieldReason::NotSupported, "spec.updateStrategy", message));
        }
    }
    non_negative(&mut out, "spec.revisionHistoryLimit", int(spec, "revisionHistoryLimit"));
    out
}

const COLUMNS: &[Column] = &[
    NAME,
    number("Desired"),
    number("Current"),
    number("Ready"),
    number("Up-to-date"),
    number("Available"),
    column("Node Selector"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

fn cells(object: &Value, now: &str) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let [names, images] = containers(&spec["template"]);
    let nodes = json!({"matchLabels": spec["template"]["spec"]["nodeSelector"]});
    let mut out = vec![name(object)];
    for key in [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    ] {
        out.push(json!(int(status, key)));
    }
    out.extend([
        json!(selector_cell(&nodes)),
        age(object, now),
        names,
        images,
        json!(selector_cell(&spec["selector"])),
    ]);
    out
}
