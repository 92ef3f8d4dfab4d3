//! Admission by webhooks: who is asked about a write, and what becomes of the answers.
//!
//! Configurations are asked in the order of their names. What configures admission is never asked about, so that nobody
//! can lock the cluster up.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::client::Webhook;
use super::matching::{Attributes, matches_resources};
use super::review::{self, Asked};
use crate::expression::Variables;
use crate::kinds::value::{items, text};
use crate::rest::strategy::{Ctx, Kind, Lookup};
use crate::rest::{Call, Rest, add_type_meta, drop_type_meta};
use crate::status::Status;
use crate::{patch, policy};

const GROUP: &str = "admissionregistration.k8s.io";
const MUTATING: &str = "mutatingwebhookconfigurations";
const VALIDATING: &str = "validatingwebhookconfigurations";
const BINDINGS: &str = "validatingadmissionpolicybindings";

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// One write on its way through admission.
pub(crate) struct Admission<'a> {
    pub rest: &'a Rest,
    pub ctx: &'a Ctx<'a>,
    pub call: &'a Call,
    pub operation: Operation,
    /// Kind of what is sent, where a subresource takes another than its parent: group, version and kind.
    pub sent: Option<(&'static str, &'static str, &'static str)>,
}

/// A write as those who are asked see it.
struct Seen {
    object: Value,
    old: Value,
    options: Value,
    kind: (String, String, String),
    served: Vec<(String, String)>,
}

impl Admission<'_> {
    /// Whether there is anybody to ask.
    pub(crate) fn is_needed(&self) -> bool {
        [MUTATING, VALIDATING, BINDINGS].iter().any(|plural| !self.configurations(plural).is_empty())
    }

    /// Has webhooks change a new object; true if one did.
    pub(crate) fn mutate(&self, old: &Value, object: &mut Value) -> Result<bool, Status> {
        let configurations = self.configurations(MUTATING);
        if configurations.is_empty() {
            return Ok(false);
        }
        let mut seen = self.seen(old, object);
        let mut changed = false;
        // Those that want to see what others changed after them.
        let mut again: Vec<&Value> = Vec::new();
        let mut last_change_after = 0;
        for hook in configurations.iter().flat_map(|c| items(c, "webhooks")) {
            if self.mutate_by(hook, &mut seen)? {
                changed = true;
                last_change_after = again.len();
            }
            if text(hook, "reinvocationPolicy") == "IfNeeded" && self.is_about(hook, &seen)? {
                again.push(hook);
            }
        }
        again.truncate(last_change_after);
        for hook in again {
            changed |= self.mutate_by(hook, &mut seen)?;
        }
        if changed {
            self.take_over(seen.object, object)?;
        }
        Ok(changed)
    }

    /// Has policies and webhooks check a write; `object` is null for a delete.
    pub(crate) fn validate(&self, old: &Value, object: &Value) -> Result<(), Status> {
        let configurations = self.configurations(VALIDATING);
        let bindings = self.configurations(BINDINGS);
        if configurations.is_empty() && bindings.is_empty() {
            return Ok(());
        }
        let seen = self.seen(old, object);
        if !bindings.is_empty() {
            let asked = self.asked(&seen);
            let request = asked.request(&self.rest.entropy.uid());
            policy::check(self.ctx, &self.call.kind, &bindings, &self.attributes(&seen), request)?;
        }
        for hook in configurations.iter().flat_map(|c| items(c, "webhooks")) {
            if !self.is_about(hook, &seen)? {
                continue;
            }
            if let Some(response) = self.ask(hook, &seen, false)? {
                check_allowed(hook, &response)?;
            }
        }
        Ok(())
    }

    fn configurations(&self, plural: &str) -> std::sync::Arc<Vec<Value>> {
        let kind = &self.call.kind;
        if kind.group == GROUP || self.rest.last_change(GROUP, plural) == 0 {
            return std::sync::Arc::default();
        }
        self.rest.few(GROUP, plural)
    }

    fn seen(&self, old: &Value, object: &Value) -> Seen {
        let kind = &self.call.kind;
        let shown = |object: &Value| {
            if object.is_null() {
                return Value::Null;
            }
            if self.call.sub == "scale" {
                return kind.strategy.scale(kind, object).unwrap_or_default();
            }
            let mut whole = object.clone();
            if self.sent.is_none() {
                add_type_meta(kind, &mut whole);
            }
            if self.operation == Operation::Create {
                // The server's part of the metadata comes later.
                if let Some(meta) = whole["metadata"].as_object_mut() {
                    meta.remove("resourceVersion");
                }
            }
            whole
        };
        let options = match self.operation {
            Operation::Create => "CreateOptions",
            Operation::Update if self.call.write.applies => "PatchOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => "DeleteOptions",
        };
        let mut options = json!({"kind": options, "apiVersion": "meta.k8s.io/v1"});
        if !self.call.write.manager.is_empty() && self.operation != Operation::Delete {
            options["fieldManager"] = self.call.write.manager.clone().into();
        }
        if self.ctx.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        let own = |(group, version, kind): (&str, &str, &str)| (group.into(), version.into(), kind.into());
        let kinds = self.rest.registry().kinds();
        Seen {
            object: shown(object),
            old: shown(old),
            options,
            kind: match (self.call.sub.as_str(), self.sent) {
                ("scale", _) => own(("autoscaling", "v1", "Scale")),
                (_, Some(sent)) => own(sent),
                _ => own((&kind.group, &kind.version, &kind.kind)),
            },
            served: kinds
                .all()
                .iter()
                .filter(|other| other.storage == kind.storage)
                .map(|other| (other.group.clone(), other.version.clone()))
                .collect(),
        }
    }

    fn attributes<'s>(&'s self, seen: &'s Seen) -> Attributes<'s> {
        let kind: &Kind = &self.call.kind;
        let own = if seen.object.is_object() { &seen.object } else { &seen.old };
        Attributes {
            operation: self.operation.name(),
            resource: (&kind.group, &kind.version, &kind.plural),
            served: &seen.served,
            sub: &self.call.sub,
            namespace: &self.call.namespace,
            name: if self.call.name.is_empty() { text(&own["metadata"], "name") } else { &self.call.name },
            object: &seen.object,
            old: &seen.old,
        }
    }

    fn asked<'s>(&'s self, seen: &'s Seen) -> Asked<'s> {
        Asked {
            kind: &self.call.kind,
            shown: seen.kind.clone(),
            sub: &self.call.sub,
            operation: self.operation.name(),
            name: self.attributes(seen).name,
            namespace: &self.call.namespace,
            user: self.ctx.user,
            dry_run: self.ctx.dry_run,
            options: &seen.options,
        }
    }

    /// Whether a webhook wants to know of a write.
    fn is_about(&self, hook: &Value, seen: &Seen) -> Result<bool, Status> {
        if !matches_resources(self.ctx.lookup, hook, "rules", &self.attributes(seen)) {
            return Ok(false);
        }
        let conditions = items(hook, "matchConditions");
        if conditions.is_empty() {
            return Ok(true);
        }
        let variables = Variables::new()
            .with("object", &seen.object)
            .with("oldObject", &seen.old)
            .with("request", &self.asked(seen).request(""));
        match policy::conditions_hold(conditions, &variables) {
            Ok(hold) => Ok(hold),
            Err(_) if ignores(hook) => Ok(false),
            Err(why) => {
                let name = self.attributes(seen).name;
                Err(Status::forbidden(&self.call.kind.group, &self.call.kind.plural, name, why))
            }
        }
    }

    fn mutate_by(&self, hook: &Value, seen: &mut Seen) -> Result<bool, Status> {
        if !self.is_about(hook, seen)? {
            return Ok(false);
        }
        let Some(response) = self.ask(hook, seen, true)? else { return Ok(false) };
        check_allowed(hook, &response)?;
        let patch = text(&response, "patch");
        if patch.is_empty() || seen.object.is_null() {
            return Ok(false);
        }
        let operations: Value = STANDARD
            .decode(patch)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .ok_or_else(|| Status::internal("the patch of a webhook is not JSON"))?;
        let patched = patch::apply_json(&seen.object, &operations)
            .map_err(|status| Status::internal(status.message))?;
        let changed = patched != seen.object;
        seen.object = patched;
        Ok(changed)
    }

    /// Asks; none if there is no answer and none is needed.
    fn ask(&self, hook: &Value, seen: &Seen, mutating: bool) -> Result<Option<Value>, Status> {
        let name = text(hook, "name");
        if self.ctx.dry_run && !matches!(text(hook, "sideEffects"), "None" | "NoneOnDryRun") {
            return Err(Status::bad_request(format!("admission webhook {name:?} does not support dry run")));
        }
        let uid = self.rest.entropy.uid();
        let mut request = self.asked(seen).request(&uid);
        request["object"] = seen.object.clone();
        request["oldObject"] = seen.old.clone();
        let question =
            json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request});
        let seconds = hook["timeoutSeconds"].as_u64().unwrap_or(10);
        let answer = Webhook::of(&hook["clientConfig"])
            .call(self.ctx.lookup, &question, Duration::from_secs(seconds))
            .map_err(|why| format!("failed to call webhook: {why}"))
            .and_then(|answer| {
                review::response(&answer, &uid, mutating)
                    .map_err(|why| format!("received invalid webhook response: {why}"))
            });
        match answer {
            Ok(response) => {
                for warning in items(&response, "warnings").iter().filter_map(Value::as_str) {
                    self.ctx.warn(warning);
                }
                Ok(Some(response))
            }
            Err(why) if ignores(hook) => {
                tracing::warn!(webhook = name, why, "a webhook fails and is ignored");
                Ok(None)
            }
            Err(why) => Err(Status::internal(format!("failed calling webhook {name:?}: {why}"))),
        }
    }

    /// Puts what webhooks made of an object in its place.
    fn take_over(&self, made: Value, object: &mut Value) -> Result<(), Status> {
        let kind = &self.call.kind;
        if self.call.sub == "scale" {
            return kind.strategy.set_scale(kind, object, &made);
        }
        let (mut decoded, notes) = patch::redecode(kind, &made, crate::crd::Nulls::Dropped);
        if let Some(error) = notes.type_error {
            return Err(Status::internal(error));
        }
        drop_type_meta(&mut decoded);
        kind.strategy.default(kind, &mut decoded);
        *object = decoded;
        Ok(())
    }
}

fn ignores(hook: &Value) -> bool {
    text(hook, "failurePolicy") == "Ignore"
}

fn check_allowed(hook: &Value, response: &Value) -> Result<(), Status> {
    if response["allowed"] == true {
        return Ok(());
    }
    Err(review::denied(text(hook, "name"), &response["status"]))
}
