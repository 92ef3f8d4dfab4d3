//! Metrics APIs with scripted values.
//!
//! In: values per namespace, requests of the manager. Out: answers as
//! metrics.k8s.io, custom.metrics.k8s.io and external.metrics.k8s.io give them.
//! Kept: the proxy answers these, so that no server has to aggregate APIs;
//! samples are always fresh.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use super::{
    object::{self, list, text},
    recorder::Recorder,
};

const GROUPS: [(&str, &str); 3] = [
    ("metrics.k8s.io", "v1beta1"),
    ("custom.metrics.k8s.io", "v1beta2"),
    ("external.metrics.k8s.io", "v1beta1"),
];

/// Scripted values.
pub struct Metrics {
    recorder: Arc<Recorder>,
    values: Mutex<HashMap<String, Value>>,
}

/// A code and a message.
type Fault = (u16, String);

impl Metrics {
    /// Without values, until a scenario gives some.
    pub fn new(recorder: Arc<Recorder>) -> Arc<Self> {
        Arc::new(Self { recorder, values: Mutex::default() })
    }

    /// Replaces the values of a namespace.
    pub fn set(&self, namespace: &str, values: &Value) {
        self.values.lock().insert(namespace.to_owned(), values.clone());
    }

    /// The answer to a request, or none if it is about something else.
    pub fn answer(&self, target: &str) -> Option<(u16, Value)> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let decode =
            |part: &str| percent_decode_str(&part.replace('+', " ")).decode_utf8_lossy().into_owned();
        let parts: Vec<String> = path.trim_matches('/').split('/').map(decode).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let ["apis", group, rest @ ..] = parts.as_slice() else { return None };
        let (group, version) = GROUPS.into_iter().find(|(known, _)| known == group)?;
        let select = query.split('&').find_map(|pair| pair.strip_prefix("labelSelector=")).map(decode);
        Some(match self.find(group, version, rest, &select.unwrap_or_default()) {
            Ok(found) => (200, found),
            Err((code, message)) => {
                let reason = match code {
                    404 => "NotFound",
                    503 => "ServiceUnavailable",
                    _ => "InternalError",
                };
                let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "message": message, "code": code, "reason": reason});
                (code, status)
            }
        })
    }

    fn find(&self, group: &str, version: &str, rest: &[&str], select: &str) -> Result<Value, Fault> {
        let not_found = || (404, "not found".to_owned());
        let api_version = format!("{group}/{version}");
        let rest = match rest {
            [] => return Ok(group_document(group, version)),
            [v] if *v == version => return Ok(resources(group, &api_version)),
            [v, rest @ ..] if *v == version => rest,
            _ => return Err(not_found()),
        };
        let ["namespaces", namespace, rest @ ..] = rest else {
            return Err((404, "only namespaced metrics are served".into()));
        };
        let values = self.values.lock().get(*namespace).cloned().unwrap_or_default();
        let part = match group {
            "metrics.k8s.io" => "pods",
            "custom.metrics.k8s.io" => "custom",
            _ => "external",
        };
        let error = if values["error"].is_object() { &values["error"][part] } else { &values["error"] };
        if let Some(code) = error.as_u64().and_then(|code| u16::try_from(code).ok()) {
            return Err((code, "scripted error".into()));
        }
        let items: Vec<Value> = match (part, rest) {
            ("pods", ["pods"]) => self.pods(namespace, &values, select, &api_version),
            ("external", [metric]) => {
                let scripted = match &values["external"][metric] {
                    Value::Null => Vec::new(),
                    Value::Array(several) => several.clone(),
                    one => vec![one.clone()],
                };
                let item = |value: &Value| json!({"metricName": metric, "metricLabels": {}, "timestamp": stamp(), "value": shown(value)});
                scripted.iter().map(item).collect()
            }
            ("custom", [resource, name, metric]) => {
                let found = self.custom(namespace, &values, select, resource, name, metric);
                if found.is_empty() {
                    let message =
                        format!("the server could not find the metric {metric} for {resource} {name}");
                    return Err((404, message));
                }
                found
            }
            _ => return Err(not_found()),
        };
        let kind = match part {
            "pods" => "PodMetricsList",
            "custom" => "MetricValueList",
            _ => "ExternalMetricValueList",
        };
        Ok(json!({"kind": kind, "apiVersion": api_version, "metadata": {}, "items": items}))
    }

    /// Running pods that have values: `missing` takes some away, by name or by
    /// number in order of creation.
    fn measured(&self, namespace: &str, values: &Value, select: &str) -> Vec<(Arc<Value>, Value)> {
        let mut pods = self.recorder.known().list("pods", namespace, "");
        pods.sort_by_key(|o| {
            (text(&o["metadata"]["creationTimestamp"]).to_owned(), object::name(o).to_owned())
        });
        let missing = list(&values["missing"]);
        let sets = select.contains(" in ") || select.contains(" notin ");
        let value_of = |(number, pod): (usize, Arc<Value>)| {
            let away = missing.iter().any(|m| *m == json!(number) || text(m) == object::name(&pod));
            if pod["status"]["phase"] != "Running" || away || (!sets && !object::selected(&pod, select)) {
                return None;
            }
            let scripted = values["pods"].as_object()?;
            let (_, own) = scripted.iter().find(|(selector, _)| object::selected(&pod, selector))?;
            Some((pod, own.clone()))
        };
        pods.into_iter().enumerate().filter_map(value_of).collect()
    }

    fn pods(&self, namespace: &str, values: &Value, select: &str, api_version: &str) -> Vec<Value> {
        let measured = self.measured(namespace, values, select).into_iter();
        measured
            .filter(|(_, own)| own["cpu"].is_string() || own["memory"].is_string())
            .map(|(pod, own)| {
                let usage: Map<String, Value> = ["cpu", "memory"]
                    .into_iter()
                    .filter_map(|k| Some((k.to_owned(), own.get(k)?.clone())))
                    .collect();
                let containers = list(&pod["spec"]["containers"]).iter();
                let containers: Vec<Value> =
                    containers.map(|c| json!({"name": c["name"], "usage": usage})).collect();
                json!({"kind": "PodMetrics", "apiVersion": api_version, "timestamp": stamp(), "window": "1s",
                    "metadata": {"name": pod["metadata"]["name"], "namespace": namespace,
                        "labels": pod["metadata"]["labels"], "creationTimestamp": stamp()},
                    "containers": containers})
            })
            .collect()
    }

    fn custom(
        &self,
        namespace: &str,
        values: &Value,
        select: &str,
        resource: &str,
        name: &str,
        metric: &str,
    ) -> Vec<Value> {
        let plural = resource.split('.').next().unwrap_or_default();
        let item = |kind: &str, version: &str, name: &str, value: &Value| {
            json!({"describedObject": {"kind": kind, "apiVersion": version, "namespace": namespace, "name": name},
                "metric": {"name": metric, "selector": null}, "timestamp": stamp(), "windowSeconds": 1, "value": shown(value)})
        };
        if plural == "pods" && name == "*" {
            let measured = self.measured(namespace, values, select).into_iter();
            return measured
                .filter_map(|(pod, own)| Some(item("Pod", "v1", object::name(&pod), own.get(metric)?)))
                .collect();
        }
        let value = values["object"].get(format!("{plural}/{name}/{metric}"));
        value.map(|value| item(plural, "", name, value)).into_iter().collect()
    }
}

fn stamp() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn group_document(group: &str, version: &str) -> Value {
    let version = json!({"groupVersion": format!("{group}/{version}"), "version": version});
    json!({"kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": [version], "preferredVersion": version})
}

fn resources(group: &str, api_version: &str) -> Value {
    let resource = |name: &str, namespaced: bool, kind: &str, verbs: &[&str]| json!({"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": verbs});
    let resources = match group {
        "metrics.k8s.io" => vec![
            resource("pods", true, "PodMetrics", &["get", "list"]),
            resource("nodes", false, "NodeMetrics", &["get", "list"]),
        ],
        "custom.metrics.k8s.io" => vec![resource("pods/any", true, "MetricValueList", &["get"])],
        _ => vec![resource("any", true, "ExternalMetricValueList", &["get"])],
    };
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": resources})
}
