//! What is remembered of an autoscaler from one look to the next.
//!
//! Invariant: what no rule looks back on any more is dropped, so the memory is
//! as long as the longest window.

use std::time::Duration;

use coxswain_sdk::{FromJson, Time, from_json};
use serde::Serialize;

/// A number and when it was so, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, FromJson)]
pub struct Sample(pub i32, pub i64);

/// What is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, FromJson)]
#[serde(default)]
pub struct Memory {
    /// When the autoscaler was last looked at.
    pub last: i64,
    /// Sizes that were recommended, before any window or rate was applied.
    pub recommended: Vec<Sample>,
    /// Replicas that were added.
    pub added: Vec<Sample>,
    /// Replicas that were taken away.
    pub removed: Vec<Sample>,
    /// How often in a row another writer of the size was quicker.
    #[serde(skip_serializing_if = "is_zero")]
    pub conflicts: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Milliseconds since 1970.
pub fn millis(time: Time) -> i64 {
    i64::try_from(time.total_nanos() / 1_000_000).unwrap_or(i64::MAX)
}

/// Milliseconds of a duration.
pub fn length(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl Memory {
    /// From the state of the key; nothing if that cannot be read.
    pub fn read(state: Option<&str>) -> Self {
        state.and_then(|text| from_json(text).ok()).unwrap_or_default()
    }

    /// As the state of the key.
    pub fn write(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Notes a recommendation. Of equal ones in a row the last is kept: a window
    /// that reaches any of them reaches that one.
    pub fn recommend(&mut self, size: i32, now: i64) {
        match self.recommended.last_mut() {
            Some(last) if last.0 == size => last.1 = now,
            _ => self.recommended.push(Sample(size, now)),
        }
    }

    /// Drops recommendations older than a window.
    pub fn forget(&mut self, now: i64, window: i64) {
        self.recommended.retain(|sample| sample.1 >= now.saturating_sub(window));
    }

    /// Notes that the size was changed, and drops what is older than the longest period.
    pub fn scaled(&mut self, from: i32, to: i32, now: i64, period: i64) {
        for samples in [&mut self.added, &mut self.removed] {
            samples.retain(|sample| sample.1 >= now.saturating_sub(period));
        }
        if to > from {
            self.added.push(Sample(to.saturating_sub(from), now));
        } else {
            self.removed.push(Sample(from.saturating_sub(to), now));
        }
    }

    /// Takes back the change of size that the last look noted: it was not made.
    pub fn not_scaled(&mut self) {
        let last = self.last;
        for samples in [&mut self.added, &mut self.removed] {
            samples.retain(|sample| sample.1 != last);
        }
    }
}
