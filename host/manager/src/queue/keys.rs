//! Where keys are, for people to see.

use serde::Serialize;
use tokio::time::Instant;

use super::{Place, Queue};
use crate::key::Key;

/// Where a key is.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyState {
    /// The key itself.
    #[serde(skip)]
    pub id: Key,
    /// The key.
    pub key: String,
    /// `ready`, `working` (or held until the cache shows what it wrote), `waiting`
    /// for a time, or `at rest`.
    pub state: &'static str,
    /// For how long it has been ready, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_millis: Option<u64>,
    /// In how many milliseconds it is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_in_millis: Option<u64>,
    /// Why it waits, unless for a time that its plan named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// Failures in a row.
    pub failures: u32,
}

/// What holds a key back until a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Held {
    /// It failed, or goes on writing without a change of its own object.
    Backoff,
    /// Its plan wants more changes to come before it is asked again.
    Quiet,
    /// It computed for long.
    Rest,
}

impl KeyState {
    /// A key for which there is nothing to do.
    pub fn at_rest(id: Key) -> Self {
        let key = id.to_string();
        Self { id, key, state: "at rest", ready_millis: None, due_in_millis: None, held: None, failures: 0 }
    }
}

impl Queue {
    /// Keys that are not at rest and are wanted, at most so many: those that are
    /// worked on, then those that are ready, then those that wait.
    pub fn keys(&self, limit: usize, wanted: impl Fn(&Key) -> bool) -> Vec<KeyState> {
        let inner = self.inner.lock();
        let now = Instant::now();
        let millis = |span: std::time::Duration| span.as_millis() as u64;
        let mut keys = Vec::new();
        for state in ["working", "ready", "waiting"] {
            let of_state = inner.entries.iter().filter(|(key, entry)| {
                let is = match entry.place {
                    Place::Taken => "working",
                    Place::Ready(_) => "ready",
                    Place::Idle if entry.due.is_some() => "waiting",
                    Place::Idle => return false,
                };
                is == state && wanted(key)
            });
            keys.extend(of_state.take(limit - keys.len()).map(|(key, entry)| {
                let until = |time: Option<Instant>| time.is_some_and(|time| time > now);
                let held = if until(entry.backoff_until) {
                    Some(Held::Backoff)
                } else if until(entry.quiet_until) && entry.held {
                    Some(Held::Quiet)
                } else if until(entry.rest_until) && entry.held {
                    Some(Held::Rest)
                } else {
                    None
                };
                KeyState {
                    id: key.clone(),
                    key: key.to_string(),
                    state,
                    ready_millis: matches!(entry.place, Place::Ready(_))
                        .then(|| millis(now.saturating_duration_since(entry.queued_at))),
                    due_in_millis: entry.due.map(|due| millis(due.saturating_duration_since(now))),
                    held: held.filter(|_| state == "waiting"),
                    failures: entry.failures,
                }
            }));
        }
        keys
    }
}
