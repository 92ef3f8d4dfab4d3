//! How long a key rests after work, so that one key never fills more than a small share of a processor for long.
//!
//! In: what each reconcile took to compute. Out: how long what comes now may wait to be taken together. Kept: of each
//! key what it spent beyond its share. A key that was quiet has some work free: it answers to what happens next at
//! once. Nothing of what a user does to the key's own object waits for a rest.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

use crate::key::Key;

/// Reconciles cheaper than this cost less than a timer, and are not counted.
const CHEAP: Duration = Duration::from_micros(100);
/// What a key may spend before it rests.
const FREE: Duration = Duration::from_millis(20);
/// One part of the time in so many is a key's share.
const SHARE: u32 = 20;
const LONGEST: Duration = Duration::from_millis(100);
/// Keys that are remembered before those that owe nothing any more are looked for.
const FEW: usize = 64;

/// What keys spent beyond their share.
#[derive(Default)]
pub(super) struct Rests {
    debts: HashMap<Key, Debt>,
    /// Looks for paid debts once there are so many.
    look_at: usize,
}

struct Debt {
    at: Instant,
    owed: Duration,
}

impl Debt {
    fn left(&self, now: Instant) -> Duration {
        self.owed.saturating_sub(now.saturating_duration_since(self.at) / SHARE)
    }
}

impl Rests {
    /// Counts work that ended now; returns how long the key rests.
    pub(super) fn after(&mut self, key: &Key, spent: Duration, now: Instant) -> Duration {
        if spent < CHEAP {
            return Duration::ZERO;
        }
        if self.debts.len() >= self.look_at.max(FEW) {
            self.debts.retain(|_, debt| !debt.left(now).is_zero());
            self.look_at = self.debts.len() * 2;
        }
        let before = self.debts.get(key).map(|debt| debt.left(now)).unwrap_or_default();
        // More than the longest rest pays for is not held against it.
        let owed = (before + spent).min(FREE + LONGEST / SHARE);
        self.debts.insert(key.clone(), Debt { at: now, owed });
        owed.saturating_sub(FREE) * SHARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key { resource: 1, source: 0, namespace: "ns".into(), name: name.into() }
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn some_work_is_free_and_then_each_reconcile_is_followed_by_a_rest() {
        let (mut rests, start) = (Rests::default(), Instant::now());
        let mut now = start;
        let mut waits = Vec::new();
        for spent in [1, 18, 1, 1, 1, 60] {
            now += spent * MS;
            let rest = rests.after(&key("a"), spent * MS, now);
            waits.push(rest.as_millis());
            now += rest;
        }
        // While it works it earns its share too: a twentieth.
        assert_eq!(waits, [0, 0, 0, 0, 19, 100]);
        assert_eq!(rests.after(&key("b"), FREE, now), Duration::ZERO, "each key has its own");
        now += FREE * SHARE;
        assert_eq!(rests.after(&key("a"), FREE, now), Duration::ZERO, "what is free comes back");
    }

    #[test]
    fn only_those_that_owe_are_remembered() {
        let (mut rests, now) = (Rests::default(), Instant::now());
        for n in 0..1000 {
            rests.after(&key(&format!("cheap-{n}")), CHEAP / 2, now);
            rests.after(&key(&format!("dear-{n}")), MS, now + n * 20 * MS);
        }
        assert!(rests.debts.len() <= FEW, "{}", rests.debts.len());
    }
}
