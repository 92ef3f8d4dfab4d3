//! What is remembered of a Job between two reconciles, and what for.
//!
//! All of it is a hint that a failover may lose; nothing is counted by it.
//!
//! - When the next sync is due. Pods of a Job change one by one, and each sync
//!   costs writes, so a sync comes a second after the first change. (To be quiet
//!   after a sync would not do: of a burst the first change would be written
//!   alone, and policies would judge by it.) Lost, the Job is synced at once.
//! - The generation of the last sync: a changed spec is not kept waiting.
//! - How many pods failed in a row, and when the last did. That is read off the
//!   pods while they are there; it is remembered because they may be deleted.
//! - How many plans in a row met with a setback, so that they are tried less and
//!   less often.
//! - That the namespace was seen to go, where no pod can be made any more.

use std::time::Duration;

use coxswain_sdk::{FromJson, Time, from_json};
use serde::{Serialize, Serializer};

use crate::backoff::Failures;
use crate::setbacks::Setbacks;

/// For how long changes of pods are gathered.
pub const BATCH: Duration = Duration::from_secs(1);

/// What is remembered of a Job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    /// Generation of the Job at its last sync.
    pub generation: i64,
    /// When the next sync is due, if that is known by now.
    #[serde(serialize_with = "fine", skip_serializing_if = "Option::is_none")]
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

/// A time in more than whole seconds.
fn fine<S: Serializer>(time: &Option<Time>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.collect_str(&time.to_micro()),
        None => serializer.serialize_none(),
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
    fn what_is_written_reads_back() {
        let memory = Memory {
            generation: 3,
            due: Time::parse("2026-01-01T00:00:00.25Z"),
            failures: Failures { count: 2, last: Some(Time::from_unix(5)) },
            setbacks: Setbacks { count: 1, waits: true, pods: false },
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
