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

/// Checks limits and requests of a container.
pub fn requirements(out: &mut Vec<FieldError>, resources: &Value, path: &str) {
    amounts(out, resources, path, limit_resource);
}

fn amounts(
    out: &mut Vec<FieldError>,
    resources: &Value,
    path: &str,
    name_rule: fn(&mut Vec<FieldError>, &str, &str),
) {
    for (name, amount) in entries(resources, "limits") {
        let field = format!("{path}.limits[{name}]");
        name_rule(out, name, &field);
        amount_of(out, name, amount, &field);
        page_size(out, name, amount, &field);
    }
    let requests = format!("{path}.requests");
    for (name, amount) in entries(resources, "requests") {
        let field = format!("{requests}[{name}]");
        name_rule(out, name, &field);
        amount_of(out, name, amount, &field);
        let limit = &resources["limits"][name];
        let shared = may_overcommit(name);
        if limit.is_null() {
            if !shared {
                let detail = "Limit must be set for non overcommitable resources";
                out.push(FieldError::required(format!("{path}.limits"), detail));
            }
        } else {
            let relation = if !shared && quantity(amount) != quantity(limit) {
                "equal to"
            } else if quantity(amount) > quantity(limit) {
                "less than or equal to"
            } else {
                ""
            };
            if !relation.is_empty() {
                let limit = limit.as_str().unwrap_or("");
                let detail = format!("must be {relation} {name} limit of {limit}");
                out.push(FieldError::invalid(&requests, amount, &detail));
            }
        }
        page_size(out, name, amount, &field);
    }
    let any = |wanted: fn(&str) -> bool| {
        ["limits", "requests"].iter().any(|key| entries(resources, key).any(|(name, _)| wanted(name)))
    };
    if any(is_pages) && !any(|name| matches!(name, "cpu" | "memory")) {
        out.push(FieldError::forbidden(path, "HugePages require cpu or memory"));
    }
}

pub(super) fn is_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Whether a name belongs to Kubernetes itself.
pub(super) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_pages(name)
}

/// Whether a name is that of an extended resource.
pub(super) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// The name of any resource; without a domain it must be one of the known.
pub(super) fn resource_name(out: &mut Vec<FieldError>, name: &str, field: &str) {
    const STANDARD: [&str; 20] = [
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "storage",
        "requests.storage",
        "services.nodeports",
        "services.loadbalancers",
    ];
    let wrong = names::qualified_name(name);
    if !wrong.is_empty() {
        invalid_all(out, field, &json!(name), wrong);
        return;
    }
    let known = STANDARD.contains(&name)
        || ["hugepages-", "requests.hugepages-"].iter().any(|prefix| name.starts_with(prefix));
    if !name.contains('/') && !known {
        let detail = "must be a standard resource type or fully qualified";
        out.push(FieldError::invalid(field, &json!(name), detail));
    }
}

/// The name of a resource that containers have.
pub(super) fn limit_resource(out: &mut Vec<FieldError>, name: &str, field: &str) {
    resource_name(out, name, field);
    if !name.contains('/') {
        if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !is_pages(name) {
            let detail = "must be a standard resource for containers";
            out.push(FieldError::invalid(field, &json!(name), detail));
        }
    } else if !is_native(name) && !is_extended(name) {
        let detail = "doesn't follow extended resource name standard";
        out.push(FieldError::invalid(field, &json!(name), detail));
    }
}

fn pod_resource(out: &mut Vec<FieldError>, name: &str, field: &str) {
    let before = out.len();
    resource_name(out, name, field);
    if out.len() == before && !matches!(name, "cpu" | "memory") && !is_pages(name) {
        let known = ["cpu", "hugepages-", "memory"];
        out.push(FieldError::not_supported(field, &json!(name), &known));
    }
}

/// The amount of a resource: not negative, and whole where it is counted.
pub(super) fn amount_of(out: &mut Vec<FieldError>, name: &str, amount: &Value, field: &str) {
    const COUNTED: [&str; 9] = [
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    ];
    let value = quantity(amount);
    if value.is_negative() {
        out.push(FieldError::invalid(field, amount, "must be greater than or equal to 0"));
    }
    if (COUNTED.contains(&name) || is_extended(name)) && value.milli_value() % 1000 != 0 {
        out.push(FieldError::invalid(field, amount, "must be an integer"));
    }
}

/// Pages come in whole numbers.
fn page_size(out: &mut Vec<FieldError>, name: &str, amount: &Value, field: &str) {
    let Some(size) = name.strip_prefix("hugepages-").and_then(Quantity::parse) else { return };
    if size.value() > 0 && quantity(amount).value() % size.value() != 0 {
        let detail = format!("{} is not positive integer multiple of {name}", quantity(amount));
        out.push(FieldError::invalid(field, amount, &detail));
    }
}

/// Claims that a container uses must be the pod's.
pub(super) fn claims(out: &mut Vec<FieldError>, resources: &Value, path: &str, pod: &Value) {
    let mut known: Vec<&str> = items(pod, "resourceClaims").iter().map(|c| text(c, "name")).collect();
    known.retain(|name| !name.is_empty());
    known.sort_unstable();
    let mut seen: Vec<String> = Vec::new();
    for (i, claim) in items(resources, "claims").iter().enumerate() {
        let field = format!("{path}[{i}]");
        let (name, request) = (text(claim, "name"), text(claim, "request"));
        if name.is_empty() {
            out.push(FieldError::required(field, ""));
            continue;
        }
        if seen.iter().any(|s| s == name) {
            out.push(FieldError::duplicate(&field, &json!(name)));
        } else {
            let mut key = name.to_owned();
            if !request.is_empty() {
                invalid_all(out, &format!("{field}.request"), &json!(request), names::label(request));
                key = format!("{name}/{request}");
            }
            if seen.contains(&key) {
                out.push(FieldError::duplicate(&field, &json!(key)));
            } else if request.is_empty() {
                for _ in seen.iter().filter(|s| s.split_once('/').is_some_and(|(n, _)| n == name)) {
                    out.push(FieldError::duplicate(&field, &json!(name)));
                }
            }
            seen.push(key);
        }
        if !known.contains(&name) {
            let rest = if known.is_empty() {
                " which is empty".to_owned()
            } else {
                format!(": {}", known.join(", "))
            };
            let message =
                format!("Not found: {name:?}: must be one of the names in pod.spec.resourceClaims{rest}");
            out.push(FieldError::raw(crate::status::FieldReason::NotFound, field, message));
        }
    }
}

/// Checks `resources` of a whole pod against those of its containers.
pub(super) fn of_pod(out: &mut Vec<FieldError>, spec: &Value, path: &str) {
    let resources = &spec["resources"];
    if text(&spec["os"], "name") == "windows" {
        out.push(FieldError::forbidden(path, "may not be set for a windows pod"));
        return;
    }
    if !resources["claims"].is_null() {
        let detail = "claims may not be set for Resources at pod-level";
        out.push(FieldError::forbidden(format!("{path}.claims"), detail));
    }
    amounts(out, resources, path, pod_resource);
    for (name, amount) in entries(resources, "requests") {
        let Some(total) = pod_total(spec, "requests", name) else { continue };
        if total > quantity(amount) {
            let detail = format!("must be greater than or equal to aggregate container requests of {total}");
            out.push(FieldError::invalid(format!("{path}.requests[{name}]"), amount, &detail));
        }
    }
    for list in ["containers", "initContainers"] {
        for (i, container) in items(spec, list).iter().enumerate() {
            for (name, limit) in entries(&container["resources"], "limits") {
                let whole = &resources["limits"][name];
                if !whole.is_null() && quantity(limit) > quantity(whole) {
                    let base = path.strip_suffix(".resources").unwrap_or(path);
                    let field = format!("{base}.{list}[{i}].resources.limits[{name}]");
                    let detail = format!("must be less than or equal to pod limits of {}", quantity(whole));
                    out.push(FieldError::invalid(field, limit, &detail));
                }
            }
        }
    }
}

/// The quality of service class of a pod.
pub fn qos(spec: &Value) -> &'static str {
    const COUNTED: [&str; 2] = ["cpu", "memory"];
    if !spec["resources"].is_null() && spec["containers"].is_array() {
        // What is given for the pod as a whole counts instead.
        return qos(&json!({"containers": null, "initContainers": [{"resources": spec["resources"]}]}));
    }
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
