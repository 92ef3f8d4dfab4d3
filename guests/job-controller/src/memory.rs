//! What is remembered of a Job between two reconciles, and what for.
//!
//! All of it is a hint that a failover may lose; nothing is counted by it.
//!
//! - When the next sync is due. Pods of a Job change one by one, and each sync
//!   costs writes, so a sync comes a second after the first change. No object
//!   says when the last sync was. Lost, the Job is synced at once.
//! - The generation of the last sync: a changed spec is not kept waiting.
//! - How many pods failed in a row, and when the last did. That is read off the
//!   pods while they are there; it is remembered because they may be deleted.
//! - How many plans in a row met with a setback, so that they are tried less and
//!   less often.
//! - That the namespace was seen to go, where no pod can be made any more.

use std::time::Duration;

use coxswain_sdk::{Time, from_json};
use serde::{Deserialize, Serialize};

use crate::backoff::Failures;

/// For how long changes of pods are gathered.
pub const BATCH: Duration = Duration::from_secs(1);

/// The wait after one setback.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest such wait.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What is remembered of a Job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    /// Generation of the Job at its last sync.
    pub generation: i64,
    /// When the next sync is due, if that is known by now.
    #[serde(with = "fine", skip_serializing_if = "Option::is_none")]
    pub due: Option<Time>,
    /// Failures in a row.
    #[serde(skip_serializing_if = "Failures::are_none")]
    pub failures: Failures,
    /// Setbacks in a row.
    #[serde(skip_serializing_if = "Setbacks::are_none")]
    pub setbacks: Setbacks,
    /// Whether the namespace was seen to go.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub namespace_terminating: bool,
}

/// Plans in a row of which something was refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Setbacks {
    /// How many.
    pub count: u32,
    /// Whether the next try is still to come.
    pub waits: bool,
}

impl Setbacks {
    /// Whether there are none.
    pub fn are_none(&self) -> bool {
        self.count == 0
    }

    /// What is so after a plan of which it is known how it went.
    pub fn after(self, setback: bool) -> Self {
        match self {
            _ if setback => Self { count: self.count.saturating_add(1), waits: true },
            Self { waits: true, .. } => Self { waits: false, ..self },
            // The last plan tried, and nothing was refused.
            Self { .. } => Self::default(),
        }
    }

    /// When to try again, where that waits.
    pub fn again(&self, now: Time) -> Option<Time> {
        let doublings = self.count.saturating_sub(1).min(16);
        self.waits.then(|| now + FIRST_WAIT.saturating_mul(1 << doublings).min(LONGEST_WAIT))
    }
}

/// What a reconcile is to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
    /// Sync the Job.
    Sync,
    /// Wait until then.
    Wait(Time),
}

impl Memory {
    /// Reads what was kept. What cannot be read is as good as lost.
    pub fn read(state: Option<&str>) -> Option<Self> {
        state.and_then(|state| from_json(state).ok())
    }

    /// What was kept, as text.
    pub fn write(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Whether it is time to sync.
    pub fn turn(&self, generation: i64, now: Time) -> Turn {
        let gathered = now + BATCH;
        match self.due {
            _ if self.generation != generation => Turn::Sync,
            Some(due) if due <= now => Turn::Sync,
            Some(due) => Turn::Wait(due.min(gathered)),
            None => Turn::Wait(gathered),
        }
    }
}

/// Times in more than whole seconds.
mod fine {
    use coxswain_sdk::Time;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Option<Time>, serializer: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => serializer.collect_str(&time.to_micro()),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Time>, D::Error> {
        Option::<Time>::deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_comes_a_second_after_the_first_change() {
        let now = Time::from_unix(100);
        let at = |seconds| Some(Time::from_unix(seconds));
        for (generation, due, turn) in [
            (6, None, Turn::Sync),
            (7, None, Turn::Wait(Time::from_unix(101))),
            (7, at(99), Turn::Sync),
            (7, at(100), Turn::Sync),
            (7, at(200), Turn::Wait(Time::from_unix(101))),
            (6, at(200), Turn::Sync),
        ] {
            let memory = Memory { generation, due, ..Memory::default() };
            assert_eq!(memory.turn(7, now), turn, "{memory:?}");
        }
        let soon = Time::parse("1970-01-01T00:01:40.25Z");
        assert_eq!(
            Memory { generation: 7, due: soon, ..Memory::default() }.turn(7, now),
            Turn::Wait(soon.unwrap())
        );
    }

    #[test]
    fn what_is_refused_is_tried_less_and_less_often() {
        let now = Time::from_unix(100);
        let mut setbacks = Setbacks::default();
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            setbacks = setbacks.after(true);
            assert_eq!(setbacks.again(now), Some(now + Duration::from_secs(seconds)));
            // Tried, and refused again.
            setbacks = setbacks.after(false);
            assert_eq!(setbacks.again(now), None);
        }
        assert!(!setbacks.are_none());
        assert!(setbacks.after(false).are_none());
        let many = Setbacks { count: u32::MAX, waits: false }.after(true);
        assert_eq!(many.again(now), Some(now + LONGEST_WAIT));
    }

    #[test]
    fn what_is_written_reads_back() {
        let memory = Memory {
            generation: 3,
            due: Time::parse("2026-01-01T00:00:00.25Z"),
            failures: Failures { count: 2, last: Some(Time::from_unix(5)) },
            setbacks: Setbacks { count: 1, waits: true },
            namespace_terminating: true,
        };
        assert_eq!(Memory::read(Some(&memory.write())), Some(memory));
        let blank = Memory::default();
        assert_eq!(blank.write(), r#"{"generation":0}"#);
        assert_eq!(Memory::read(Some(&blank.write())), Some(blank));
        assert_eq!(Memory::read(Some("nonsense")), None);
        assert_eq!(Memory::read(None), None);
    }
}
