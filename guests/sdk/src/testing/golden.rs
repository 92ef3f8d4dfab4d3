//! Outcomes as people read them: the golden files.

use serde_json::{Map, Value, json};

use super::apply::{Done, verb_of};
use super::world::{Frozen, World};
use crate::contract::{
    Action, Ask, Event, EventKind, Lookup, OnFailure, Outcome, Pace, PatchKind, Plan, Precondition, SignWhat,
    StateChange, Verb,
};
use crate::time::Time;

/// One reconcile, as far as it did anything worth telling.
pub(super) fn record(
    world: &World,
    frozen: &Frozen,
    outcome: &Outcome,
    done: Option<&Done>,
) -> Map<String, Value> {
    let mut record = Map::new();
    match outcome {
        Outcome::Lookups(lookups) => {
            let asks: Vec<String> = lookups.iter().map(|lookup| ask_text(world, lookup)).collect();
            record.insert("lookups".to_owned(), json!(asks));
        }
        Outcome::Retry(reason) => drop(record.insert("retry".to_owned(), json!(reason))),
        Outcome::Terminal(reason) => drop(record.insert("terminal".to_owned(), json!(reason))),
        Outcome::Plan(plan) => record_plan(world, frozen, plan, done, &mut record),
    }
    record
}

fn record_plan(
    world: &World,
    frozen: &Frozen,
    plan: &Plan,
    done: Option<&Done>,
    record: &mut Map<String, Value>,
) {
    let mut notes = done.map(|done| done.notes.iter()).into_iter().flatten();
    let mut steps = Vec::new();
    for step in &plan.steps {
        let mut lines: Vec<Map<String, Value>> = Vec::new();
        for action in &step.actions {
            let note = notes.next().map_or("", String::as_str);
            let line = action_record(world, frozen, action);
            // Equal actions are told once, with what became of each.
            match lines.last_mut() {
                Some(last) if last.iter().filter(|(field, _)| *field != "results").eq(line.iter()) => {
                    if let Some(Value::Array(results)) = last.get_mut("results") {
                        results.push(json!(note));
                    }
                }
                _ => {
                    let mut line = line;
                    line.insert("results".to_owned(), json!([note]));
                    lines.push(line);
                }
            }
        }
        let mut told = Map::new();
        if step.pace == Pace::SlowStart {
            told.insert("pace".to_owned(), json!("slow-start"));
        }
        let on_failure = match step.on_failure {
            OnFailure::Stop => "stop",
            OnFailure::GoOn => "go-on",
        };
        told.insert("on-failure".to_owned(), json!(on_failure));
        told.insert("actions".to_owned(), Value::Array(lines.into_iter().map(Value::Object).collect()));
        steps.push(Value::Object(told));
    }
    if !steps.is_empty() {
        record.insert("steps".to_owned(), Value::Array(steps));
    }
    if !plan.events.is_empty() {
        let events: Vec<String> = plan.events.iter().map(|event| event_text(world, event)).collect();
        record.insert("events".to_owned(), json!(events));
    }
    if let Some(at) = plan.not_before {
        let at = Time::from(at);
        let text = if at.whole_seconds() == at { at.to_string() } else { at.to_micro() };
        record.insert("not-before".to_owned(), json!(text));
    }
    if plan.quiet > 0 {
        record.insert("quiet".to_owned(), json!(plan.quiet));
    }
    match &plan.state {
        StateChange::Keep => {}
        StateChange::Clear => drop(record.insert("state".to_owned(), Value::Null)),
        StateChange::Set(state) => drop(record.insert("state".to_owned(), json!(state))),
    }
}

fn action_record(world: &World, frozen: &Frozen, action: &Action) -> Map<String, Value> {
    let place = (action.resource, action.namespace.clone(), action.name.clone());
    let mut line = Map::new();
    let slash = if action.subresource.is_empty() { "" } else { "/" };
    let what = format!("{} {}{slash}{}", verb_of(&action.verb).1, world.name_of(&place), action.subresource);
    line.insert("do".to_owned(), json!(what));
    let json_of = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| json!(text));
    match &action.verb {
        Verb::Create(body) | Verb::Replace(body) => drop(line.insert("body".to_owned(), json_of(body))),
        Verb::Patch(patch) => {
            let kind = match patch.kind {
                PatchKind::Merge => "merge",
                PatchKind::Json => "json",
                PatchKind::Strategic => "strategic",
                PatchKind::Apply => "apply",
            };
            line.insert(kind.to_owned(), json_of(&patch.body));
            if !patch.field_manager.is_empty() {
                line.insert("field-manager".to_owned(), json!(patch.field_manager));
            }
            if patch.force {
                line.insert("force".to_owned(), json!(true));
            }
        }
        Verb::Delete(options) => {
            if let Some(propagation) = options.propagation {
                line.insert("propagation".to_owned(), json!(format!("{propagation:?}")));
            }
            if let Some(grace) = options.grace_seconds {
                line.insert("grace-seconds".to_owned(), json!(grace));
            }
        }
        Verb::DeleteCollection(options) => {
            line.insert("labels".to_owned(), json!(options.labels));
            line.insert("fields".to_owned(), json!(options.fields));
        }
    }
    if !action.tag.is_empty() {
        line.insert("tag".to_owned(), json!(action.tag));
    }
    match &action.precondition {
        Precondition::None => {}
        Precondition::Uid(uid) => drop(line.insert("uid".to_owned(), json!(uid))),
        Precondition::AsSeen(reference) => {
            let place =
                frozen.place_of(reference).map_or_else(|| "?".to_owned(), |place| world.name_of(place));
            line.insert("as-seen".to_owned(), json!(place));
        }
    }
    for (field, event) in [("on-success", &action.on_success), ("on-failure", &action.on_failure)] {
        if let Some(event) = event {
            line.insert(field.to_owned(), json!(event_text(world, event)));
        }
    }
    line
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
    let path = |namespace: &str, name: &str| {
        if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
    };
    match &lookup.ask {
        Ask::Get(get) => {
            let slash = if get.subresource.is_empty() { "" } else { "/" };
            let subresource = &get.subresource;
            format!("get {}{slash}{subresource} {}", plural(get.resource), path(&get.namespace, &get.name))
        }
        Ask::List(list) => {
            let mut text = format!("list {} {}", plural(list.resource), list.namespace);
            for part in [&list.labels, &list.fields, &list.continue_from] {
                if !part.is_empty() {
                    text.push(' ');
                    text.push_str(part);
                }
            }
            text.trim_end().to_owned()
        }
        Ask::Raw(path) => format!("raw {path}"),
        Ask::Review(review) => format!("review {}", review.resource.resource),
        Ask::Sign(sign) => match sign.what {
            SignWhat::Certificate(_) | SignWhat::Token(_) => format!("sign {}", sign.key),
        },
    }
}
