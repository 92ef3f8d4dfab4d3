//! Plans: what a reconcile wants done.
//!
//! Resources are named; numbers are filled in as the plan leaves the guest. So
//! a pure function can build one without a context.

mod event;

use serde::Serialize;
use serde_json::{Value, json};

pub use event::{About, Event};

use crate::contract::{
    self, CollectionOptions, DeleteOptions, Measure, ObjectRef, Occasion, OnFailure, Pace, PatchKind,
    Precondition, Propagation, Sample, StateChange, Verb,
};
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::merge::text_of;
use crate::resource::ResourceId;
use crate::time::Time;
use crate::view::Object;

/// What is to be done; nothing, to begin with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    steps: Vec<Step>,
    events: Vec<Event>,
    not_before: Option<Time>,
    quiet: u32,
    state: State,
    metrics: Vec<Sample>,
}

#[derive(Clone, Debug, Default, PartialEq)]
enum State {
    #[default]
    Keep,
    Clear,
    Set(String),
}

impl Plan {
    /// Nothing to do.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a step after those before it. A step without actions is left out.
    pub fn then(&mut self, step: impl Into<Step>) -> &mut Self {
        let step = step.into();
        if !step.actions.is_empty() {
            self.steps.push(step);
        }
        self
    }

    /// Records an event in any case.
    pub fn event(&mut self, event: Event) -> &mut Self {
        self.events.push(event);
        self
    }

    /// Comes back at this time at the latest. The earliest of several counts.
    pub fn come_back(&mut self, at: Time) -> &mut Self {
        self.not_before = Some(self.not_before.map_or(at, |before| before.min(at)));
        self
    }

    /// Holds back wakes that do not come from the key's own object for so many
    /// milliseconds, so that they are taken together.
    pub fn quiet(&mut self, millis: u32) -> &mut Self {
        self.quiet = millis;
        self
    }

    /// Keeps this for the next reconcile of the key.
    pub fn keep(&mut self, state: impl Into<String>) -> &mut Self {
        self.state = State::Set(state.into());
        self
    }

    /// Keeps this in place of what was kept so far; an empty text is nothing to
    /// keep.
    pub fn keep_instead(&mut self, before: Option<&str>, state: String) -> &mut Self {
        match before {
            _ if state == before.unwrap_or_default() => self,
            _ if state.is_empty() => self.clear(),
            _ => self.keep(state),
        }
    }

    /// Drops what was kept.
    pub fn clear(&mut self) -> &mut Self {
        self.state = State::Clear;
        self
    }

    /// Measures something whatever becomes of the plan. `labels` are in the
    /// manifest's order.
    pub fn measure(&mut self, metric: &str, labels: &[&str], value: f64) -> &mut Self {
        self.measure_if(Occasion::Always, metric, labels, Measure::Number(value))
    }

    /// Counts each action of this tag that is tried, and besides each of them that does not succeed.
    pub fn measure_tries(&mut self, tag: &str, all: &str, failed: &str, labels: &[&str]) -> &mut Self {
        self.measure_if(Occasion::Each(tag.to_owned()), all, labels, Measure::Number(1.0));
        self.measure_failures(tag, all, failed, labels)
    }

    /// The same of actions that count only if they do not succeed.
    pub fn measure_failures(&mut self, tag: &str, all: &str, failed: &str, labels: &[&str]) -> &mut Self {
        for metric in [all, failed] {
            self.measure_if(Occasion::Refused(tag.to_owned()), metric, labels, Measure::Number(1.0));
        }
        self
    }

    /// Measures something in case of an occasion.
    pub fn measure_if(
        &mut self,
        occasion: Occasion,
        metric: &str,
        labels: &[&str],
        value: Measure,
    ) -> &mut Self {
        self.metrics.push(Sample {
            metric: metric.to_owned(),
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            value,
            if_: occasion,
        });
        self
    }

    /// What is measured.
    pub fn metrics(&self) -> &[Sample] {
        &self.metrics
    }

    /// Whether there is anything to write.
    pub fn writes(&self) -> bool {
        !self.steps.is_empty()
    }

    /// The steps.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The contract's form.
    pub fn into_wire(self, ctx: &Ctx<'_>) -> Result<contract::Plan> {
        Ok(contract::Plan {
            steps: self.steps.into_iter().map(|step| step.into_wire(ctx)).collect::<Result<_>>()?,
            events: self.events.into_iter().map(|event| event.into_wire(ctx)).collect::<Result<_>>()?,
            not_before: self.not_before.and_then(Time::to_wire),
            quiet: self.quiet,
            state: match self.state {
                State::Keep => StateChange::Keep,
                State::Clear => StateChange::Clear,
                State::Set(state) => StateChange::Set(state),
            },
            metrics: self.metrics,
        })
    }
}

/// Actions that have no order among themselves.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    actions: Vec<Action>,
    pace: Pace,
    on_failure: OnFailure,
}

impl Step {
    /// All together; a failure ends the plan after this step.
    pub fn new(actions: impl IntoIterator<Item = Action>) -> Self {
        Self { actions: actions.into_iter().collect(), pace: Pace::Together, on_failure: OnFailure::Stop }
    }

    /// In batches of 1, 2, 4, 8 and so on, each once the one before succeeded.
    pub fn slow_start(mut self) -> Self {
        self.pace = Pace::SlowStart;
        self
    }

    /// A failure does not keep the following steps from being carried out.
    pub fn or_go_on(mut self) -> Self {
        self.on_failure = OnFailure::GoOn;
        self
    }

    /// Its actions.
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }

    fn into_wire(self, ctx: &Ctx<'_>) -> Result<contract::Step> {
        Ok(contract::Step {
            actions: self.actions.into_iter().map(|action| action.into_wire(ctx)).collect::<Result<_>>()?,
            pace: self.pace,
            on_failure: self.on_failure,
        })
    }
}

impl From<Action> for Step {
    fn from(action: Action) -> Self {
        Self::new([action])
    }
}

impl From<Vec<Action>> for Step {
    fn from(actions: Vec<Action>) -> Self {
        Self::new(actions)
    }
}

impl From<Option<Action>> for Step {
    fn from(action: Option<Action>) -> Self {
        Self::new(action)
    }
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    tag: String,
    resource: ResourceId,
    namespace: String,
    name: String,
    subresource: String,
    verb: Verb,
    precondition: Precondition,
    on_success: Option<Event>,
    on_failure: Option<Event>,
}

impl Action {
    fn new(resource: ResourceId, namespace: &str, name: &str, verb: Verb) -> Self {
        Self {
            tag: String::new(),
            resource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: String::new(),
            verb,
            precondition: Precondition::None,
            on_success: None,
            on_failure: None,
        }
    }

    /// POST of an object. With `generateName`, `name` is empty.
    pub fn create(
        resource: impl Into<ResourceId>,
        namespace: &str,
        name: &str,
        object: &impl Serialize,
    ) -> Result<Self> {
        let body =
            serde_json::to_string(object).map_err(|e| Error::Terminal(format!("cannot write JSON: {e}")))?;
        Ok(Self::new(resource.into(), namespace, name, Verb::Create(body)))
    }

    /// JSON merge patch (RFC 7386).
    pub fn merge(resource: impl Into<ResourceId>, namespace: &str, name: &str, body: &Value) -> Self {
        Self::patch(resource, namespace, name, PatchKind::Merge, body)
    }

    /// A patch of any kind.
    pub fn patch(
        resource: impl Into<ResourceId>,
        namespace: &str,
        name: &str,
        kind: PatchKind,
        body: &Value,
    ) -> Self {
        let patch = contract::Patch { kind, body: text_of(body), field_manager: String::new(), force: false };
        Self::new(resource.into(), namespace, name, Verb::Patch(patch))
    }

    /// PUT of a whole object.
    pub fn replace(resource: impl Into<ResourceId>, namespace: &str, name: &str, body: &Value) -> Self {
        Self::new(resource.into(), namespace, name, Verb::Replace(text_of(body)))
    }

    /// DELETE with the resource's default propagation.
    pub fn delete(resource: impl Into<ResourceId>, namespace: &str, name: &str) -> Self {
        let options = DeleteOptions { propagation: None, grace_seconds: None };
        Self::new(resource.into(), namespace, name, Verb::Delete(options))
    }

    /// DELETE of all objects of a resource in a namespace.
    pub fn delete_collection(
        resource: impl Into<ResourceId>,
        namespace: &str,
        options: CollectionOptions,
    ) -> Self {
        Self::new(resource.into(), namespace, "", Verb::DeleteCollection(options))
    }

    /// A merge patch of the status subresource that turns the status seen into
    /// the one wanted; None if they are equal. The view's status names what is
    /// compared.
    pub fn status<S: Serialize + PartialEq>(
        resource: impl Into<ResourceId>,
        namespace: &str,
        name: &str,
        seen: &S,
        wanted: &S,
    ) -> Result<Option<Self>> {
        // Mostly nothing is to be said, and that is cheaper to see than to compute.
        if seen == wanted {
            return Ok(None);
        }
        let status = crate::merge::diff_of(seen, wanted)?;
        Ok(status.map(|status| {
            Self::merge(resource, namespace, name, &json!({ "status": status }))
                .subresource("status")
                .tag("status")
        }))
    }

    /// Name under which a failure is reported.
    pub fn tag(mut self, tag: &str) -> Self {
        tag.clone_into(&mut self.tag);
        self
    }

    /// Writes a subresource.
    pub fn subresource(mut self, subresource: &str) -> Self {
        subresource.clone_into(&mut self.subresource);
        self
    }

    /// Only if the object has not changed since it was read.
    pub fn as_seen<V>(self, object: &Object<V>) -> Self {
        self.as_seen_ref(object.reference())
    }

    /// Only if the object has not changed since it was read.
    pub fn as_seen_ref(mut self, reference: ObjectRef) -> Self {
        self.precondition = Precondition::AsSeen(reference);
        self
    }

    /// Only if the object is still the one of this uid.
    pub fn uid(mut self, uid: &str) -> Self {
        self.precondition = Precondition::Uid(uid.to_owned());
        self
    }

    /// What becomes of the dependents of a deleted object.
    pub fn propagation(mut self, propagation: Propagation) -> Self {
        match &mut self.verb {
            Verb::Delete(options) => options.propagation = Some(propagation),
            Verb::DeleteCollection(options) => options.propagation = Some(propagation),
            Verb::Create(_) | Verb::Patch(_) | Verb::Replace(_) => {}
        }
        self
    }

    /// Grace period of a delete.
    pub fn grace_seconds(mut self, seconds: u32) -> Self {
        match &mut self.verb {
            Verb::Delete(options) => options.grace_seconds = Some(seconds),
            Verb::DeleteCollection(options) => options.grace_seconds = Some(seconds),
            Verb::Create(_) | Verb::Patch(_) | Verb::Replace(_) => {}
        }
        self
    }

    /// Field manager of a patch, where it is not the controller's name.
    pub fn field_manager(mut self, manager: &str, force: bool) -> Self {
        if let Verb::Patch(patch) = &mut self.verb {
            manager.clone_into(&mut patch.field_manager);
            patch.force = force;
        }
        self
    }

    /// Event to record once it has succeeded; `{name}` is the object's name.
    pub fn on_success(mut self, event: Event) -> Self {
        self.on_success = Some(event);
        self
    }

    /// Event to record once it has failed; `{message}` is the failure's.
    pub fn on_failure(mut self, event: Event) -> Self {
        self.on_failure = Some(event);
        self
    }

    /// What it does.
    pub fn verb(&self) -> &Verb {
        &self.verb
    }

    /// Name of the object written.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn into_wire(self, ctx: &Ctx<'_>) -> Result<contract::Action> {
        Ok(contract::Action {
            tag: self.tag,
            resource: served(ctx, self.resource)?,
            namespace: self.namespace,
            name: self.name,
            subresource: self.subresource,
            verb: self.verb,
            precondition: self.precondition,
            on_success: self.on_success.map(|event| event.into_wire(ctx)).transpose()?,
            on_failure: self.on_failure.map(|event| event.into_wire(ctx)).transpose()?,
        })
    }
}

fn served(ctx: &Ctx<'_>, resource: ResourceId) -> Result<u32> {
    match ctx.number(resource)? {
        0 => Err(Error::Retry(format!("the cluster does not serve {resource:?}, which the plan writes"))),
        number => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_kept() {
        let set = |text: &str| State::Set(text.to_owned());
        for (before, state, wanted) in [
            (None, "", State::Keep),
            (None, "a", set("a")),
            (Some("a"), "a", State::Keep),
            (Some("a"), "b", set("b")),
            (Some("a"), "", State::Clear),
        ] {
            let mut plan = Plan::new();
            plan.keep_instead(before, state.to_owned());
            assert_eq!(plan.state, wanted, "{before:?} {state}");
        }
    }
}
