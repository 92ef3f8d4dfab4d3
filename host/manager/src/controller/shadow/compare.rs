//! Whether two versions decided the same, and what differs.

use serde::Serialize;
use serde_json::Value;
use similar::TextDiff;

use super::{
    Shadow,
    notes::{Decision, Job},
};
use crate::{
    contract::StateChange,
    plans::{Sensitive, Shown},
};

/// Bytes of one difference that are kept.
const LONGEST: usize = 4096;

/// What two decisions are compared by. A text that is only for people, such as
/// the reason of a retry, is shown and not compared.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Compared {
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<Shown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
}

/// The difference; none if the candidate decided as the live version did.
pub(super) fn compare(shadow: &Shadow, job: &Job, candidate: &Decision) -> Option<String> {
    let manifest = shadow.candidate.module.manifest();
    // State in another format says nothing about this one.
    let states = manifest.state_format == job.state_format;
    let compared = |decision: &Decision, sensitive: &Sensitive| match decision {
        Decision::Plan(plan) => Compared {
            plan: Some(Shown::new(plan, &shadow.around.registry, sensitive).normal()),
            state: states.then(|| state(&plan.state)).flatten(),
            outcome: None,
        },
        Decision::Retry(_) => Compared { plan: None, state: None, outcome: Some("retry") },
        Decision::Terminal(_) => Compared { plan: None, state: None, outcome: Some("terminal") },
    };
    let nothing = Sensitive::default();
    if compared(&job.decision, &nothing) == compared(candidate, &nothing) {
        return None;
    }
    let text = |decision: &Decision| {
        let mut text =
            serde_json::to_string_pretty(&compared(decision, &shadow.sensitive)).unwrap_or_default();
        if let Decision::Retry(reason) | Decision::Terminal(reason) = decision {
            text.push_str(&format!("\n{reason}"));
        }
        text.push('\n');
        text
    };
    let (live, other) = (text(&job.decision), text(candidate));
    if live == other {
        return Some("they differ in what the manifest calls sensitive, which is not shown\n".into());
    }
    let diff = TextDiff::from_lines(&live, &other);
    let header = (format!("live {}", job.version), format!("candidate {}", manifest.version));
    let diff = diff.unified_diff().context_radius(3).header(&header.0, &header.1).to_string();
    Some(bounded(&diff))
}

fn state(change: &StateChange) -> Option<Value> {
    match change {
        StateChange::Keep => None,
        StateChange::Clear => Some(Value::Null),
        // JSON is compared as JSON.
        StateChange::Set(state) => {
            Some(serde_json::from_str(state).unwrap_or_else(|_| Value::from(state.as_str())))
        }
    }
}

/// As much of a text as is kept.
pub(super) fn bounded(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let end = text[..text.floor_char_boundary(LONGEST)].rfind('\n').unwrap_or_default();
    let left = text[end..].lines().count().saturating_sub(1);
    format!("{}\n... {left} more lines\n", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_difference_is_cut_at_a_line() {
        let long = "é\n".repeat(3000);
        let cut = bounded(&long);
        assert!(cut.len() < LONGEST + 40, "{}", cut.len());
        let kept = cut.lines().count() - 1;
        assert!(cut.ends_with(&format!("... {} more lines\n", 3000 - kept)), "{cut}");
        assert_eq!(bounded("short\n"), "short\n");
    }

    #[test]
    fn state_is_compared_as_what_it_says() {
        assert_eq!(
            state(&StateChange::Set("{\"a\": 1}".into())),
            state(&StateChange::Set("{\"a\":1}".into()))
        );
        assert_ne!(state(&StateChange::Set("a".into())), state(&StateChange::Set("b".into())));
        assert_ne!(state(&StateChange::Clear), state(&StateChange::Keep));
    }
}
