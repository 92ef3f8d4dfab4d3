//! Outcomes as people read them: the golden files.

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde_json::{Value, json};

use super::apply::{Done, verb_of};
use super::world::{Frozen, World};
use crate::contract::{
    Action, Ask, Event, EventKind, Lookup, OnFailure, Outcome, Pace, PatchKind, Plan, Precondition,
    Propagation, StateChange, Verb,
};
use crate::time::Time;

/// A document whose fields keep the order in which a reader wants them.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Leaf(Value),
    List(Vec<Node>),
    Fields(Vec<(&'static str, Node)>),
}

impl Node {
    pub(super) fn field(&self, name: &str) -> Option<&Node> {
        match self {
            Self::Fields(fields) => fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value),
            Self::Leaf(_) | Self::List(_) => None,
        }
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Leaf(value) => value.serialize(serializer),
            Self::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| list.serialize_element(item))?;
                list.end()
            }
            Self::Fields(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                fields.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
                map.end()
            }
        }
    }
}

type Fields = Vec<(&'static str, Node)>;

fn leaf(value: impl Into<Value>) -> Node {
    Node::Leaf(value.into())
}

fn texts(texts: impl IntoIterator<Item = String>) -> Node {
    Node::List(texts.into_iter().map(leaf).collect())
}

/// One reconcile, as far as it did anything worth telling.
pub(super) fn record(world: &World, frozen: &Frozen, outcome: &Outcome, done: Option<&Done>) -> Fields {
    match outcome {
        Outcome::Lookups(lookups) => {
            vec![("lookups", texts(lookups.iter().map(|lookup| ask_text(world, lookup))))]
        }
        Outcome::Retry(reason) => vec![("retry", leaf(reason.as_str()))],
        Outcome::Terminal(reason) => vec![("terminal", leaf(reason.as_str()))],
        Outcome::Plan(plan) => record_plan(world, frozen, plan, done),
    }
}

fn record_plan(world: &World, frozen: &Frozen, plan: &Plan, done: Option<&Done>) -> Fields {
    let mut notes = done.map(|done| done.notes.as_slice()).unwrap_or_default().iter();
    let mut steps = Vec::new();
    for step in &plan.steps {
        // Equal actions are told once, with what became of each.
        let mut actions: Vec<(Fields, Vec<&str>)> = Vec::new();
        for action in &step.actions {
            let note = notes.next().map_or("", String::as_str);
            let told = action_fields(world, frozen, action);
            match actions.last_mut() {
                Some((last, notes)) if *last == told => notes.push(note),
                _ => actions.push((told, vec![note])),
            }
        }
        let actions = actions.into_iter().map(|(mut told, notes)| {
            told.push(("results", texts(summary(&notes))));
            Node::Fields(told)
        });
        let mut told = Vec::new();
        if step.pace == Pace::SlowStart {
            told.push(("pace", leaf("slow-start")));
        }
        if step.on_failure == OnFailure::GoOn {
            told.push(("on-failure", leaf("go-on")));
        }
        told.push(("actions", Node::List(actions.collect())));
        steps.push(Node::Fields(told));
    }
    let mut record = Vec::new();
    if !steps.is_empty() {
        record.push(("steps", Node::List(steps)));
    }
    if !plan.events.is_empty() {
        record.push(("events", texts(plan.events.iter().map(|event| event_text(world, event)))));
    }
    if let Some(at) = plan.not_before {
        let at = Time::from(at);
        let text = if at.whole_seconds() == at { at.to_string() } else { at.to_micro() };
        record.push(("not-before", leaf(text)));
    }
    if plan.quiet > 0 {
        record.push(("quiet", leaf(plan.quiet)));
    }
    match &plan.state {
        StateChange::Keep => {}
        StateChange::Clear => record.push(("state", leaf(Value::Null))),
        StateChange::Set(state) => record.push(("state", leaf(state.as_str()))),
    }
    record
}

/// Runs of equal notes, or of names that differ, in one line each.
fn summary(notes: &[&str]) -> Vec<String> {
    let plain = |note: &str| note.contains([' ', ':']) || matches!(note, "done" | "skipped" | "unknown" | "");
    let runs = notes.chunk_by(|a, b| a == b || (!plain(a) && !plain(b)));
    let line = |run: &[&str]| match run {
        [one] => (*one).to_owned(),
        [first, .., last] if first == last => format!("{first} ({} times)", run.len()),
        [first, .., last] => format!("{first} to {last} ({})", run.len()),
        [] => String::new(),
    };
    runs.map(line).collect()
}

fn action_fields(world: &World, frozen: &Frozen, action: &Action) -> Fields {
    let place = (action.resource, action.namespace.clone(), action.name.clone());
    let slash = if action.subresource.is_empty() { "" } else { "/" };
    let what = format!("{} {}{slash}{}", verb_of(&action.verb).1, world.name_of(&place), action.subresource);
    let mut told = vec![("do", leaf(what))];
    if !action.tag.is_empty() {
        told.push(("tag", leaf(action.tag.as_str())));
    }
    match &action.precondition {
        Precondition::None => {}
        Precondition::Uid(uid) => told.push(("uid", leaf(uid.as_str()))),
        Precondition::AsSeen(reference) => {
            let place =
                frozen.place_of(reference).map_or_else(|| "?".to_owned(), |place| world.name_of(place));
            told.push(("as-seen", leaf(place)));
        }
    }
    let json_of = |text: &str| Node::Leaf(serde_json::from_str(text).unwrap_or_else(|_| json!(text)));
    match &action.verb {
        Verb::Create(body) | Verb::Replace(body) => told.push(("body", json_of(body))),
        Verb::Patch(patch) => {
            let kind = match patch.kind {
                PatchKind::Merge => "merge",
                PatchKind::Json => "json",
                PatchKind::Strategic => "strategic",
                PatchKind::Apply => "apply",
            };
            told.push((kind, json_of(&patch.body)));
            if !patch.field_manager.is_empty() {
                told.push(("field-manager", leaf(patch.field_manager.as_str())));
            }
            if patch.force {
                told.push(("force", leaf(true)));
            }
        }
        Verb::Delete(options) => {
            if let Some(propagation) = options.propagation {
                let propagation = match propagation {
                    Propagation::Background => "background",
                    Propagation::Foreground => "foreground",
                    Propagation::Orphan => "orphan",
                };
                told.push(("propagation", leaf(propagation)));
            }
            if let Some(grace) = options.grace_seconds {
                told.push(("grace-seconds", leaf(grace)));
            }
        }
        Verb::DeleteCollection(options) => {
            told.push(("labels", leaf(options.labels.as_str())));
            told.push(("fields", leaf(options.fields.as_str())));
        }
    }
    for (field, event) in [("on-success", &action.on_success), ("on-failure", &action.on_failure)] {
        if let Some(event) = event {
            told.push((field, leaf(event_text(world, event))));
        }
    }
    told
}

fn event_text(world: &World, event: &Event) -> String {
    let kind = match event.kind {
        EventKind::Normal => "Normal",
        EventKind::Warning => "Warning",
    };
    let about = &event.about;
    let place = (about.resource, about.namespace.clone(), about.name.clone());
    format!("{kind} {} about {}: {}", event.reason, world.name_of(&place), event.message)
}

/// A lookup as scenarios write it.
pub(super) fn ask_text(world: &World, lookup: &Lookup) -> String {
    let plural = |number: u32| world.info(number).map_or("?", |info| info.resource.as_str()).to_owned();
    match &lookup.ask {
        Ask::Get(get) => {
            let slash = if get.subresource.is_empty() { "" } else { "/" };
            let namespace =
                if get.namespace.is_empty() { String::new() } else { format!("{}/", get.namespace) };
            format!("get {}{slash}{} {namespace}{}", plural(get.resource), get.subresource, get.name)
        }
        Ask::List(list) => {
            let mut text = format!("list {}", plural(list.resource));
            for part in [&list.namespace, &list.labels, &list.fields, &list.continue_from] {
                if !part.is_empty() {
                    text.push(' ');
                    text.push_str(part);
                }
            }
            text
        }
        Ask::Raw(path) => format!("raw {path}"),
        Ask::Review(review) => format!("review {}", review.resource.resource),
        Ask::Sign(sign) => format!("sign {}", sign.key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_are_told_in_a_line() {
        let notes = ["web-1", "web-2", "web-3", "failed: 403 Forbidden", "skipped", "skipped"];
        assert_eq!(summary(&notes), ["web-1 to web-3 (3)", "failed: 403 Forbidden", "skipped (2 times)"]);
        assert_eq!(summary(&["done"]), ["done"]);
    }
}
