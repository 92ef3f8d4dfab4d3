//! Carries a plan out on the objects of a scenario, as the host and an API
//! server would.

use serde_json::{Map, Value, json};

use super::scenario::RefuseLine;
use super::world::{Frozen, Place, World};
use crate::contract::{
    Action, ActionOutcome, ActionResult, Failure, Manifest, OnFailure, Pace, Patch, PatchKind, Plan,
    Precondition, Propagation, Verb, WriteRule,
};
use crate::merge;

/// What became of a plan.
#[derive(Default)]
pub(super) struct Done {
    /// What did not go as planned.
    pub(super) results: Vec<ActionResult>,
    /// What became of each action, for people, in the plan's order.
    pub(super) notes: Vec<String>,
    /// Writes that were carried out.
    pub(super) writes: u32,
}

/// Refusals still to come.
pub(super) struct Refusals(Vec<RefuseLine>);

impl Refusals {
    pub(super) fn new(lines: &[RefuseLine]) -> Self {
        Self(lines.to_vec())
    }

    /// Refusals that nothing ran into: the scenario does not show what it says.
    pub(super) fn unused(&self) -> impl Iterator<Item = &RefuseLine> {
        self.0.iter().filter(|line| line.times > 0)
    }

    fn next(&mut self, verb: &str, resource: &str, name: &str) -> Option<ActionOutcome> {
        let fits = |line: &&mut RefuseLine| {
            line.verb == verb
                && line.resource == resource
                && line.times > 0
                && line.name.as_ref().is_none_or(|wanted| wanted == name)
        };
        let line = self.0.iter_mut().find(fits)?;
        if line.skip > 0 {
            line.skip -= 1;
            return None;
        }
        line.times -= 1;
        Some(line.fail.as_ref().map_or(ActionOutcome::Unknown, |fail| ActionOutcome::Failed(fail.failure())))
    }
}

fn failure(status: u32, reason: &str, message: impl Into<String>) -> Failure {
    Failure { status, reason: reason.to_owned(), message: message.into(), causes: Vec::new() }
}

/// Carries a plan out. An error is a plan that the host would refuse whole.
pub(super) fn carry_out(
    world: &mut World,
    frozen: &Frozen,
    manifest: &Manifest,
    refusals: &mut Refusals,
    lingering: bool,
    plan: &Plan,
) -> Result<Done, String> {
    let mut done = Done::default();
    let mut stopped = false;
    for step in &plan.steps {
        let mut batch_ends = 1;
        let mut failed = false;
        let mut batch_failed = false;
        for (i, action) in step.actions.iter().enumerate() {
            check_declared(world, manifest, action)?;
            if step.pace == Pace::SlowStart && i == batch_ends {
                batch_ends = batch_ends * 2 + 1;
                batch_failed |= failed;
            }
            if stopped || batch_failed {
                done.notes.push("skipped".to_owned());
                done.results.push(ActionResult { tag: action.tag.clone(), result: ActionOutcome::Skipped });
                continue;
            }
            match write(world, frozen, refusals, lingering, action)? {
                Ok(note) => {
                    done.writes += 1;
                    done.notes.push(note);
                }
                Err(outcome) => {
                    failed = true;
                    done.notes.push(match &outcome {
                        ActionOutcome::Failed(f) => format!("failed: {} {}", f.status, f.reason),
                        ActionOutcome::Skipped => "skipped".to_owned(),
                        ActionOutcome::Unknown => "unknown".to_owned(),
                    });
                    done.results.push(ActionResult { tag: action.tag.clone(), result: outcome });
                }
            }
        }
        stopped |= failed && step.on_failure == OnFailure::Stop;
    }
    Ok(done)
}

fn check_declared(world: &World, manifest: &Manifest, action: &Action) -> Result<(), String> {
    let info =
        world.info(action.resource).ok_or_else(|| format!("no resource has number {}", action.resource))?;
    let verb = verb_of(&action.verb).0;
    let allows = |rule: &WriteRule| {
        let resource = &rule.resource;
        let named = (resource.group == info.group && resource.resource == info.resource)
            || super::world::is_every(resource);
        named && rule.subresource == action.subresource && rule.verbs.iter().any(|allowed| allowed == verb)
    };
    if manifest.writes.iter().any(allows) {
        return Ok(());
    }
    let slash = if action.subresource.is_empty() { "" } else { "/" };
    Err(format!("the manifest does not allow to {verb} {}{slash}{}", info.resource, action.subresource))
}

/// RBAC verb, and the word of the contract.
pub(super) fn verb_of(verb: &Verb) -> (&'static str, &'static str) {
    match verb {
        Verb::Create(_) => ("create", "create"),
        Verb::Patch(_) => ("patch", "patch"),
        Verb::Replace(_) => ("update", "replace"),
        Verb::Delete(_) => ("delete", "delete"),
        Verb::DeleteCollection(_) => ("deletecollection", "delete-collection"),
    }
}

type Written = Result<String, ActionOutcome>;

fn write(
    world: &mut World,
    frozen: &Frozen,
    refusals: &mut Refusals,
    lingering: bool,
    action: &Action,
) -> Result<Written, String> {
    let refuse = |failure: Failure| Ok(Err(ActionOutcome::Failed(failure)));
    let plural = world.info(action.resource).map(|info| info.resource.clone()).unwrap_or_default();
    let slash = if action.subresource.is_empty() { "" } else { "/" };
    let resource = format!("{plural}{slash}{}", action.subresource);
    if let Some(outcome) = refusals.next(verb_of(&action.verb).1, &resource, &action.name) {
        return Ok(Err(outcome));
    }
    let place: Place = (action.resource, action.namespace.clone(), action.name.clone());
    if let Verb::Create(body) = &action.verb {
        return create(world, place, body);
    }
    if let Verb::DeleteCollection(_) = &action.verb {
        let gone: Vec<Place> =
            world.objects.keys().filter(|p| p.0 == place.0 && p.1 == place.1).cloned().collect();
        for place in &gone {
            delete(world, place, None, None, lingering);
        }
        return Ok(Ok(format!("{} deleted", gone.len())));
    }
    let is_delete = matches!(action.verb, Verb::Delete(_));
    let Some(object) = world.objects.get(&place) else {
        // The host counts what is gone as deleted.
        let note = failure(404, "NotFound", format!("{plural} \"{}\" not found", action.name));
        return if is_delete { Ok(Ok("already gone".to_owned())) } else { refuse(note) };
    };
    match &action.precondition {
        Precondition::None => {}
        Precondition::Uid(uid) if object["metadata"]["uid"] == json!(uid) => {}
        Precondition::Uid(_) if is_delete => return Ok(Ok("already gone".to_owned())),
        Precondition::Uid(_) => return refuse(failure(409, "Conflict", "another uid")),
        Precondition::AsSeen(reference) => match frozen.place_of(reference) {
            Some(seen) if *seen == place => {}
            Some(_) => return Err(format!("as-seen of {place:?} names another object")),
            None => return refuse(failure(409, "Conflict", "the object has changed")),
        },
    }
    match &action.verb {
        Verb::Patch(patch) => patch_object(world, &place, &action.subresource, patch),
        Verb::Replace(body) => {
            let body: Value = serde_json::from_str(body).map_err(|e| format!("replace: {e}"))?;
            Ok(Ok(store(world, &place, body)))
        }
        Verb::Delete(options) => {
            delete(world, &place, options.propagation, options.grace_seconds, lingering);
            Ok(Ok("done".to_owned()))
        }
        Verb::Create(_) | Verb::DeleteCollection(_) => Ok(Ok(String::new())),
    }
}

fn create(world: &mut World, mut place: Place, body: &str) -> Result<Written, String> {
    let mut object: Value = serde_json::from_str(body).map_err(|e| format!("create: {e}"))?;
    let in_body = object["metadata"]["name"].as_str().unwrap_or("").to_owned();
    if in_body != place.2 {
        return Err(format!("create: the body names {in_body:?}, the action {:?}", place.2));
    }
    if place.2.is_empty() {
        let prefix = object["metadata"]["generateName"].as_str().unwrap_or("").to_owned();
        if prefix.is_empty() {
            return Err("create: neither name nor generateName".to_owned());
        }
        place.2 = world.generate_name(place.0, &place.1, &prefix);
    }
    let declared = world.place_of(&object)?;
    if declared.0 != place.0 {
        return Err(format!("create: the body is no {}", world.name_of(&place)));
    }
    if world.objects.contains_key(&place) {
        let text = format!("{} already exists", world.name_of(&place));
        return Ok(Err(ActionOutcome::Failed(failure(409, "AlreadyExists", text))));
    }
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    world.complete(&place, &mut object);
    let note = place.2.clone();
    world.objects.insert(place, object);
    Ok(Ok(note))
}

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

fn delete(
    world: &mut World,
    place: &Place,
    propagation: Option<Propagation>,
    grace: Option<u32>,
    lingering: bool,
) {
    let now = world.now.to_string();
    let pods = world.by_plural("pods");
    let Some(object) = world.objects.get_mut(place) else { return };
    let meta = &mut object["metadata"];
    let mut finalizers: Vec<String> = serde_json::from_value(meta["finalizers"].clone()).unwrap_or_default();
    if propagation.is_some() {
        // What is asked for replaces what was there.
        finalizers.retain(|finalizer| finalizer != FOREGROUND && finalizer != ORPHAN);
    }
    match propagation {
        Some(Propagation::Foreground) => finalizers.push(FOREGROUND.to_owned()),
        Some(Propagation::Orphan) => finalizers.push(ORPHAN.to_owned()),
        Some(Propagation::Background) | None => {}
    }
    let lingers = lingering && grace != Some(0) && Some(place.0) == pods;
    if finalizers.is_empty() && !lingers {
        world.objects.remove(place);
        return;
    }
    if let Some(grace) = grace {
        meta["deletionGracePeriodSeconds"] = json!(grace);
    }
    if finalizers.is_empty() {
        meta.as_object_mut().map(|meta| meta.remove("finalizers"));
    } else {
        finalizers.sort();
        finalizers.dedup();
        meta["finalizers"] = json!(finalizers);
    }
    if meta["deletionTimestamp"].is_null() {
        meta["deletionTimestamp"] = json!(now);
    }
}

fn patch_object(
    world: &mut World,
    place: &Place,
    subresource: &str,
    patch: &Patch,
) -> Result<Written, String> {
    let body: Value = serde_json::from_str(&patch.body).map_err(|e| format!("patch: {e}"))?;
    let before = world.objects.get(place).cloned().unwrap_or_default();
    if body["metadata"].get("uid").is_some_and(|uid| *uid != before["metadata"]["uid"]) {
        return Ok(Err(ActionOutcome::Failed(failure(409, "Conflict", "the uid cannot be changed"))));
    }
    let mut after = before.clone();
    match patch.kind {
        PatchKind::Merge => merge::apply(&mut after, &body),
        // An apply is taken for a strategic merge: who owned what is not known,
        // so nothing is taken away.
        PatchKind::Strategic | PatchKind::Apply => strategic(&mut after, &body, ""),
        PatchKind::Json => {
            return Err("scenarios cannot carry out JSON patches yet; use a merge patch".to_owned());
        }
    }
    // A subresource changes itself alone, the object everything else.
    let mut result = before.clone();
    if subresource.is_empty() {
        let status = before.get("status").cloned();
        result = after;
        match (status, result.as_object_mut()) {
            (Some(status), Some(fields)) => drop(fields.insert("status".to_owned(), status)),
            (None, Some(fields)) => drop(fields.remove("status")),
            (_, None) => {}
        }
    } else {
        // An approval is a part of the status.
        let field = if subresource == "approval" { "status" } else { subresource };
        result[field] = after[field].clone();
        // Annotations can be written along with a status.
        if subresource == "status" {
            match (after["metadata"].get("annotations"), result["metadata"].as_object_mut()) {
                (Some(annotations), Some(meta)) => {
                    meta.insert("annotations".to_owned(), annotations.clone());
                }
                (None, Some(meta)) => drop(meta.remove("annotations")),
                (_, None) => {}
            }
        }
    }
    Ok(Ok(store(world, place, result)))
}

/// Stores an object, with what an API server does about it.
fn store(world: &mut World, place: &Place, mut object: Value) -> String {
    let before = world.objects.get(place).cloned().unwrap_or_default();
    if object == before {
        return "changes nothing".to_owned();
    }
    if object["spec"] != before["spec"] {
        let generation = before["metadata"]["generation"].as_i64().unwrap_or(0);
        object["metadata"]["generation"] = json!(generation + 1);
    }
    let meta = &object["metadata"];
    let bare = meta["finalizers"].as_array().is_none_or(Vec::is_empty);
    if !meta["deletionTimestamp"].is_null() && bare && !before["metadata"]["finalizers"].is_null() {
        world.objects.remove(place);
        return "done, and gone".to_owned();
    }
    world.objects.insert(place.clone(), object);
    "done".to_owned()
}

/// Kubernetes' strategic merge, for the lists that controllers patch.
fn strategic(target: &mut Value, patch: &Value, path: &str) {
    let (Value::Object(_), Value::Object(fields)) = (&*target, patch) else {
        target.clone_from(patch);
        return;
    };
    for (field, value) in fields {
        if field.starts_with('$') {
            if let Some(list) = field.strip_prefix("$deleteFromPrimitiveList/")
                && let (Some(items), Some(gone)) = (target[list].as_array_mut(), value.as_array())
            {
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        let inner = format!("{path}.{field}");
        match (value, merge_key(&inner)) {
            (Value::Null, _) => drop(target.as_object_mut().map(|object| object.remove(field))),
            (Value::Array(items), Some(key)) => merge_list(&mut target[field], items, key, &inner),
            (Value::Object(_), _) => {
                if !target[field].is_object() {
                    target[field] = Value::Object(Map::new());
                }
                strategic(&mut target[field], value, &inner);
            }
            _ => target[field] = value.clone(),
        }
    }
}

/// How elements of a list are told apart; "" for a set of plain values.
fn merge_key(path: &str) -> Option<&'static str> {
    match path {
        ".metadata.ownerReferences" => Some("uid"),
        ".metadata.finalizers" => Some(""),
        ".status.conditions" => Some("type"),
        ".spec.containers" | ".spec.initContainers" | ".spec.volumes" => Some("name"),
        ".status.resourceClaimStatuses" => Some("name"),
        _ => None,
    }
}

fn merge_list(target: &mut Value, patch: &[Value], key: &str, path: &str) {
    let mut items = target.as_array().cloned().unwrap_or_default();
    for element in patch {
        let same = |item: &Value| if key.is_empty() { item == element } else { item[key] == element[key] };
        if element.get("$patch") == Some(&json!("delete")) {
            items.retain(|item| !same(item));
        } else if let Some(item) = items.iter_mut().find(|item| same(item)) {
            strategic(item, element, path);
        } else {
            items.push(element.clone());
        }
    }
    *target = Value::Array(items);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategic_patches_keep_the_rest_of_a_list() {
        let mut pod =
            json!({"metadata": {"finalizers": ["a", "b"], "ownerReferences": [{"uid": "1"}, {"uid": "2"}]}});
        let patch = json!({"metadata": {
            "$deleteFromPrimitiveList/finalizers": ["a"],
            "ownerReferences": [{"$patch": "delete", "uid": "1"}, {"uid": "3", "kind": "K"}, {"uid": "2", "controller": true}],
        }});
        strategic(&mut pod, &patch, "");
        assert_eq!(
            pod,
            json!({"metadata": {
                "finalizers": ["b"],
                "ownerReferences": [{"uid": "2", "controller": true}, {"uid": "3", "kind": "K"}],
            }})
        );
    }
}
