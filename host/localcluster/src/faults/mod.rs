//! Faults on request: latency, refusals, cut connections, lost answers, watches that close, lag or expire.
//!
//! In: rules. Out: a verdict on each request, and signals to watches. Invariant: without rules a request costs one
//! atomic load; with a seed the same requests meet the same faults.

mod rule;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;

pub use rule::{Action, Rule, RuleError, Selection};

use crate::rest::Request;
use crate::rest::strategy::StorageId;
use crate::status::Status;

/// What happens to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Nothing out of the ordinary.
    Pass,
    /// It is refused without being carried out.
    Refuse(Status),
    /// The connection ends without an answer; nothing was carried out.
    Cut,
    /// It is carried out, then the connection ends without an answer.
    LoseAnswer,
}

/// What watches of a resource must know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchState {
    /// Watches that were open when this moved are closed.
    pub closings: u64,
    /// Watches that were open when this moved are told that their version is too old.
    pub expiries: u64,
    /// Events are held back this long.
    pub delay: Duration,
}

struct Active {
    id: u64,
    rule: Rule,
}

/// Rules in force.
pub struct Faults {
    any: AtomicBool,
    rules: Mutex<(u64, Vec<Active>)>,
    rng: Mutex<SmallRng>,
    watches: Mutex<HashMap<StorageId, watch::Sender<WatchState>>>,
}

impl Faults {
    /// None in force.
    pub fn new(seed: Option<u64>) -> Self {
        let rng = seed.map_or_else(SmallRng::from_os_rng, SmallRng::seed_from_u64);
        Self {
            any: AtomicBool::new(false),
            rules: Mutex::default(),
            rng: Mutex::new(rng),
            watches: Mutex::default(),
        }
    }

    /// Puts a rule in force, or carries it out at once if it is about open watches. Its number removes it.
    pub fn add(&self, rule: Rule) -> u64 {
        match rule.action {
            Action::CloseWatches => self.signal(&rule, |state| state.closings += 1),
            Action::ExpireWatches => self.signal(&rule, |state| state.expiries += 1),
            Action::DelayWatches { milliseconds } => {
                let delay = Duration::from_millis(milliseconds);
                self.signal(&rule, |state| state.delay = delay);
            }
            _ => {}
        }
        let mut rules = self.rules.lock();
        rules.0 += 1;
        let id = rules.0;
        rules.1.push(Active { id, rule });
        // Signals have done their work.
        rules.1.retain(|active| !active.rule.action.is_signal());
        self.any.store(!rules.1.is_empty(), Ordering::Release);
        id
    }

    /// Takes a rule out of force; false if there is none of that number.
    pub fn remove(&self, id: u64) -> bool {
        let mut rules = self.rules.lock();
        let before = rules.1.len();
        rules.1.retain(|active| active.id != id);
        self.any.store(!rules.1.is_empty(), Ordering::Release);
        rules.1.len() < before
    }

    /// Takes all rules out of force and lets watches run freely.
    pub fn clear(&self) {
        self.rules.lock().1.clear();
        self.any.store(false, Ordering::Release);
        for sender in self.watches.lock().values() {
            sender.send_modify(|state| state.delay = Duration::ZERO);
        }
    }

    /// Rules in force and their numbers.
    pub fn list(&self) -> Vec<(u64, Rule)> {
        self.rules.lock().1.iter().map(|active| (active.id, active.rule.clone())).collect()
    }

    /// What watches of a resource follow.
    pub fn watch_state(&self, resource: &StorageId) -> watch::Receiver<WatchState> {
        let mut watches = self.watches.lock();
        watches.entry(resource.clone()).or_default().subscribe()
    }

    fn signal(&self, rule: &Rule, change: impl Fn(&mut WatchState)) {
        let mut watches = self.watches.lock();
        if let (Some(group), Some(plural)) = (&rule.on.group, &rule.on.resource) {
            let id = StorageId { group: group.clone(), plural: plural.clone() };
            watches.entry(id).or_default();
        }
        for (id, sender) in watches.iter() {
            if rule.on.is_resource(&id.group, &id.plural) {
                sender.send_modify(&change);
            }
        }
    }

    /// Decides on a request; latency is spent here.
    pub async fn judge(&self, request: &Request) -> Verdict {
        if !self.any.load(Ordering::Acquire) {
            return Verdict::Pass;
        }
        let mut wait = Duration::ZERO;
        let mut verdict = Verdict::Pass;
        for action in self.applicable(request) {
            match action.verdict() {
                Ok(found) => {
                    verdict = found;
                    break;
                }
                Err(latency) => wait += latency,
            }
        }
        if wait > Duration::ZERO {
            tokio::time::sleep(wait).await;
        }
        verdict
    }

    fn applicable(&self, request: &Request) -> Vec<Action> {
        let mut rules = self.rules.lock();
        let mut rng = self.rng.lock();
        let mut actions = Vec::new();
        for active in &mut rules.1 {
            let rule = &mut active.rule;
            if !rule.on.covers(request) || !rng.random_bool(rule.probability.clamp(0.0, 1.0)) {
                continue;
            }
            if let Some(count) = &mut rule.count {
                if *count == 0 {
                    continue;
                }
                *count -= 1;
            }
            actions.push(rule.action.clone());
        }
        rules.1.retain(|active| active.rule.count != Some(0));
        self.any.store(!rules.1.is_empty(), Ordering::Release);
        actions
    }
}

#[cfg(test)]
mod tests;
