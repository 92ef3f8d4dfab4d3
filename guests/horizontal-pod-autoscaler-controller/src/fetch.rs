//! What is asked of the metrics APIs, and what their answers say.
//!
//! In: a metric, a selector. Out: paths, values in thousandths, or the text of
//! an error. Invariant: whatever an answer holds, reading it cannot fail in
//! any other way.

use std::time::Duration;

use coxswain_sdk::Time;
use coxswain_sdk::contract::Failure;
use coxswain_sdk::from_json;
use coxswain_sdk::quantity::Quantity;
use serde_json::Value as Json;

use crate::calc::{Value, Values};
use crate::view::TargetRef;

/// Versions of the custom metrics API, in the order in which they are tried.
pub const CUSTOM_VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];
/// What servers answer for a path that they do not have at all.
const NOT_SERVED: [&str; 2] = ["404 page not found", "the server could not find the requested resource"];

/// Whether what refused is an API that is there.
pub fn is_served(failure: &Failure) -> bool {
    failure.status != 404 || !NOT_SERVED.contains(&failure.message.trim())
}

/// The failure of the last version of the custom metrics API, in words of its own where there is no such API.
pub fn of_custom(mut failure: Failure) -> Failure {
    if !is_served(&failure) {
        "no custom metrics API (custom.metrics.k8s.io) registered".clone_into(&mut failure.message);
    }
    failure
}

/// The failure of an API of which client-go asks for a resource: where there is no such API, it says what was asked for.
pub fn of_api(mut failure: Failure, resource: &str) -> Failure {
    if !is_served(&failure) {
        failure.message = format!("the server could not find the requested resource (get {resource})");
    }
    failure
}

/// A part of a query, escaped.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
            out.push('%');
            out.push(char::from(DIGITS[usize::from(byte >> 4)]));
            out.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
    out
}

fn with_query(mut path: String, parts: &[(&str, &str)]) -> String {
    let mut joint = '?';
    for (name, value) in parts.iter().filter(|(_, value)| !value.is_empty()) {
        path.push(joint);
        path.push_str(name);
        path.push('=');
        path.push_str(&escaped(value));
        joint = '&';
    }
    path
}

/// CPU and memory of the pods of a selector.
pub fn resource_path(namespace: &str, selector: &str) -> String {
    let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{}/pods", escaped(namespace));
    with_query(path, &[("labelSelector", selector)])
}

/// A custom metric of the pods of a selector.
pub fn pods_path(version: &str, namespace: &str, metric: &str, selector: &str, of_metric: &str) -> String {
    let path = format!(
        "/apis/custom.metrics.k8s.io/{version}/namespaces/{}/pods/*/{}",
        escaped(namespace),
        escaped(metric)
    );
    with_query(path, &[("labelSelector", selector), ("metricLabelSelector", of_metric)])
}

/// A custom metric of one object; `resource` is `services` or `ingresses.networking.k8s.io`.
pub fn object_path(
    version: &str,
    namespace: &str,
    resource: &str,
    object: &TargetRef,
    metric: &str,
    of_metric: &str,
) -> String {
    let (namespace, metric) = (escaped(namespace), escaped(metric));
    let path = if resource == "namespaces" {
        // An autoscaler cannot look at another namespace than its own.
        format!("/apis/custom.metrics.k8s.io/{version}/namespaces/{namespace}/metrics/{metric}")
    } else {
        let name = escaped(&object.name);
        format!("/apis/custom.metrics.k8s.io/{version}/namespaces/{namespace}/{resource}/{name}/{metric}")
    };
    with_query(path, &[("metricLabelSelector", of_metric)])
}

/// An external metric.
pub fn external_path(namespace: &str, metric: &str, selector: &str) -> String {
    let (namespace, metric) = (escaped(namespace), escaped(metric));
    let path = format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{metric}");
    with_query(path, &[("labelSelector", selector)])
}

/// The items of an answer.
fn items(answer: &Result<String, Failure>, api: &str) -> Result<Vec<Json>, String> {
    let unable = |why: &str| format!("unable to fetch metrics from {api} metrics API: {why}");
    let text = answer.as_ref().map_err(|failure| unable(&failure.message))?;
    let list: Json = from_json(text).map_err(|error| unable(&error))?;
    match &list["items"] {
        Json::Array(items) if !items.is_empty() => Ok(items.clone()),
        Json::Array(_) | Json::Null => Err(format!("no metrics returned from {api} metrics API")),
        _ => Err(unable("the answer is no list")),
    }
}

fn milli(quantity: &Json) -> Option<i64> {
    let text = match quantity {
        Json::String(text) => text.clone(),
        Json::Number(number) => number.to_string(),
        _ => return None,
    };
    Quantity::parse(&text).ok().map(|quantity| quantity.milli_value())
}

fn time(value: &Json) -> Option<Time> {
    value.as_str().and_then(Time::parse)
}

/// Values of a resource, of whole pods or of one container each.
pub fn resource_values(
    answer: &Result<String, Failure>,
    resource: &str,
    container: &str,
) -> Result<Values, String> {
    let mut values = Values::new();
    for item in items(answer, "resource")? {
        let containers = item["containers"].as_array().map_or(&[][..], Vec::as_slice);
        let usage = |c: &Json| milli(&c["usage"][resource]);
        let sum = if container.is_empty() {
            // A pod counts as a whole or not at all.
            let all: Option<Vec<i64>> = containers.iter().map(usage).collect();
            all.filter(|all| !all.is_empty()).map(|all| all.into_iter().fold(0, i64::saturating_add))
        } else {
            containers.iter().find(|c| c["name"] == container).and_then(usage)
        };
        let (Some(milli), Some(name)) = (sum, item["metadata"]["name"].as_str()) else { continue };
        let window = item["window"].as_str().and_then(coxswain_sdk::duration::parse);
        let value = Value { milli, at: time(&item["timestamp"]), window: window.unwrap_or_default() };
        values.insert(name.to_owned(), value);
    }
    Ok(values)
}

/// Values of a custom metric of pods.
pub fn pod_values(answer: &Result<String, Failure>) -> Result<Values, String> {
    let mut values = Values::new();
    for item in items(answer, "custom")? {
        let name = item["describedObject"]["name"].as_str();
        let (Some(milli), Some(name)) = (milli(&item["value"]), name) else { continue };
        // Only of CPU does it matter when a value was taken.
        values.insert(name.to_owned(), Value { milli, at: None, window: Duration::ZERO });
    }
    Ok(values)
}

/// The value of a custom metric of one object.
pub fn object_value(answer: &Result<String, Failure>) -> Result<i64, String> {
    let unable = |why: String| format!("unable to fetch metrics from custom metrics API: {why}");
    let found = items(answer, "custom")?;
    let [item] = found.as_slice() else {
        return Err(unable(format!(
            "the custom metrics API server returned {} results when we asked for exactly one",
            found.len()
        )));
    };
    milli(&item["value"]).ok_or_else(|| unable(format!("the value {} is no quantity", item["value"])))
}

/// The sum of an external metric.
pub fn external_value(answer: &Result<String, Failure>) -> Result<i64, String> {
    let values = items(answer, "external")?;
    Ok(values.iter().filter_map(|item| milli(&item["value"])).fold(0, i64::saturating_add))
}
