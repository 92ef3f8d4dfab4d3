//! Checking a plan before anything of it is sent.
//!
//! In: a plan, the manifest, the registry. Out: nothing, or the reason why the
//! plan is refused as a whole. A plan that goes wrong half way is for the
//! cluster to cause; one that could have been seen to be wrong never starts.

use serde_json::Value;

use super::{
    cached::SeenBy,
    config::ExecutorConfig,
    rules::{check_segment, may_write, rbac_verb, show},
};
use crate::{
    contract::{Action, Event, GroupResource, PatchKind, Plan, Precondition, SyncState, Verb},
    grants::{self, Access, Place},
    registry::Registry,
};

/// Why a plan is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Invalid {
    /// What is wrong, and with which action.
    pub(super) reason: String,
    /// Tag of that action.
    pub(super) tag: Option<String>,
    /// Whether all that is wrong is that it may not be.
    pub(super) forbidden: bool,
    /// Whether the manifest declares it, and the operator does not grant it.
    pub(super) denied: bool,
}

impl From<String> for Invalid {
    fn from(reason: String) -> Self {
        Self { reason, tag: None, forbidden: false, denied: false }
    }
}

/// Checks a whole plan. The error names the action.
pub(super) fn check(
    plan: &Plan,
    config: &ExecutorConfig,
    registry: &Registry,
    view: &dyn SeenBy,
) -> Result<(), Invalid> {
    for event in &plan.events {
        check_event(event, registry)?;
    }
    for action in plan.steps.iter().flat_map(|step| &step.actions) {
        check_action(action, config, registry, view).map_err(|invalid| Invalid {
            reason: format!("action {:?}: {}", action.tag, invalid.reason),
            tag: Some(action.tag.clone()),
            ..invalid
        })?;
    }
    Ok(())
}

fn check_event(event: &Event, registry: &Registry) -> Result<(), String> {
    if registry.name(event.about.resource).is_none() {
        return Err(format!(
            "event {:?} is about resource number {}, which does not exist",
            event.reason, event.about.resource
        ));
    }
    Ok(())
}

fn check_action(
    action: &Action,
    config: &ExecutorConfig,
    registry: &Registry,
    view: &dyn SeenBy,
) -> Result<(), Invalid> {
    let resource =
        registry.name(action.resource).ok_or(format!("there is no resource number {}", action.resource))?;
    let verb = rbac_verb(&action.verb);
    let target = if action.subresource.is_empty() {
        show(&resource)
    } else {
        format!("{}/{}", show(&resource), action.subresource)
    };
    let forbidden = |denied, reason| Err(Invalid { reason, tag: None, forbidden: true, denied });
    if !may_write(&config.manifest.writes, &resource, &action.subresource, &action.name, verb) {
        return forbidden(false, format!("the manifest does not declare {verb} of {target}"));
    }
    let place = place(registry, action.resource, &action.namespace);
    let access = Access::Resource { verb, resource: &resource, subresource: &action.subresource, place };
    if !config.grants.allow(&access) {
        let place = grants::show(place);
        let reason = format!("the operator's policy does not grant {verb} of {target}{place}");
        return forbidden(true, reason);
    }
    check_segment("namespace", &action.namespace)?;
    check_segment("name", &action.name)?;
    check_segment("subresource", &action.subresource)?;
    check_scope(action, &resource, registry)?;
    check_precondition(action)?;
    for event in action.on_success.iter().chain(&action.on_failure) {
        check_event(event, registry)?;
    }
    let collection = matches!(action.verb, Verb::DeleteCollection(_));
    if collection && !(action.name.is_empty() && action.subresource.is_empty()) {
        return Err("a delete-collection takes neither a name nor a subresource".to_owned().into());
    }
    let named_by_body = matches!(action.verb, Verb::Create(_)) && action.subresource.is_empty();
    if action.name.is_empty() && !collection && !named_by_body {
        return Err(format!("a {verb} of {target} needs a name").into());
    }
    Ok(check_body(action, view)?)
}

/// Where something is done, in the words of grants.
pub(super) fn place<'a>(registry: &Registry, resource: u32, namespace: &'a str) -> Place<'a> {
    match namespace {
        "" if registry.namespaced(resource) => Place::Everywhere,
        "" => Place::Cluster,
        namespace => Place::Namespace(namespace),
    }
}

fn check_scope(action: &Action, resource: &GroupResource, registry: &Registry) -> Result<(), String> {
    // What the cluster does not serve it refuses itself.
    if matches!(registry.state(action.resource), SyncState::Absent) {
        return Ok(());
    }
    match (registry.namespaced(action.resource), action.namespace.is_empty()) {
        (true, true) => Err(format!("{} are namespaced, and the action names no namespace", show(resource))),
        (false, false) => Err(format!("{} are not namespaced, and the action names one", show(resource))),
        _ => Ok(()),
    }
}

fn check_precondition(action: &Action) -> Result<(), String> {
    if let Precondition::AsSeen(seen) = &action.precondition
        && seen.resource != action.resource
    {
        return Err("its precondition is about another resource".into());
    }
    if let Precondition::Uid(uid) = &action.precondition
        && uid.is_empty()
    {
        return Err("its precondition is an empty uid".into());
    }
    let takes_none = match action.verb {
        Verb::Create(_) => action.subresource.is_empty(),
        Verb::DeleteCollection(_) => true,
        _ => false,
    };
    if takes_none && !matches!(action.precondition, Precondition::None) {
        return Err(format!("a {} takes no precondition", rbac_verb(&action.verb)));
    }
    Ok(())
}

fn check_body(action: &Action, view: &dyn SeenBy) -> Result<(), String> {
    match &action.verb {
        Verb::Create(body) => {
            let body = parse(body)?;
            let name = text(&body, "/metadata/name");
            if !action.subresource.is_empty() {
                return object(&body);
            }
            match (action.name.as_str(), name, text(&body, "/metadata/generateName")) {
                ("", "", "") => Err("a create needs a name or a generateName".into()),
                (action, body, _) if !action.is_empty() && !body.is_empty() && action != body => {
                    Err(format!("the action names {action:?}, its object {body:?}"))
                }
                (_, name, prefix) => {
                    check_segment("name", name)?;
                    check_segment("generateName", prefix)?;
                    object(&body)
                }
            }
        }
        Verb::Replace(body) => object(&parse(body)?),
        Verb::Patch(patch) => {
            let body = parse(&patch.body)?;
            if patch.kind == PatchKind::Json {
                return match serde_json::from_value::<json_patch::Patch>(body) {
                    Ok(_) => Ok(()),
                    Err(error) => Err(format!("not a JSON patch: {error}")),
                };
            }
            object(&body)?;
            if patch.force && patch.kind != PatchKind::Apply {
                return Err("only an apply can be forced".into());
            }
            if patch.kind == PatchKind::Merge
                && let Some(path) = view.pruned_array(action.resource, &body)
            {
                return Err(format!(
                    "this merge patch would replace the array {path}, of which the module sees only some fields; declare {path} as a whole, or use a strategic or JSON patch"
                ));
            }
            Ok(())
        }
        Verb::Delete(_) | Verb::DeleteCollection(_) => Ok(()),
    }
}

fn parse(body: &str) -> Result<Value, String> {
    serde_json::from_str(body).map_err(|error| format!("its body is not valid JSON: {error}"))
}

/// An object whose metadata, if any, can take what the host fills in.
fn object(body: &Value) -> Result<(), String> {
    match body {
        Value::Object(fields) if fields.get("metadata").is_none_or(|m| m.is_object() || m.is_null()) => {
            Ok(())
        }
        Value::Object(_) => Err("its metadata is not a JSON object".into()),
        _ => Err("its body is not a JSON object".into()),
    }
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
