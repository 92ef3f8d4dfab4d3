//! When a count that differs from the status is written.
//!
//! The API server adds to `status.used` before it lets an object in, so the
//! status runs ahead of the cache. Writing down what the cache shows would take
//! such a reservation back and let too much in. Hence:
//! - what the status does not have yet is written at once;
//! - what was seen to go is taken off at once, reservations staying;
//! - any other difference is written once the status has stood still for
//!   [`SETTLE`], and no later than the sync period after it appeared.
//!
//! Kept from one reconcile to the next: the last count, and since when the
//! status differs from it. Neither can be told from the objects. Lost, it costs
//! the wait.

use std::time::Duration;

use coxswain_sdk::quantity::Quantity;
use coxswain_sdk::{FromJson, Time};
use serde::Serialize;

use crate::list::List;
use crate::view::Written;

/// How long after a reservation its object is waited for.
pub const SETTLE: Duration = Duration::from_secs(1);

/// What is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, FromJson, Serialize)]
#[serde(transparent)]
pub struct Memory(Vec<Name>);

/// What is kept of one name.
#[derive(Clone, Debug, PartialEq, Eq, FromJson, Serialize)]
struct Name {
    name: String,
    /// The last count.
    seen: Quantity,
    /// The count before, while it is open whether the write came through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<Quantity>,
    /// What the status says, if it differs; since when it says so; since when
    /// there has been any difference. In Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    differs: Option<(Quantity, i64, i64)>,
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

    /// Undoes counts whose write failed.
    pub fn undo(&mut self) {
        for name in &mut self.0 {
            name.seen = name.before.take().unwrap_or(name.seen);
        }
    }

    fn get(&self, name: &str) -> Option<&Name> {
        self.0.iter().find(|there| there.name == name)
    }
}

fn from_millis(millis: i64) -> Time {
    let rest = Duration::from_millis(millis.rem_euclid(1000).unsigned_abs());
    Time::from_unix(millis.div_euclid(1000)) + rest
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
    let millis = (now.total_nanos() / 1_000_000) as i64;
    for (name, counted) in count.iter() {
        let mut next = Name { name: name.to_owned(), seen: counted, before: None, differs: None };
        let last = memory.get(name);
        let write = match status.get(name).and_then(|text| Quantity::parse(text).ok()) {
            None => Some(counted),
            Some(used) if used == counted => None,
            Some(used) => {
                let gone = last.map_or(Quantity::ZERO, |last| last.seen - counted);
                let rest = counted.max(used - gone);
                if gone > Quantity::ZERO && rest != used {
                    next.before = last.map(|last| last.seen);
                    Some(rest)
                } else {
                    let before = last.and_then(|last| last.differs);
                    let still = before.filter(|(before, ..)| *before == used);
                    let (since, first) = (still.map_or(millis, |s| s.1), before.map_or(millis, |b| b.2));
                    let settled = from_millis(since) + SETTLE;
                    let due = period.map_or(settled, |period| settled.min(from_millis(first) + period));
                    if due > now {
                        decision.again = Some(decision.again.map_or(due, |again| again.min(due)));
                        next.differs = Some((used, since, first));
                    }
                    (due <= now).then_some(counted)
                }
            }
        };
        if let Some(quantity) = write {
            decision.used.insert(name.to_owned(), quantity.to_string());
        }
        decision.memory.0.push(next);
    }
    // What cannot be counted at present is remembered as it was.
    for last in memory.0.iter().filter(|last| count.get(&last.name).is_none()) {
        if decision.used.contains_key(&last.name) {
            decision.memory.0.push(Name { before: None, differs: None, ..last.clone() });
        }
    }
    decision
}
