//! HorizontalPodAutoscaler of v1 and back: what v1 has no field for is kept in annotations.

use serde_json::{Value, json};

use super::autoscaling::utilization;
use super::value::{child, empty, int, present, remove, set, text};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";

/// Fields of a metric in both forms: source, place in v2, name in v1.
const FIELDS: [(&str, &str, &str); 26] = [
    ("object", "describedObject", "target"),
    ("object", "metric.name", "metricName"),
    ("object", "target.value", "targetValue"),
    ("object", "current.value", "currentValue"),
    ("object", "metric.selector", "selector"),
    ("object", "target.averageValue", "averageValue"),
    ("object", "current.averageValue", "averageValue"),
    ("pods", "metric.name", "metricName"),
    ("pods", "target.averageValue", "targetAverageValue"),
    ("pods", "current.averageValue", "currentAverageValue"),
    ("pods", "metric.selector", "selector"),
    ("resource", "name", "name"),
    ("resource", "target.averageUtilization", "targetAverageUtilization"),
    ("resource", "target.averageValue", "targetAverageValue"),
    ("resource", "current.averageUtilization", "currentAverageUtilization"),
    ("resource", "current.averageValue", "currentAverageValue"),
    ("containerResource", "name", "name"),
    ("containerResource", "target.averageUtilization", "targetAverageUtilization"),
    ("containerResource", "target.averageValue", "targetAverageValue"),
    ("containerResource", "container", "container"),
    ("external", "metric.name", "metricName"),
    ("external", "metric.selector", "metricSelector"),
    ("external", "target.value", "targetValue"),
    ("external", "target.averageValue", "targetAverageValue"),
    ("external", "current.value", "currentValue"),
    ("external", "current.averageValue", "currentAverageValue"),
];
const SOURCES: [&str; 5] = ["object", "pods", "resource", "containerResource", "external"];

/// A metric as v1 writes it into an annotation.
fn old_metric(metric: Value) -> Value {
    let mut out = json!({"type": metric["type"]});
    for source in SOURCES.iter().filter(|source| metric[**source].is_object()) {
        let mut old = json!({});
        for (_, place, name) in FIELDS.iter().filter(|(of, _, _)| of == source) {
            let value = super::value::at(&metric[*source], place);
            if !value.is_null() {
                set(&mut old, name, value.clone());
            }
        }
        // Amounts that are always written.
        let always = match (*source, metric[*source]["target"].is_object()) {
            ("object", true) => Some("targetValue"),
            ("object", false) => Some("currentValue"),
            ("pods", true) => Some("targetAverageValue"),
            ("pods" | "resource" | "containerResource", false) => Some("currentAverageValue"),
            ("external", false) => Some("currentValue"),
            _ => None,
        };
        if let Some(name) = always {
            super::value::fill(&mut old, name, "0");
        }
        set(&mut out, source, old);
    }
    out
}

/// A metric of an annotation of v1, or one that is in the new form already.
fn new_metric(metric: Value) -> Value {
    let mut out = json!({"type": metric["type"]});
    for source in SOURCES.iter().filter(|source| metric[**source].is_object()) {
        let old = &metric[*source];
        if old["target"]["type"].is_string() || old["current"].is_object() {
            return metric;
        }
        let is_current = old.as_object().is_some_and(|map| map.keys().any(|key| key.starts_with("current")));
        let mut new = json!({});
        for (_, place, name) in FIELDS.iter().filter(|(of, _, _)| of == source) {
            let other = if is_current { "target." } else { "current." };
            let value = &old[*name];
            if value.is_null() || place.starts_with(other) {
                continue;
            }
            match place.split_once('.') {
                Some((outer, inner)) => set(child(&mut new, outer), inner, value.clone()),
                None => set(&mut new, place, value.clone()),
            }
        }
        if !is_current {
            let target = child(&mut new, "target");
            // The other amount of a target by the average says nothing.
            let average = !target["averageValue"].is_null();
            if average && target["value"] == "0" {
                remove(target, "value");
            }
            let kind = if !target["averageUtilization"].is_null() {
                "Utilization"
            } else if average {
                "AverageValue"
            } else {
                "Value"
            };
            set(target, "type", kind);
        }
        set(&mut out, source, new);
    }
    out
}

fn parsed(object: &Value, annotation: &str) -> Option<Value> {
    let text = object["metadata"]["annotations"][annotation].as_str()?;
    serde_json::from_str(text).ok()
}

/// The behaviour in the form the annotation holds: that of the server's own types, every field written out.
fn internal(behavior: &Value) -> Value {
    let rules = |rules: &Value| {
        if rules.is_null() {
            return Value::Null;
        }
        let policy =
            |p: &Value| json!({"Type": p["type"], "Value": p["value"], "PeriodSeconds": p["periodSeconds"]});
        let policies = match &rules["policies"] {
            Value::Array(all) => all.iter().map(policy).collect(),
            _ => Value::Null,
        };
        json!({
            "StabilizationWindowSeconds": rules["stabilizationWindowSeconds"],
            "SelectPolicy": rules["selectPolicy"],
            "Policies": policies,
            "Tolerance": rules["tolerance"],
        })
    };
    json!({"ScaleUp": rules(&behavior["scaleUp"]), "ScaleDown": rules(&behavior["scaleDown"])})
}

/// The same as the API shows it: small first letters, nothing that is not set.
fn published(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let set = map.into_iter().filter(|(_, v)| !v.is_null());
            let lower = |key: String| {
                let mut letters = key.chars();
                letters.next().map_or(String::new(), |first| first.to_lowercase().chain(letters).collect())
            };
            set.map(|(key, value)| (lower(key), published(value))).collect()
        }
        Value::Array(all) => all.into_iter().map(published).collect(),
        other => other,
    }
}

/// Fields of annotations in the order the server writes them.
const ORDER: [&str; 34] = [
    "ScaleUp",
    "ScaleDown",
    "StabilizationWindowSeconds",
    "SelectPolicy",
    "Policies",
    "Tolerance",
    "Type",
    "Value",
    "PeriodSeconds",
    "type",
    "status",
    "lastTransitionTime",
    "reason",
    "message",
    "object",
    "pods",
    "resource",
    "containerResource",
    "external",
    "kind",
    "target",
    "metricName",
    "name",
    "apiVersion",
    "metricSelector",
    "targetAverageUtilization",
    "currentAverageUtilization",
    "targetValue",
    "currentValue",
    "targetAverageValue",
    "currentAverageValue",
    "container",
    "selector",
    "averageValue",
];

fn ordered(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<(&String, &Value)> = map.iter().collect();
            fields.sort_by_key(|(key, _)| ORDER.iter().position(|k| k == key).unwrap_or(ORDER.len()));
            let shown: Vec<String> =
                fields.iter().map(|(k, v)| format!("{}:{}", json!(k), ordered(v))).collect();
            format!("{{{}}}", shown.join(","))
        }
        Value::Array(all) => format!("[{}]", all.iter().map(ordered).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

/// Whether an object of v1 measures more than the use of CPU.
pub(super) fn has_metrics(object: &Value) -> bool {
    parsed(object, METRICS).and_then(|m| m.as_array().map(|all| !all.is_empty())).unwrap_or(false)
}

/// Takes the annotations away that stand for fields of v2.
pub(super) fn drop_annotations(object: &mut Value) {
    if let Some(annotations) = present(&mut object["metadata"], "annotations") {
        for key in [METRICS, BEHAVIOR, CURRENT, CONDITIONS] {
            remove(annotations, key);
        }
        if empty(annotations) {
            remove(&mut object["metadata"], "annotations");
        }
    }
}

/// v1 keeps what it has no field for in annotations.
pub(super) fn to_v2(mut object: Value) -> Value {
    let metrics = parsed(&object, METRICS).and_then(|m| m.as_array().cloned()).unwrap_or_default();
    let mut metrics: Vec<Value> = metrics.into_iter().map(new_metric).collect();
    let behavior = parsed(&object, BEHAVIOR).map(published).filter(|b| !empty(b));
    let current = parsed(&object, CURRENT).and_then(|m| m.as_array().cloned());
    let current = current.map(|all| all.into_iter().map(new_metric).collect::<Vec<Value>>());
    let conditions = parsed(&object, CONDITIONS);
    drop_annotations(&mut object);
    let spec = child(&mut object, "spec");
    if let Some(percent) = remove(spec, "targetCPUUtilizationPercentage").and_then(|p| p.as_i64()) {
        metrics.push(utilization(percent));
    }
    if !metrics.is_empty() {
        set(spec, "metrics", metrics);
    }
    if let Some(behavior) = behavior {
        set(spec, "behavior", behavior);
    }
    let status = child(&mut object, "status");
    // The annotation knows all metrics, this one too.
    let percent = remove(status, "currentCPUUtilizationPercentage").and_then(|p| p.as_i64());
    let current = current.unwrap_or_else(|| {
        let used = |percent| json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}});
        percent.map(used).into_iter().collect()
    });
    if int(status, "currentReplicas") == 0 {
        remove(status, "currentReplicas");
    }
    set(status, "currentMetrics", if current.is_empty() { Value::Null } else { current.into() });
    if let Some(conditions) = conditions {
        set(status, "conditions", conditions);
    }
    object
}

pub(super) fn to_v1(mut object: Value) -> Value {
    let spec = child(&mut object, "spec");
    let mut metrics = match remove(spec, "metrics") {
        Some(Value::Array(all)) => all,
        _ => Vec::new(),
    };
    let cpu = metrics.iter().position(|m| {
        let target = &m["resource"]["target"];
        text(&m["resource"], "name") == "cpu" && !target["averageUtilization"].is_null()
    });
    if let Some(at) = cpu {
        let percent = metrics.remove(at)["resource"]["target"]["averageUtilization"].clone();
        set(spec, "targetCPUUtilizationPercentage", percent);
    }
    let behavior = remove(spec, "behavior");
    let status = child(&mut object, "status");
    let current = match remove(status, "currentMetrics") {
        Some(Value::Array(all)) => all,
        _ => Vec::new(),
    };
    let cpu = current.iter().filter(|m| text(&m["resource"], "name") == "cpu");
    let used = cpu.map(|m| &m["resource"]["current"]["averageUtilization"]).rfind(|used| !used.is_null());
    if let Some(percent) = used {
        set(status, "currentCPUUtilizationPercentage", percent.clone());
    }
    let conditions = remove(status, "conditions");
    for (key, value) in [
        (METRICS, (!metrics.is_empty()).then(|| Value::Array(metrics.into_iter().map(old_metric).collect()))),
        (BEHAVIOR, behavior.filter(|b| !b.is_null()).map(|b| internal(&b))),
        (CURRENT, (!current.is_empty()).then(|| Value::Array(current.into_iter().map(old_metric).collect()))),
        (CONDITIONS, conditions.filter(|c| !empty(c))),
    ] {
        if let Some(value) = value {
            let annotations = child(child(&mut object, "metadata"), "annotations");
            set(annotations, key, ordered(&value));
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_v1_cannot_say_survives_the_way_there_and_back() {
        let v2 = json!({
            "metadata": {},
            "spec": {
                "metrics": [
                    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Mi"}}},
                    utilization(50),
                ],
                "behavior": {"scaleDown": {"selectPolicy": "Max", "policies": [{"type": "Pods", "value": 1, "periodSeconds": 15}]}},
            },
            "status": {"currentMetrics": null, "conditions": [{"type": "AbleToScale", "status": "True"}]},
        });
        let v1 = to_v1(v2.clone());
        assert_eq!(v1["spec"], json!({"targetCPUUtilizationPercentage": 50}));
        let annotations = &v1["metadata"]["annotations"];
        assert_eq!(
            annotations[METRICS],
            r#"[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1Mi"}}]"#
        );
        assert_eq!(
            annotations[BEHAVIOR],
            concat!(
                r#"{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Max","#,
                r#""Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":15}],"Tolerance":null}}"#
            )
        );
        assert_eq!(to_v2(v1), v2);
    }

    #[test]
    fn annotations_of_any_text_do_no_harm() {
        for text in ["", "{\"\":{\"\u{e9}\":1}}", "[1]", "null", "{"] {
            let object = json!({"metadata": {"annotations": {METRICS: text, BEHAVIOR: text, CURRENT: text, CONDITIONS: text}}});
            to_v1(to_v2(object));
        }
    }
}
