//! LimitRanges: defaults for containers, bounds for containers, pods and claims.

use serde_json::{Value, json};

use super::refused;
use crate::kinds::resources::{pod_total, quantity};
use crate::kinds::value::{child, entries, fill as fill_in, items, items_mut, set, text};
use crate::rest::strategy::{Consulted, Ctx, Kind};
use crate::schema::Quantity;
use crate::status::Status;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

fn ranges(ctx: &Ctx<'_>) -> Vec<Value> {
    if ctx.namespace.is_empty() {
        Vec::new()
    } else {
        ctx.consult(Consulted::LimitRanges).list(ctx.namespace)
    }
}

/// Gives containers without requests or limits those of the namespace.
pub(super) fn fill(ctx: &Ctx<'_>, pod: &mut Value) {
    for range in ranges(ctx) {
        let (mut requests, mut limits) = (json!({}), json!({}));
        for limit in items(&range["spec"], "limits").iter().filter(|l| text(l, "type") == "Container") {
            for (name, amount) in entries(limit, "defaultRequest") {
                set(&mut requests, name, amount.clone());
            }
            for (name, amount) in entries(limit, "default") {
                set(&mut limits, name, amount.clone());
            }
        }
        let mut notes = Vec::new();
        for (list, prefix) in [("containers", "container"), ("initContainers", "init container")] {
            for container in items_mut(child(pod, "spec"), list) {
                fill_container(container, prefix, &requests, &limits, &mut notes);
            }
        }
        if !notes.is_empty() {
            let note = format!("LimitRanger plugin set: {}", notes.join("; "));
            set(child(child(pod, "metadata"), "annotations"), ANNOTATION, note);
        }
    }
}

fn fill_container(
    container: &mut Value,
    prefix: &str,
    requests: &Value,
    limits: &Value,
    notes: &mut Vec<String>,
) {
    let name = text(container, "name").to_owned();
    for (key, noun, defaults) in [("requests", "request", requests), ("limits", "limit", limits)] {
        let mut given = Vec::new();
        for (resource, amount) in defaults.as_object().into_iter().flatten() {
            let place = child(child(container, "resources"), key);
            if place[resource].is_null() {
                fill_in(place, resource, amount.clone());
                given.push(resource.as_str());
            }
        }
        if !given.is_empty() {
            notes.push(format!("{} {noun} for {prefix} {name}", given.join(", ")));
        }
    }
}

/// Refuses pods and claims outside the bounds of the namespace.
pub(super) fn check(ctx: &Ctx<'_>, kind: &Kind, object: &Value) -> Result<(), Status> {
    let pods = kind.group.is_empty() && kind.plural == "pods";
    let claims = kind.group.is_empty() && kind.plural == "persistentvolumeclaims";
    if !pods && !claims {
        return Ok(());
    }
    let mut errors = Vec::new();
    for range in ranges(ctx) {
        for limit in items(&range["spec"], "limits") {
            match text(limit, "type") {
                "PersistentVolumeClaim" if claims => {
                    let resources = &object["spec"]["resources"];
                    let amount = |kind: &str, name: &str| {
                        let value = &resources[kind][name];
                        (!value.is_null()).then(|| quantity(value))
                    };
                    bounds(limit, "PersistentVolumeClaim", &amount, true, &mut errors);
                }
                "Container" if pods => {
                    for list in ["containers", "initContainers"] {
                        for container in items(&object["spec"], list) {
                            let amount = |kind: &str, name: &str| {
                                let value = &container["resources"][kind][name];
                                (!value.is_null()).then(|| quantity(value))
                            };
                            bounds(limit, "Container", &amount, false, &mut errors);
                        }
                    }
                }
                "Pod" if pods => {
                    let amount = |kind: &str, name: &str| pod_total(&object["spec"], kind, name);
                    bounds(limit, "Pod", &amount, false, &mut errors);
                }
                _ => {}
            }
        }
    }
    // What several containers do wrong in the same words is said once.
    let mut said = std::collections::HashSet::new();
    errors.retain(|error| said.insert(error.clone()));
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(refused(kind, object, one)),
        many => Err(refused(kind, object, &format!("[{}]", many.join(", ")))),
    }
}

fn bounds(
    limit: &Value,
    subject: &str,
    amount: &dyn Fn(&str, &str) -> Option<Quantity>,
    requests_only: bool,
    errors: &mut Vec<String>,
) {
    for (name, min) in entries(limit, "min") {
        let (bound, shown) = (quantity(min), min.as_str().unwrap_or(""));
        match (amount("requests", name), amount("limits", name)) {
            (None, _) => errors
                .push(format!("minimum {name} usage per {subject} is {shown}.  No request is specified")),
            (Some(request), _) if request < bound => errors
                .push(format!("minimum {name} usage per {subject} is {shown}, but request is {request}")),
            (_, Some(most)) if most < bound => {
                errors.push(format!("minimum {name} usage per {subject} is {shown}, but limit is {most}"))
            }
            _ => {}
        }
    }
    for (name, max) in entries(limit, "max") {
        let (bound, shown) = (quantity(max), max.as_str().unwrap_or(""));
        let (request, most) = (amount("requests", name), amount("limits", name));
        match (request, most) {
            (None, _) if requests_only => errors
                .push(format!("maximum {name} usage per {subject} is {shown}.  No request is specified")),
            (Some(request), _) if requests_only => {
                if request > bound {
                    errors.push(format!(
                        "maximum {name} usage per {subject} is {shown}, but request is {request}"
                    ));
                }
            }
            (_, None) => {
                errors.push(format!("maximum {name} usage per {subject} is {shown}.  No limit is specified"))
            }
            (_, Some(most)) if most > bound => {
                errors.push(format!("maximum {name} usage per {subject} is {shown}, but limit is {most}"))
            }
            (Some(request), _) if request > bound => errors
                .push(format!("maximum {name} usage per {subject} is {shown}, but request is {request}")),
            _ => {}
        }
    }
    for (name, ratio) in entries(limit, "maxLimitRequestRatio") {
        let (bound, shown) = (quantity(ratio), ratio.as_str().unwrap_or(""));
        match (amount("requests", name), amount("limits", name)) {
            (Some(request), Some(most)) if !request.is_zero() && !most.is_zero() => {
                let observed = most.milli_value() as f64 / request.milli_value().max(1) as f64;
                if observed > bound.milli_value() as f64 / 1000.0 {
                    errors.push(format!(
                        "{name} max limit to request ratio per {subject} is {shown}, but provided ratio is {observed:.6}"
                    ));
                }
            }
            (Some(request), _) if !request.is_zero() => errors.push(format!(
                "{name} max limit to request ratio per {subject} is {shown}, but no limit is specified or limit is 0"
            )),
            _ => errors.push(format!(
                "{name} max limit to request ratio per {subject} is {shown}, but no request is specified or request is 0"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_named_in_refusals() {
        let limit = json!({"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "1"}});
        let run = |request: Option<&str>, most: Option<&str>| {
            let mut errors = Vec::new();
            let pick = |kind: &str, _: &str| {
                let text = if kind == "requests" { request } else { most };
                text.and_then(Quantity::parse)
            };
            bounds(&limit, "Container", &pick, false, &mut errors);
            errors
        };
        assert_eq!(run(Some("200m"), Some("1")), Vec::<String>::new());
        assert_eq!(run(Some("200m"), Some("2")), ["maximum cpu usage per Container is 1, but limit is 2"]);
        assert_eq!(
            run(None, Some("1")),
            ["minimum cpu usage per Container is 100m.  No request is specified"]
        );
    }
}
