//! Resource requirements of containers and claims, and the quality of service that follows from them.

use serde_json::{Value, json};

use super::meta::invalid_all;
use super::names;
use super::value::{entries, items, text};
use crate::schema::Quantity;
use crate::status::FieldError;

/// Parses a quantity that decoding has checked.
pub fn quantity(value: &Value) -> Quantity {
    match value {
        Value::String(text) => Quantity::parse(text).unwrap_or(Quantity::ZERO),
        other => Quantity::parse(&other.to_string()).unwrap_or(Quantity::ZERO),
    }
}

/// Checks `resources` of a container.
pub fn requirements(out: &mut Vec<FieldError>, resources: &Value, path: &str) {
    for (name, amount) in entries(resources, "limits") {
        one(out, name, amount, &format!("{path}.limits"));
    }
    for (name, amount) in entries(resources, "requests") {
        one(out, name, amount, &format!("{path}.requests"));
        let limit = &resources["limits"][name];
        if !limit.is_null() && quantity(amount) > quantity(limit) {
            let detail =
                format!("must be less than or equal to {name} limit of {}", limit.as_str().unwrap_or(""));
            out.push(FieldError::invalid(format!("{path}.requests"), amount, &detail));
        }
    }
}

fn one(out: &mut Vec<FieldError>, name: &str, amount: &Value, path: &str) {
    let field = format!("{path}[{name}]");
    invalid_all(out, &field, &json!(name), names::qualified_name(name));
    const STANDARD: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
    if !name.contains('/') && !STANDARD.contains(&name) && !name.starts_with("hugepages-") {
        out.push(FieldError::invalid(
            &field,
            &json!(name),
            "must be a standard resource type or fully qualified",
        ));
        out.push(FieldError::invalid(&field, &json!(name), "must be a standard resource for containers"));
    }
    let amount_value = quantity(amount);
    if amount_value.is_negative() {
        out.push(FieldError::invalid(&field, amount, "must be greater than or equal to 0"));
    }
    let integer = name.contains('/') && !name.starts_with("kubernetes.io/");
    if integer && !amount_value.is_whole() {
        out.push(FieldError::invalid(&field, amount, "must be an integer"));
    }
}

/// The quality of service class of a pod.
pub fn qos(spec: &Value) -> &'static str {
    const COUNTED: [&str; 2] = ["cpu", "memory"];
    let containers = || items(spec, "containers").iter().chain(items(spec, "initContainers"));
    let amount = |c: &Value, kind: &str, name: &str| {
        let q = quantity(&c["resources"][kind][name]);
        (!c["resources"][kind][name].is_null() && !q.is_zero()).then_some(q)
    };
    let any = containers().any(|c| {
        COUNTED.iter().any(|n| amount(c, "requests", n).is_some() || amount(c, "limits", n).is_some())
    });
    if !any {
        return "BestEffort";
    }
    let guaranteed = containers().all(|c| {
        COUNTED.iter().all(|n| {
            let limit = amount(c, "limits", n);
            limit.is_some() && amount(c, "requests", n).is_none_or(|r| Some(r) == limit)
        })
    });
    if guaranteed { "Guaranteed" } else { "Burstable" }
}

/// What a pod requests in all: the sum of its containers, or its largest init container, plus overhead.
pub fn pod_total(spec: &Value, kind: &str, name: &str) -> Option<Quantity> {
    let of = |c: &Value| {
        let value = &c["resources"][kind][name];
        (!value.is_null()).then(|| quantity(value))
    };
    let mut total: Option<Quantity> = None;
    for amount in items(spec, "containers").iter().filter_map(of) {
        total = Some(total.map_or(amount, |t| t.plus(amount)));
    }
    let mut sidecars = Quantity::ZERO;
    for container in items(spec, "initContainers") {
        let Some(amount) = of(container) else { continue };
        if text(container, "restartPolicy") == "Always" {
            total = Some(total.map_or(amount, |t| t.plus(amount)));
            sidecars = sidecars.plus(amount);
        } else {
            let peak = sidecars.plus(amount);
            total = Some(total.map_or(peak, |t| if peak > t { peak } else { t }));
        }
    }
    let overhead = &spec["overhead"][name];
    if !overhead.is_null() && total.is_some_and(|t| kind == "requests" || !t.is_zero()) {
        total = total.map(|t| t.plus(quantity(overhead)));
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quality_follows_requests_and_limits() {
        for (resources, want) in [
            (json!({}), "BestEffort"),
            (json!({"requests": {"cpu": "1"}}), "Burstable"),
            (
                json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}),
                "Guaranteed",
            ),
            (json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}), "Burstable"),
        ] {
            assert_eq!(qos(&json!({"containers": [{"resources": resources}]})), want);
        }
    }
}
