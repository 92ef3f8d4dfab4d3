//! Outcomes for people.

use serde_json::Value;
use similar::TextDiff;

use super::snapshot::show_info;
use crate::{
    contract::Ask,
    recording::{format::Ended, read::Recorded},
};

/// Two outcomes as a unified diff, with names for numbers and bodies as JSON.
pub(super) fn diff(then: &Ended, now: &Ended, recorded: &Recorded) -> String {
    let text = |ended: &Ended| {
        let mut value = serde_json::to_value(ended).unwrap_or_default();
        readable(&mut value, recorded);
        serde_json::to_string_pretty(&value).unwrap_or_default()
    };
    let (old, new) = (text(then), text(now));
    if old == new {
        return "the same JSON in other bytes: only the order or the spaces within a body differ\n"
            .to_owned();
    }
    TextDiff::from_lines(&old, &new)
        .unified_diff()
        .context_radius(3)
        .header("recorded", "replayed")
        .to_string()
}

fn readable(value: &mut Value, recorded: &Recorded) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| readable(value, recorded)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), &*value) {
                    ("resource", Value::Number(number)) => {
                        let mut all = recorded.rounds.iter().flat_map(|round| round.resources.iter());
                        if let Some(info) = all.find(|info| number.as_u64() == Some(info.number.into())) {
                            *value = show_info(info).into();
                        }
                    }
                    ("Create" | "Replace" | "body", Value::String(body)) => {
                        if let Ok(body) = serde_json::from_str::<Value>(body) {
                            *value = body;
                        }
                    }
                    _ => readable(value, recorded),
                }
            }
        }
        _ => {}
    }
}

/// A lookup in a few words.
pub(super) fn ask(ask: &Ask) -> String {
    match ask {
        Ask::Get(get) => {
            let slash = if get.subresource.is_empty() { "" } else { "/" };
            format!("the lookup get {}/{}{slash}{}", get.namespace, get.name, get.subresource)
        }
        Ask::List(list) => format!("the lookup list in namespace {:?}", list.namespace),
        Ask::Raw(path) => format!("the lookup {path}"),
        Ask::Review(review) => format!("the review {}", review.resource.resource),
        Ask::Sign(sign) => format!("the signature with key {}", sign.key),
    }
}
