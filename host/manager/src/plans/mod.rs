//! Plans in words: for people to read, for programs to parse, for two to be compared.
//!
//! In: a plan as a guest gave it. Out: the same with names in the place of
//! numbers, JSON in the place of text, and what a module calls sensitive left
//! out. Invariant: what means the same reads the same (see [`Shown::normal`]).

mod changes;
mod redact;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use changes::{Change, changes};
pub use redact::Sensitive;

use crate::{
    clock,
    contract::{
        self, Action, Event, EventKind, OnFailure, Pace, PatchKind, Plan, Precondition, Propagation, Verb,
        display_name,
    },
    registry::Registry,
};

/// An action of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Act {
    /// Verb, as RBAC has it.
    pub verb: String,
    /// The resource, such as `deployments.apps/v1`.
    pub resource: String,
    /// Subresource; empty for the object itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    /// Namespace; empty for objects of the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name; one that ends in `*` is generated.
    pub name: String,
    /// Kind of a patch: `merge`, `json`, `strategic` or `apply`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch_type: Option<String>,
    /// What is sent, or the options of a delete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// What must still hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precondition: Option<String>,
    /// The event if it succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_success: Option<Told>,
    /// The event if it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<Told>,
}

/// An event of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Told {
    /// What it is about.
    pub about: String,
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its reason.
    pub reason: String,
    /// Its text.
    pub message: String,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stage {
    /// `together` or `slow-start`.
    pub pace: String,
    /// What a failure does: `stop` or `go-on`.
    pub on_failure: String,
    /// Its actions.
    pub actions: Vec<Act>,
}

/// A plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    /// Its steps, without empty ones.
    pub steps: Vec<Stage>,
    /// Events to be recorded in any case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Told>,
    /// When the key comes back at the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<jiff::Timestamp>,
    /// For how long other wakes than the object's own wait, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub quiet: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Shown {
    /// A plan in words.
    pub fn new(plan: &Plan, registry: &Registry, sensitive: &Sensitive) -> Self {
        let stage = |step: &contract::Step| Stage {
            pace: match step.pace {
                Pace::Together => "together".into(),
                Pace::SlowStart => "slow-start".into(),
            },
            on_failure: match step.on_failure {
                OnFailure::Stop => "stop".into(),
                OnFailure::GoOn => "go-on".into(),
            },
            actions: step.actions.iter().map(|action| act(action, registry, sensitive)).collect(),
        };
        Self {
            steps: plan.steps.iter().filter(|step| !step.actions.is_empty()).map(stage).collect(),
            events: plan.events.iter().map(|event| told(event, registry)).collect(),
            not_before: plan.not_before.map(clock::from_wire),
            quiet: plan.quiet,
        }
    }

    /// The same plan in the one form that all plans of the same meaning share:
    /// what the contract gives no order is sorted, and what makes no difference
    /// (the pace of a single action, what the failure of the last step does) is
    /// left at its default.
    #[must_use]
    pub fn normal(mut self) -> Self {
        if let Some(last) = self.steps.last_mut() {
            last.on_failure = "stop".into();
        }
        for step in &mut self.steps {
            if step.actions.len() == 1 {
                step.pace = "together".into();
            }
            // In slow start those that come first are a test for the others, and which they are is no matter.
            step.actions.sort_by_cached_key(text);
        }
        self.events.sort_by_cached_key(text);
        self
    }

    /// All actions, in order.
    pub fn actions(&self) -> impl Iterator<Item = &Act> {
        self.steps.iter().flat_map(|step| &step.actions)
    }
}

/// JSON as a key to sort by.
fn text<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn told(event: &Event, registry: &Registry) -> Told {
    let about = &event.about;
    Told {
        about: format!("{} {}", resource(about.resource, registry), join(&about.namespace, &about.name)),
        kind: match event.kind {
            EventKind::Normal => "Normal".into(),
            EventKind::Warning => "Warning".into(),
        },
        reason: event.reason.clone(),
        message: event.message.clone(),
    }
}

fn act(action: &Action, registry: &Registry, sensitive: &Sensitive) -> Act {
    let mut act = Act {
        verb: crate::executor::rbac_verb(&action.verb).to_owned(),
        resource: resource(action.resource, registry),
        subresource: action.subresource.clone(),
        namespace: action.namespace.clone(),
        name: action.name.clone(),
        patch_type: None,
        body: None,
        precondition: match &action.precondition {
            Precondition::None => None,
            // The version is this module's own count; that the object is unchanged is what both mean.
            Precondition::AsSeen(_) => Some("as seen".into()),
            Precondition::Uid(uid) => Some(format!("uid {uid}")),
        },
        on_success: action.on_success.as_ref().map(|event| told(event, registry)),
        on_failure: action.on_failure.as_ref().map(|event| told(event, registry)),
    };
    let parsed = |body: &str| {
        let mut body = serde_json::from_str(body).unwrap_or_else(|_| Value::from(body));
        if let Some(name) = registry.name(action.resource) {
            sensitive.redact(&name, &mut body);
        }
        Some(body)
    };
    match &action.verb {
        Verb::Create(body) => act.body = parsed(body),
        Verb::Replace(body) => act.body = parsed(body),
        Verb::Patch(patch) => {
            let kind = match patch.kind {
                PatchKind::Merge => "merge",
                PatchKind::Json => "json",
                PatchKind::Strategic => "strategic",
                PatchKind::Apply if patch.force => "forced apply",
                PatchKind::Apply => "apply",
            };
            act.patch_type = Some(kind.into());
            act.body = parsed(&patch.body);
        }
        Verb::Delete(options) => {
            let mut shown = Map::new();
            shown.extend(propagation(options.propagation));
            shown.extend(options.grace_seconds.map(|grace| ("graceSeconds".to_owned(), grace.into())));
            act.body = (!shown.is_empty()).then(|| shown.into());
        }
        Verb::DeleteCollection(options) => {
            let mut shown = Map::new();
            shown.extend(propagation(options.propagation));
            shown.extend(options.grace_seconds.map(|grace| ("graceSeconds".to_owned(), grace.into())));
            for (name, value) in [("labels", &options.labels), ("fields", &options.fields)] {
                if !value.is_empty() {
                    shown.insert(name.to_owned(), json!(value));
                }
            }
            act.name = "(all)".into();
            act.body = (!shown.is_empty()).then(|| shown.into());
        }
    }
    if act.name.is_empty()
        && let Some(body) = &act.body
    {
        let text = |pointer| body.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        act.name = match text("/metadata/name") {
            "" => format!("{}*", text("/metadata/generateName")),
            name => name.to_owned(),
        };
    }
    act
}

fn propagation(propagation: Option<Propagation>) -> Option<(String, Value)> {
    let policy = match propagation? {
        Propagation::Background => "Background",
        Propagation::Foreground => "Foreground",
        Propagation::Orphan => "Orphan",
    };
    Some(("propagation".to_owned(), policy.into()))
}

fn resource(number: u32, registry: &Registry) -> String {
    registry.name(number).map_or_else(|| format!("resource number {number}"), |name| display_name(&name))
}

/// Namespace and name.
pub fn join(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

impl Act {
    /// The object, with its resource: `deployments.apps/v1/status default/web`.
    pub fn object(&self) -> String {
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        format!("{}{slash}{} {}", self.resource, self.subresource, join(&self.namespace, &self.name))
    }
}

#[cfg(test)]
mod tests;
