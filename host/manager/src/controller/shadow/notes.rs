//! Taking notes of a live reconcile.

use std::sync::{Arc, atomic::Ordering};

use tokio::time::Instant;

use super::{Shadow, now};
use crate::{
    contract::{Answer, Ask, Lookup, Outcome, Plan, Request},
    controller::{Follower, Loaded, Observer},
    engine::Fault,
    key::Key,
    store::Snapshot,
};

/// A live reconcile, to be done again by the candidate.
pub(super) struct Job {
    /// The key, in the candidate's numbers.
    pub key: Key,
    /// What the live version was asked first.
    pub request: Request,
    /// What it saw in each round, through the candidate's view.
    pub rounds: Vec<Snapshot>,
    /// What it asked for past the cache, and what it was told.
    pub answers: Vec<(Ask, Answer)>,
    /// What it decided.
    pub decision: Decision,
    /// Version of the live module.
    pub version: String,
    /// Format of the state that it keeps.
    pub state_format: u32,
    pub taken: Instant,
}

/// What can be compared.
#[derive(Clone, Debug)]
pub(super) enum Decision {
    Plan(Plan),
    Retry(String),
    Terminal(String),
}

impl Decision {
    /// None: it asks for more, or it failed.
    pub(super) fn of(outcome: &Outcome) -> Option<Self> {
        match outcome {
            Outcome::Plan(plan) => Some(Self::Plan(plan.clone())),
            Outcome::Retry(reason) => Some(Self::Retry(reason.clone())),
            Outcome::Terminal(reason) => Some(Self::Terminal(reason.clone())),
            Outcome::Lookups(_) => None,
        }
    }
}

impl Observer for Shadow {
    fn begin(&self, loaded: &Arc<Loaded>, key: &Key) -> Option<Box<dyn Follower>> {
        // A canary is no measure for itself.
        if Arc::ptr_eq(loaded, &self.candidate) || self.stop.is_cancelled() || self.ended.lock().is_some() {
            return None;
        }
        let Some(translated) = self.translate(loaded, key) else {
            self.counters.skipped.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        Some(Box::new(Notes {
            shadow: self.me.upgrade()?,
            key: translated,
            live: loaded.clone(),
            request: None,
            rounds: Vec::new(),
            asks: Vec::new(),
            answers: Vec::new(),
        }))
    }
}

/// Notes of one reconcile.
struct Notes {
    shadow: Arc<Shadow>,
    key: Key,
    live: Arc<Loaded>,
    request: Option<Request>,
    rounds: Vec<Snapshot>,
    /// Asked for in the last round.
    asks: Vec<Lookup>,
    answers: Vec<(Ask, Answer)>,
}

impl Follower for Notes {
    fn asked(&mut self, request: &Request, snapshot: &Snapshot) {
        self.rounds.push(self.shadow.candidate.view.snapshot_beside(&self.key, snapshot));
        if self.request.is_none() {
            self.request = Some(request.clone());
        }
        for ask in self.asks.drain(..) {
            let answer = request.answers.iter().rev().find(|answer| answer.id == ask.id);
            self.answers.extend(answer.map(|answer| (ask.ask, answer.clone())));
        }
    }

    fn answered(&mut self, _: &Request, result: &Result<Outcome, Fault>) {
        let decision = match result {
            Ok(Outcome::Lookups(asks)) => {
                self.asks.clone_from(asks);
                return;
            }
            Ok(outcome) => Decision::of(outcome),
            Err(_) => None,
        };
        let (Some(decision), Some(request)) = (decision, self.request.take()) else {
            self.shadow.counters.skipped.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let manifest = self.live.module.manifest();
        self.shadow.push(Job {
            key: self.key.clone(),
            request,
            rounds: std::mem::take(&mut self.rounds),
            answers: std::mem::take(&mut self.answers),
            decision,
            version: manifest.version.clone(),
            state_format: manifest.state_format,
            taken: now(),
        });
    }
}
