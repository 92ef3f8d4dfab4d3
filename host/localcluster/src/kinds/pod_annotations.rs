//! Annotations of pods and pod templates that are more than a note: what they have to look like.
//!
//! Source of the rules: `ValidatePodSpecificAnnotations` and `ValidatePodSpecificAnnotationUpdates` of Kubernetes.

use serde_json::{Value, json};

use super::pod_containers::CONTAINERS;
use super::value::{child, entries, items, items_mut, set, text};
use crate::rest::strategy::Ctx;
use crate::status::FieldError;

/// The older way to say which AppArmor profile a container runs under.
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const RUNTIME: &str = "runtime/default";
const LOCAL: &str = "localhost/";
const UNCONFINED: &str = "unconfined";
const MIRROR: &str = "kubernetes.io/config.mirror";

/// What it costs to delete a pod before others of its ReplicaSet.
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Checks the cost in `metadata`, whose annotations are at `path`.
pub(super) fn cost(out: &mut Vec<FieldError>, metadata: &Value, path: &str) {
    let value = &metadata["annotations"][COST];
    if value.as_str().is_some_and(|text| !is_cost(text)) {
        out.push(FieldError::invalid(format!("{path}[{COST}]"), value, "must be a 32bit integer"));
    }
}

/// A number without a plus or zeros in front of it.
fn is_cost(text: &str) -> bool {
    (text == "0" || !text.starts_with(['+', '0'])) && text.parse::<i32>().is_ok()
}

/// Checks the AppArmor profiles in `metadata`, whose annotations are at `path`.
pub(super) fn app_armor(out: &mut Vec<FieldError>, metadata: &Value, spec: &Value, path: &str) {
    for (key, value) in entries(metadata, "annotations") {
        let Some(container) = key.strip_prefix(APP_ARMOR) else { continue };
        let field = format!("{path}[{key}]");
        let known = |list: &&str| items(spec, list).iter().any(|c| text(c, "name") == container);
        if !CONTAINERS.iter().any(known) {
            out.push(FieldError::invalid(&field, &json!(container), "container not found"));
        }
        let profile = value.as_str().unwrap_or("");
        if !matches!(profile, "" | RUNTIME | UNCONFINED) && !profile.starts_with(LOCAL) {
            let detail = format!("invalid AppArmor profile name: {profile:?}");
            out.push(FieldError::invalid(&field, value, &detail));
        }
    }
}

/// The profile that an annotation stands for.
fn profile(annotation: &str) -> Option<Value> {
    match annotation {
        UNCONFINED => Some(json!({"type": "Unconfined"})),
        RUNTIME => Some(json!({"type": "RuntimeDefault"})),
        _ => {
            let name = annotation.strip_prefix(LOCAL)?;
            let sound = !name.is_empty() && name.trim() == name && name.len() <= 4095;
            sound.then(|| json!({"type": "Localhost", "localhostProfile": name}))
        }
    }
}

/// A profile that only an annotation names becomes the container's.
pub(super) fn adopt_app_armor(ctx: &Ctx<'_>, pod: &mut Value) {
    if text(&pod["spec"]["os"], "name") == "windows" {
        return;
    }
    let annotations = pod["metadata"]["annotations"].clone();
    let of_pod = pod["spec"]["securityContext"]["appArmorProfile"].clone();
    for list in CONTAINERS {
        for container in items_mut(child(pod, "spec"), list) {
            let key = format!("{APP_ARMOR}{}", text(container, "name"));
            let Some(annotation) = annotations[&key].as_str() else { continue };
            if !container["securityContext"]["appArmorProfile"].is_null() {
                continue;
            }
            match profile(annotation) {
                Some(profile) if profile == of_pod => continue,
                Some(profile) => set(child(container, "securityContext"), "appArmorProfile", profile),
                None => {}
            }
            ctx.warn(format!(
                "metadata.annotations[{key}]: deprecated since v1.30; use the \"appArmorProfile\" field instead"
            ));
        }
    }
}

/// What annotations and fields both say of AppArmor is the same; `path` is that of the spec.
pub(super) fn app_armor_agrees(out: &mut Vec<FieldError>, metadata: &Value, spec: &Value, path: &str) {
    if text(&spec["os"], "name") == "windows" {
        return;
    }
    for list in CONTAINERS {
        for (i, container) in items(spec, list).iter().enumerate() {
            let own = &container["securityContext"]["appArmorProfile"];
            let profile = if own.is_null() { &spec["securityContext"]["appArmorProfile"] } else { own };
            let key = format!("{APP_ARMOR}{}", text(container, "name"));
            let Some(annotation) = metadata["annotations"][&key].as_str() else { continue };
            let named = annotation.strip_prefix(LOCAL);
            let (fits, field, what) = match text(profile, "type") {
                "Unconfined" => (annotation == UNCONFINED, "type", "type"),
                "RuntimeDefault" => (annotation == RUNTIME, "type", "type"),
                "Localhost" if named.is_none() => (false, "type", "type"),
                "Localhost" => (named == profile["localhostProfile"].as_str(), "localhostProfile", "profile"),
                _ => continue,
            };
            if !fits {
                let field = format!("{path}.{list}[{i}].securityContext.appArmorProfile.{field}");
                let detail = format!("apparmor {what} in annotation and field must match");
                out.push(FieldError::forbidden(field, &detail));
            }
        }
    }
}

/// Checks a changed pod.
pub(super) fn change(out: &mut Vec<FieldError>, old: &Value, new: &Value) {
    const PATH: &str = "metadata.annotations";
    let (before, after) = (&old["metadata"], &new["metadata"]);
    let watched = |key: &str| match key {
        MIRROR => Some("mirror pod annotation"),
        key if key.starts_with(APP_ARMOR) => Some("AppArmor annotations"),
        _ => None,
    };
    let mut refuse = |key: &str, verb: &str| {
        if let Some(what) = watched(key) {
            out.push(FieldError::forbidden(format!("{PATH}[{key}]"), &format!("may not {verb} {what}")));
        }
    };
    for (key, value) in entries(before, "annotations") {
        if after["annotations"][key] != *value {
            refuse(key, "remove or update");
        }
    }
    for (key, _) in entries(after, "annotations") {
        if before["annotations"][key].is_null() {
            refuse(key, "add");
        }
    }
    let mut found = Vec::new();
    cost(&mut found, &new["metadata"], PATH);
    forgive(&mut found, || {
        let mut before = Vec::new();
        cost(&mut before, &old["metadata"], PATH);
        before
    });
    out.append(&mut found);
    app_armor(out, after, &new["spec"], PATH);
}

/// Takes a wrong cost out of `found` if it was wrong before the change already, as `before` tells.
pub(super) fn forgive(found: &mut Vec<FieldError>, before: impl FnOnce() -> Vec<FieldError>) {
    let of_cost = |error: &FieldError| error.field.strip_suffix(']').is_some_and(|f| f.ends_with(COST));
    if !found.iter().any(of_cost) {
        return;
    }
    let before = before();
    found.retain(|error| !of_cost(error) || !before.iter().any(|old| old.field == error.field));
}

/// A kubelet's mirror of a pod of its own is on its node from the start.
pub(super) fn mirror(out: &mut Vec<FieldError>, object: &Value) {
    let value = &object["metadata"]["annotations"][MIRROR];
    if value.is_string() && text(&object["spec"], "nodeName").is_empty() {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        out.push(FieldError::invalid(format!("metadata.annotations[{MIRROR}]"), value, detail));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn costs_are_32bit_integers() {
        for good in ["0", "10", "-10", "-0", "-007", "2147483647", "-2147483648"] {
            assert!(is_cost(good), "{good}");
        }
        for bad in ["", "-", "+10", "008", "00", "1.5", "1_0", " 1", "many", "2147483648"] {
            assert!(!is_cost(bad), "{bad}");
        }
        let mut out = Vec::new();
        cost(&mut out, &json!({"annotations": {COST: "+1"}}), "spec.template.annotations");
        cost(&mut out, &json!({"annotations": {"other": "+1"}}), "metadata.annotations");
        let told: Vec<String> = out.iter().map(ToString::to_string).collect();
        let want = "spec.template.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: \"+1\": must be a 32bit integer";
        assert_eq!(told, [want]);
    }

    #[test]
    fn a_cost_that_was_wrong_may_stay_so() {
        let pod = |cost: Option<&str>| json!({"metadata": {"annotations": {COST: cost}}});
        for (old, new, refused) in [
            (None, Some("x"), true),
            (Some("1"), Some("x"), true),
            (Some("x"), Some("y"), false),
            (Some("x"), Some("1"), false),
            (Some("1"), None, false),
        ] {
            let mut out = Vec::new();
            change(&mut out, &pod(old), &pod(new));
            assert_eq!(!out.is_empty(), refused, "{old:?} {new:?}");
        }
    }
}
