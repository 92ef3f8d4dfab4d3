//! HorizontalPodAutoscaler in its two versions; stored as v2.

use serde_json::{Value, json};

use super::autoscaling_metrics::{behavior, metrics, reference};
use super::autoscaling_v1::{drop_annotations, has_metrics, to_v1, to_v2};
use super::meta::non_negative;
use super::spec::Spec;
use super::value::{child, empty, fill, int, items, present, set, text};
use crate::status::FieldError;
use crate::table::{AGE, Column, Columns, NAME, age, column, name};

pub(super) fn spec(version: &str) -> Spec {
    let base = Spec {
        columns: Columns::Own(COLUMNS, cells),
        validate,
        validate_sub: |_, _, new| {
            let mut out = Vec::new();
            for key in ["currentReplicas", "desiredReplicas"] {
                non_negative(&mut out, &format!("status.{key}"), int(&new["status"], key));
            }
            out
        },
        ..Spec::new()
    };
    if version == "v1" {
        Spec {
            default: |object| {
                let elsewhere = has_metrics(object);
                let spec = child(object, "spec");
                fill(spec, "minReplicas", 1);
                if !elsewhere {
                    fill(spec, "targetCPUUtilizationPercentage", 80);
                }
            },
            validate: |object| validate(&to_v2(object.clone())),
            convert: Some((to_v2, to_v1)),
            ..base
        }
    } else {
        Spec { default: defaults, ..base }
    }
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = &object["spec"];
    if let Some(min) = spec["minReplicas"].as_i64() {
        if min < 1 {
            let detail = "must be greater than or equal to 1";
            out.push(FieldError::invalid("spec.minReplicas", &json!(min), detail));
        }
    }
    let max = int(spec, "maxReplicas");
    if max == 0 {
        out.push(FieldError::required("spec.maxReplicas", "must be set and greater than 0"));
    } else if max < 1 {
        let detail = "must be greater than or equal to 1";
        out.push(FieldError::invalid("spec.maxReplicas", &json!(max), detail));
    }
    if spec["minReplicas"].as_i64().is_some_and(|min| max < min) {
        let detail = "must be greater than or equal to `minReplicas`";
        out.push(FieldError::invalid("spec.maxReplicas", &json!(max), detail));
    }
    // The one scalable kind of the core group may be named without it.
    let core = text(&spec["scaleTargetRef"], "kind") == "ReplicationController";
    reference(&mut out, &spec["scaleTargetRef"], "spec.scaleTargetRef", !core);
    metrics(&mut out, spec);
    behavior(&mut out, &spec["behavior"]);
    out
}

fn defaults(object: &mut Value) {
    drop_annotations(object);
    let spec = child(object, "spec");
    fill(spec, "minReplicas", 1);
    if empty(&spec["metrics"]) {
        set(spec, "metrics", json!([utilization(80)]));
    }
    if let Some(behavior) = present(spec, "behavior") {
        for (direction, select, policies) in [
            (
                "scaleUp",
                "Max",
                json!([
                    {"type": "Pods", "value": 4, "periodSeconds": 15},
                    {"type": "Percent", "value": 100, "periodSeconds": 15},
                ]),
            ),
            ("scaleDown", "Max", json!([{"type": "Percent", "value": 100, "periodSeconds": 15}])),
        ] {
            let rules = child(behavior, direction);
            super::value::fill_null(rules, "selectPolicy", select);
            if rules["policies"].is_null() {
                set(rules, "policies", policies);
            }
            if direction == "scaleUp" {
                fill(rules, "stabilizationWindowSeconds", 0);
            }
        }
    }
}

pub(super) fn utilization(percent: i64) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}})
}

const COLUMNS: &[Column] = &[
    NAME,
    column("Reference"),
    column("Targets"),
    column("MinPods"),
    column("MaxPods"),
    column("Replicas"),
    AGE,
];

fn cells(object: &Value, now: &str) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let target = &spec["scaleTargetRef"];
    let min = spec["minReplicas"].as_i64().map_or("<unset>".to_owned(), |n| n.to_string());
    vec![
        name(object),
        json!(format!("{}/{}", text(target, "kind"), text(target, "name"))),
        json!(targets(items(spec, "metrics"), items(status, "currentMetrics"))),
        json!(min),
        json!(int(spec, "maxReplicas")),
        json!(int(status, "currentReplicas")),
        age(object, now),
    ]
}

fn targets(metrics: &[Value], current: &[Value]) -> String {
    const SHOWN: usize = 2;
    if metrics.is_empty() {
        return "<none>".into();
    }
    let all: Vec<String> = metrics
        .iter()
        .enumerate()
        .map(|(i, metric)| {
            let kind = text(metric, "type");
            let key = format!("{}{}", kind[..1.min(kind.len())].to_lowercase(), kind.get(1..).unwrap_or(""));
            let target = &metric[&key]["target"];
            let now = current.get(i).map_or(&Value::Null, |c| &c[&key]["current"]);
            let show = |value: &Value| value.as_str().unwrap_or("<unknown>").to_owned();
            let prefix = match kind {
                "Resource" | "ContainerResource" => format!("{}: ", text(&metric[&key], "name")),
                _ => String::new(),
            };
            let percent =
                |value: &Value, none: &str| value.as_i64().map_or(none.to_owned(), |p| format!("{p}%"));
            if !target["averageValue"].is_null() {
                let suffix = if matches!(kind, "Object" | "External") { " (avg)" } else { "" };
                format!("{prefix}{}/{}{suffix}", show(&now["averageValue"]), show(&target["averageValue"]))
            } else if prefix.is_empty() {
                format!("{}/{}", show(&now["value"]), show(&target["value"]))
            } else {
                let now = percent(&now["averageUtilization"], "<unknown>");
                format!("{prefix}{now}/{}", percent(&target["averageUtilization"], "<auto>"))
            }
        })
        .collect();
    if all.len() > SHOWN {
        format!("{} + {} more...", all[..SHOWN].join(", "), all.len() - SHOWN)
    } else {
        all.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_version_keeps_the_cpu_target() {
        let v1 = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 5, "targetCPUUtilizationPercentage": 50}, "status": {}});
        let v2 = to_v2(v1.clone());
        assert_eq!(v2["spec"]["metrics"], json!([utilization(50)]));
        assert_eq!(to_v1(v2)["spec"], v1["spec"]);
    }
}
