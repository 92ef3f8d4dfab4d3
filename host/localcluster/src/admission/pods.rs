//! Priority and default tolerations of pods.

use serde_json::{Value, json};

use super::refused;
use crate::kinds::names;
use crate::kinds::value::{child, copy, fill, flag, int, items, set, text};
use crate::rest::strategy::{Consulted, Ctx, Kind};
use crate::status::Status;

/// The two classes every cluster has.
fn builtin_class(name: &str) -> Option<Value> {
    let value = match name {
        "system-node-critical" => 2_000_001_000,
        "system-cluster-critical" => 2_000_000_000,
        _ => return None,
    };
    Some(json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority"}))
}

/// The class marked as default, the lowest one if there are several.
fn default_class(ctx: &Ctx<'_>) -> Option<Value> {
    let all = ctx.consult(Consulted::PriorityClasses).few();
    all.iter().filter(|c| flag(c, "globalDefault")).min_by_key(|c| int(c, "value")).cloned()
}

/// Resolves the class of a pod to its number.
pub(super) fn priority(ctx: &Ctx<'_>, kind: &Kind, pod: &mut Value) -> Result<(), Status> {
    let name = text(&pod["spec"], "priorityClassName").to_owned();
    let class = if name.is_empty() {
        default_class(ctx)
    } else {
        let found = ctx.consult(Consulted::PriorityClasses).get("", &name).or_else(|| builtin_class(&name));
        if found.is_none() {
            return Err(refused(kind, pod, &format!("no PriorityClass with name {name} was found")));
        }
        found
    };
    let value = class.as_ref().map_or(0, |c| int(c, "value"));
    let given = pod["spec"]["priority"].as_i64();
    if let Some(given) = given.filter(|given| *given != value) {
        return Err(refused(
            kind,
            pod,
            &format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
            ),
        ));
    }
    let policy = match class.as_ref().map_or("", |c| text(c, "preemptionPolicy")) {
        "" => "PreemptLowerPriority".to_owned(),
        policy => policy.to_owned(),
    };
    if let Some(own) = pod["spec"]["preemptionPolicy"].as_str().filter(|own| *own != policy) {
        return Err(refused(
            kind,
            pod,
            &format!(
                "the string value of PreemptionPolicy ({own}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
            ),
        ));
    }
    let spec = child(pod, "spec");
    if let Some(class) = class.filter(|_| name.is_empty()) {
        fill(spec, "priorityClassName", text(&class["metadata"], "name").to_owned());
    }
    set(spec, "priority", value);
    set(spec, "preemptionPolicy", policy);
    Ok(())
}

/// A change that says nothing of priority leaves it.
pub(super) fn keep_priority(old: &Value, pod: &mut Value) {
    for key in ["priority", "preemptionPolicy"] {
        if pod["spec"][key].is_null() && !old["spec"][key].is_null() {
            copy(&old["spec"], child(pod, "spec"), key);
        }
    }
}

const OTHER_OVERHEAD: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

/// What the runtime class of a pod adds: overhead, and where it can run.
pub(super) fn runtime_class(ctx: &Ctx<'_>, kind: &Kind, pod: &mut Value) -> Result<(), Status> {
    let Some(name) = pod["spec"]["runtimeClassName"].as_str().map(str::to_owned) else { return Ok(()) };
    // What cannot be a name is not even asked for.
    if name.is_empty() {
        return Err(Status::server_error("resource name may not be empty"));
    }
    let wrong = names::NameRule::PathSegment.check(&name, false);
    if !wrong.is_empty() {
        return Err(Status::server_error(format!("invalid resource name {name:?}: [{}]", wrong.join(" "))));
    }
    let Some(class) = ctx.consult(Consulted::RuntimeClasses).get("", &name) else {
        return Err(refused(kind, pod, &format!("pod rejected: RuntimeClass {name:?} not found")));
    };
    let spec = child(pod, "spec");
    let fixed = &class["overhead"]["podFixed"];
    if !fixed.is_null() {
        let own = &spec["overhead"];
        if own.as_object().is_some_and(|own| !own.is_empty()) && own != fixed {
            return Err(refused(kind, pod, OTHER_OVERHEAD));
        }
        set(spec, "overhead", fixed.clone());
    }
    let scheduling = &class["scheduling"];
    for (key, value) in scheduling["nodeSelector"].as_object().into_iter().flatten() {
        let own = child(spec, "nodeSelector");
        if !own[key].is_null() && own[key] != *value {
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                value.as_str().unwrap_or(""),
                own[key].as_str().unwrap_or("")
            );
            return Err(refused(kind, pod, &why));
        }
        set(own, key, value.clone());
    }
    if !scheduling.is_null() {
        let all = merged(items(spec, "tolerations"), items(scheduling, "tolerations"));
        if !all.is_empty() {
            set(spec, "tolerations", all);
        }
    }
    Ok(())
}

/// The tolerations of both, but for those that another one covers; of equal ones the first stays.
fn merged(own: &[Value], added: &[Value]) -> Vec<Value> {
    let all: Vec<&Value> = own.iter().chain(added).collect();
    let mut out: Vec<Value> = Vec::new();
    for (i, one) in all.iter().enumerate() {
        let before = out.iter().any(|kept| covers(kept, one));
        let after = all[i + 1..].iter().any(|other| other != one && covers(other, one));
        if !before && !after {
            out.push((*one).clone());
        }
    }
    out
}

/// Whether `wide` tolerates whatever `narrow` does.
fn covers(wide: &Value, narrow: &Value) -> bool {
    let same = |key: &str| text(wide, key) == text(narrow, key);
    let exists = text(wide, "operator") == "Exists";
    let key = same("key") || (text(wide, "key").is_empty() && exists);
    let effect = same("effect") || text(wide, "effect").is_empty();
    let as_long = text(wide, "effect") != "NoExecute"
        || wide["tolerationSeconds"]
            .as_i64()
            .is_none_or(|most| narrow["tolerationSeconds"].as_i64().is_some_and(|seconds| seconds <= most));
    // An operator that is left out is Equal in the wide one only.
    let value = match text(wide, "operator") {
        "Exists" => true,
        "Equal" | "" => text(narrow, "operator") == "Equal" && same("value"),
        _ => false,
    };
    wide == narrow || (key && effect && as_long && value)
}

/// Overhead comes from a runtime class only.
pub(super) fn overhead(ctx: &Ctx<'_>, kind: &Kind, pod: &Value) -> Result<(), Status> {
    let overhead = &pod["spec"]["overhead"];
    let class = match text(&pod["spec"], "runtimeClassName") {
        "" => None,
        name => ctx.consult(Consulted::RuntimeClasses).get("", name),
    };
    let defined = class.as_ref().map_or(&Value::Null, |class| &class["overhead"]);
    if overhead.is_null() && defined.is_null() {
        return Ok(());
    }
    if defined.is_null() {
        let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
        return Err(refused(kind, pod, why));
    }
    if *overhead != defined["podFixed"] {
        return Err(refused(kind, pod, OTHER_OVERHEAD));
    }
    Ok(())
}

/// Only one class may be the default.
pub(super) fn one_default(ctx: &Ctx<'_>, kind: &Kind, class: &Value) -> Result<(), Status> {
    if !flag(class, "globalDefault") {
        return Ok(());
    }
    match default_class(ctx) {
        Some(other) if other["metadata"]["name"] != class["metadata"]["name"] => {
            let name = text(&other["metadata"], "name");
            Err(refused(
                kind,
                class,
                &format!("PriorityClass {name} is already marked as default. Only one default can exist"),
            ))
        }
        _ => Ok(()),
    }
}

/// Pods stay five minutes on a node that is not ready or not reachable, unless they say otherwise.
pub(super) fn tolerations(pod: &mut Value) {
    const SECONDS: i64 = 300;
    let spec = child(pod, "spec");
    let mut all = items(spec, "tolerations").to_vec();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = all.iter().any(|t| {
            let (own, effect) = (text(t, "key"), text(t, "effect"));
            (own == key || own.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        });
        if !tolerated {
            all.push(json!({
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": SECONDS,
            }));
        }
    }
    if !all.is_empty() {
        set(spec, "tolerations", all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_tolerations_come_first_and_stand_in_for_defaults() {
        let mut pod = json!({"spec": {"tolerations": [{"key": "x", "operator": "Exists"}]}});
        tolerations(&mut pod);
        assert_eq!(items(&pod["spec"], "tolerations").len(), 3);
        let mut all = json!({"spec": {"tolerations": [{"operator": "Exists"}]}});
        tolerations(&mut all);
        assert_eq!(items(&all["spec"], "tolerations").len(), 1);
    }
}
