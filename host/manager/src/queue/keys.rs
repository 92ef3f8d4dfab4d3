//! Where keys are, for people to see.

use serde::Serialize;
use tokio::time::Instant;

use super::{Place, Queue};
use crate::key::Key;

/// A key that is not at rest.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyState {
    /// The key.
    pub key: String,
    /// `ready`, `working` (or held until the cache shows what it wrote), or
    /// `waiting` for a time.
    pub state: &'static str,
    /// For how long it has been ready, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_millis: Option<u64>,
    /// In how many milliseconds it is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_in_millis: Option<u64>,
    /// Failures in a row.
    pub failures: u32,
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
                KeyState {
                    key: key.to_string(),
                    state,
                    ready_millis: matches!(entry.place, Place::Ready(_))
                        .then(|| millis(now.saturating_duration_since(entry.queued_at))),
                    due_in_millis: entry.due.map(|due| millis(due.saturating_duration_since(now))),
                    failures: entry.failures,
                }
            }));
        }
        keys
    }
}
