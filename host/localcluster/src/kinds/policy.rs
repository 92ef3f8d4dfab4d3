//! PodDisruptionBudget.

use serde_json::{Value, json};

use super::apps::{counts, int_or_percent};
use super::names::NameRule;
use super::pod_validation::label_selector;
use super::spec::{Generation, Spec};
use super::value::{int, set};
use super::volume_sources::known;
use crate::status::FieldError;
use crate::table::{AGE, Column, Columns, NAME, age, column, name, number};

pub(super) fn spec() -> Spec {
    const COLUMNS: &[Column] =
        &[NAME, column("Min Available"), column("Max Unavailable"), number("Allowed Disruptions"), AGE];
    Spec {
        generation: Generation::Spec,
        unconditional: false,
        checks_meta: false,
        core_finalizers: false,
        name: NameRule::PathSegment,
        validate: |object| {
            let mut out = Vec::new();
            let spec = &object["spec"];
            let (min, max) = (&spec["minAvailable"], &spec["maxUnavailable"]);
            if !min.is_null() && !max.is_null() {
                let selector = super::apps::show_as(
                    "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector",
                    &spec["selector"],
                );
                let message = format!(
                    "Invalid value: {{\"MinAvailable\":{min},\"Selector\":{selector},\"MaxUnavailable\":{max},\"UnhealthyPodEvictionPolicy\":{}}}: minAvailable and maxUnavailable cannot be both set",
                    spec["unhealthyPodEvictionPolicy"]
                );
                out.push(FieldError::raw(crate::status::FieldReason::Invalid, "spec", message));
            }
            for (key, value) in [("minAvailable", min), ("maxUnavailable", max)] {
                let field = format!("spec.{key}");
                int_or_percent(&mut out, value, &field);
                super::apps::at_most_all(&mut out, value, &field);
            }
            label_selector(&mut out, &spec["selector"], "spec.selector");
            known(
                &mut out,
                &spec["unhealthyPodEvictionPolicy"],
                "spec.unhealthyPodEvictionPolicy",
                &["AlwaysAllow", "IfHealthyBudget"],
            );
            out
        },
        validate_sub: |sub, _, new| {
            if sub != "status" {
                return Vec::new();
            }
            let keys = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
            let mut out = super::meta::conditions(&new["status"], "status.conditions");
            out.extend(counts(&new["status"], &keys));
            out
        },
        columns: Columns::Own(COLUMNS, |object, now| {
            let show = |value: &Value| match value {
                Value::Null => json!("N/A"),
                Value::String(text) => json!(text),
                other => json!(other.to_string()),
            };
            let (spec, status) = (&object["spec"], &object["status"]);
            vec![
                name(object),
                show(&spec["minAvailable"]),
                show(&spec["maxUnavailable"]),
                json!(int(status, "disruptionsAllowed")),
                age(object, now),
            ]
        }),
        create: |_, object| {
            set(object, "status", json!({}));
            Ok(())
        },
        ..Spec::new()
    }
}
