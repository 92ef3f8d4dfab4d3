//! Conditions of a status.

mod views;

use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::read::{Failed, FromJson, Reader, optional_time, texts};
use crate::time::Time;

pub use views::{BriefCondition, DatedCondition, ReasonedCondition};

/// A condition. Fields that this type does not name survive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Condition {
    /// What it is about: its `type`.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When it last changed its status.
    pub last_transition_time: Option<Time>,
    /// When it was last written, where the kind has such a field.
    pub last_update_time: Option<Time>,
    /// Short CamelCase reason.
    pub reason: String,
    /// Text.
    pub message: String,
    /// Whatever else there is.
    pub rest: Map<String, Value>,
}

/// Read as a map, which keeps the list of conditions whole in the cache; else it
/// could not be patched.
impl FromJson for Condition {
    fn blank() -> Self {
        Self::default()
    }

    fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
        const OF: &str = "condition";
        let [mut kind, mut status, mut reason, mut message, mut changed, mut written] =
            [const { String::new() }; 6];
        let rest = texts(
            reader,
            OF,
            &mut [
                ("type", &mut kind),
                ("status", &mut status),
                ("reason", &mut reason),
                ("message", &mut message),
                ("lastTransitionTime", &mut changed),
                ("lastUpdateTime", &mut written),
            ],
        )?;
        let last_transition_time = optional_time(OF, &changed)?;
        let last_update_time = optional_time(OF, &written)?;
        *self = Self { kind, status, last_transition_time, last_update_time, reason, message, rest };
        Ok(())
    }
}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = self.rest.clone();
        let mut put =
            |field: &str, text: &str| fields.insert(field.to_owned(), Value::String(text.to_owned()));
        put("type", &self.kind);
        put("status", &self.status);
        for (field, text) in [("reason", &self.reason), ("message", &self.message)] {
            if !text.is_empty() {
                put(field, text);
            }
        }
        let times =
            [("lastTransitionTime", self.last_transition_time), ("lastUpdateTime", self.last_update_time)];
        for (field, time) in times {
            if let Some(time) = time {
                put(field, &time.to_string());
            }
        }
        fields.serialize(serializer)
    }
}

impl Condition {
    /// A condition that changed just now.
    pub fn new(kind: &str, status: &str, reason: &str, message: impl Into<String>, now: Time) -> Self {
        Self {
            kind: kind.to_owned(),
            status: status.to_owned(),
            last_transition_time: Some(now.whole_seconds()),
            last_update_time: None,
            reason: reason.to_owned(),
            message: message.into(),
            rest: Map::new(),
        }
    }

    /// Whether its status is `True`.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}

/// What every condition says.
pub trait HasStatus {
    /// What it is about: its `type`.
    fn kind(&self) -> &str;

    /// `True`, `False` or `Unknown`.
    fn status(&self) -> &str;

    /// Whether its status is `True`.
    fn is_true(&self) -> bool {
        self.status() == "True"
    }
}

/// The condition of this type.
pub fn find<'a, C: HasStatus>(conditions: &'a [C], kind: &str) -> Option<&'a C> {
    conditions.iter().find(|condition| condition.kind() == kind)
}

/// Whether there is a condition of this type and its status is `True`.
pub fn is_true<C: HasStatus>(conditions: &[C], kind: &str) -> bool {
    find(conditions, kind).is_some_and(HasStatus::is_true)
}

/// Sets a condition. One with the same status and reason stays as it is; one
/// with the same status keeps the time of its last transition. A changed
/// condition goes to the end of the list, as Kubernetes' workload controllers
/// have it. Returns whether anything changed.
pub fn set(conditions: &mut Vec<Condition>, mut condition: Condition) -> bool {
    if let Some(present) = find(conditions, &condition.kind) {
        if present.status == condition.status && present.reason == condition.reason {
            return false;
        }
        if present.status == condition.status {
            condition.last_transition_time = present.last_transition_time;
        }
    }
    remove(conditions, &condition.kind);
    conditions.push(condition);
    true
}

/// Removes the condition of this type. Returns whether there was one.
pub fn remove(conditions: &mut Vec<Condition>, kind: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.kind != kind);
    conditions.len() != before
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn condition(status: &str, reason: &str, at: i64) -> Condition {
        Condition::new("Ready", status, reason, "text", Time::from_unix(at))
    }

    #[test]
    fn transitions_keep_their_time_while_the_status_stays() {
        let mut list = Vec::new();
        assert!(set(&mut list, condition("True", "A", 1)));
        assert!(!set(&mut list, condition("True", "A", 2)));
        assert!(set(&mut list, condition("True", "B", 3)));
        assert_eq!(list[0].last_transition_time, Some(Time::from_unix(1)));
        assert!(set(&mut list, condition("False", "B", 4)));
        assert_eq!(list[0].last_transition_time, Some(Time::from_unix(4)));
        assert!(remove(&mut list, "Ready") && !remove(&mut list, "Ready"));
    }

    #[test]
    fn unknown_fields_survive() {
        let json = json!({"type": "A", "status": "True", "observedGeneration": 3});
        let condition: Condition = crate::from_json(&json.to_string()).unwrap();
        assert_eq!(serde_json::to_value(condition).unwrap(), json);
        #[derive(FromJson)]
        #[allow(dead_code, reason = "only the shape counts")]
        struct Status {
            conditions: Vec<Condition>,
        }
        let whole = crate::paths::Fields::Paths(vec!["conditions".to_owned()]);
        assert_eq!(crate::paths::fields_of::<Status>(), whole);
    }
}
