//! When a count that differs from the status is written.
//!
//! The API server adds to `status.used` before it lets an object in, so the
//! status runs ahead of the cache. Writing down what the cache shows would take
//! such a reservation back and let too much in. Hence:
//! - what the status does not have yet is written at once;
//! - what was seen to go is taken off at once, reservations staying;
//! - any other difference is written once it has stood still for [`SETTLE`], and
//!   no later than the sync period after it appeared.
//!
//! Kept from one reconcile to the next: the last count, and since when the
//! status differs from it. Neither can be told from the objects. Lost, it costs
//! the wait.

use std::collections::BTreeMap;
use std::time::Duration;

use coxswain_sdk::Time;
use coxswain_sdk::quantity::Quantity;
use serde::{Deserialize, Serialize};

use crate::list::List;
use crate::view::Written;

/// How long a difference must stand still.
pub const SETTLE: Duration = Duration::from_secs(3);

/// What is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Memory {
    /// The last count.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    seen: List,
    /// The count before, while it is open whether the write came through.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    before: List,
    /// Names for which the status differs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    differs: BTreeMap<String, Difference>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
struct Difference {
    /// What the status says.
    used: Quantity,
    /// Since when it has stood still, in Unix seconds.
    since: i64,
    /// Since when there has been any.
    first: i64,
}

/// What to do about the differences.
#[derive(Debug, Default, PartialEq)]
pub struct Decision {
    /// What the status should say.
    pub used: Written,
    /// When to look again.
    pub again: Option<Time>,
    /// What to keep.
    pub memory: Memory,
}

impl Memory {
    /// Reads what was kept. What cannot be read is as good as lost.
    pub fn read(text: Option<&str>) -> Self {
        text.and_then(|text| coxswain_sdk::from_json(text).ok()).unwrap_or_default()
    }

    /// The form in which it is kept.
    pub fn write(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Undoes a count whose write failed.
    pub fn undo(&mut self) {
        self.seen.append(&mut self.before);
    }
}

/// Decides what of a count is written. `period` is the longest that a
/// difference may last; None if it may for ever.
pub fn decide(
    memory: &Memory,
    count: &List,
    status: &Written,
    now: Time,
    period: Option<Duration>,
) -> Decision {
    let mut decision = Decision { used: status.clone(), ..Decision::default() };
    let second = now.unix();
    for (name, counted) in count {
        let Some(used) = status.get(name).and_then(|text| Quantity::parse(text).ok()) else {
            decision.used.insert(name.clone(), counted.to_string());
            continue;
        };
        if used == *counted {
            continue;
        }
        let seen = memory.seen.get(name);
        if let Some(seen) = seen.filter(|seen| *seen > counted) {
            let rest = counted.max(&(used - (*seen - *counted))).to_owned();
            if rest != used {
                decision.memory.before.insert(name.clone(), *seen);
                decision.used.insert(name.clone(), rest.to_string());
                continue;
            }
        }
        let last = memory.differs.get(name);
        let still = last.filter(|last| last.used == used && seen == Some(counted));
        let since = still.map_or(second, |last| last.since);
        let first = last.map_or(second, |last| last.first);
        let mut due = Time::from_unix(since) + SETTLE;
        if let Some(period) = period {
            due = due.min(Time::from_unix(first) + period);
        }
        if due <= now {
            decision.used.insert(name.clone(), counted.to_string());
            continue;
        }
        decision.again = Some(decision.again.map_or(due, |again| again.min(due)));
        decision.memory.differs.insert(name.clone(), Difference { used, since, first });
    }
    // What cannot be counted at present is remembered as it was.
    decision.memory.seen = memory.seen.clone();
    decision.memory.seen.extend(count.iter().map(|(name, counted)| (name.clone(), *counted)));
    decision.memory.seen.retain(|name, _| decision.used.contains_key(name));
    decision
}
