//! What a key is at, what it did last, what it reads and what it waits for: for
//! people to see.
//!
//! Kept: what the last keys that did anything did, as many as [`DEEDS`]; and what
//! keys under way are at, beyond computing. All else is found out when asked.

use std::{collections::HashMap, time::Duration};

use lru::LruCache;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::Instant;

use super::{Controller, Recent};
use crate::{
    executor::Barriers,
    key::Key,
    queue::{Held, KeyState},
    store::ReadsNow,
};

/// Keys whose last deed is remembered.
const DEEDS: usize = 1024;
/// Keys whose reads are looked for; each takes a look at all that is cached.
const READS: usize = 20;

/// One key.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyAbout {
    /// Where it is.
    #[serde(flatten)]
    pub state: KeyState,
    /// What has to come before it is reconciled again.
    pub waits_for: String,
    /// What it last did, or failed to do, if it is among the last that did
    /// anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_did: Option<Deed>,
    /// What its last reconcile read, if one key was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<ReadsNow>,
}

/// A reconcile that was not for nothing.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Deed {
    /// When.
    pub at: jiff::Timestamp,
    /// What the module answered.
    pub outcome: String,
    /// What became of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub came_to: Option<String>,
}

/// What a key under way is at.
enum Phase {
    LooksUp(usize),
    Writes(usize),
    Cache(Barriers),
}

/// What all keys are at, and what they did.
pub(super) struct Doings {
    phases: Mutex<HashMap<Key, (Phase, Instant)>>,
    /// Bounded by hand: with a bound it would take its room at once.
    deeds: Mutex<LruCache<Key, Deed>>,
}

impl Default for Doings {
    fn default() -> Self {
        Self { phases: Mutex::default(), deeds: Mutex::new(LruCache::unbounded()) }
    }
}

/// A phase lasts until this is dropped.
pub(super) struct InPhase<'a>(&'a Doings, &'a Key);

impl Drop for InPhase<'_> {
    fn drop(&mut self) {
        self.0.phases.lock().remove(self.1);
    }
}

impl Doings {
    fn at<'a>(&'a self, key: &'a Key, phase: Phase) -> InPhase<'a> {
        self.phases.lock().insert(key.clone(), (phase, Instant::now()));
        InPhase(self, key)
    }

    pub(super) fn looks_up<'a>(&'a self, key: &'a Key, lookups: usize) -> InPhase<'a> {
        self.at(key, Phase::LooksUp(lookups))
    }

    pub(super) fn writes<'a>(&'a self, key: &'a Key, actions: usize) -> InPhase<'a> {
        self.at(key, Phase::Writes(actions))
    }

    pub(super) fn waits_for_cache<'a>(&'a self, key: &'a Key, barriers: &Barriers) -> InPhase<'a> {
        self.at(key, Phase::Cache(barriers.clone()))
    }

    /// Notes a round.
    pub(super) fn did(&self, key: &Key, round: &Recent) {
        let deed = Deed { at: round.at, outcome: round.outcome.clone(), came_to: None };
        let mut deeds = self.deeds.lock();
        deeds.put(key.clone(), deed);
        if deeds.len() > DEEDS {
            deeds.pop_lru();
        }
    }

    /// Notes what became of it.
    pub(super) fn came_to(&self, key: &Key, text: impl FnOnce() -> String) {
        if let Some(deed) = self.deeds.lock().get_mut(key) {
            deed.came_to = Some(text());
        }
    }

    fn deed(&self, key: &Key) -> Option<Deed> {
        self.deeds.lock().peek(key).cloned()
    }
}

impl Controller {
    /// Its keys, at most so many: those that are not at rest or, if `wanted` names
    /// some (by a part of namespace/name), all of these, with what they read.
    pub fn about(&self, wanted: Option<&str>, limit: usize) -> Vec<KeyAbout> {
        let loaded = self.current();
        let is_wanted = |key: &Key| wanted.is_none_or(|wanted| key.to_string().contains(wanted));
        let mut states = self.queue.keys(limit, is_wanted);
        if wanted.is_some() {
            let listed: std::collections::HashSet<Key> = states.iter().map(|one| one.id.clone()).collect();
            let others = loaded.view.keys().into_iter().filter(|key| is_wanted(key) && !listed.contains(key));
            states.extend(others.take(limit.saturating_sub(listed.len())).map(KeyState::at_rest));
        }
        // The one that was meant comes before those whose names merely contain it.
        states.sort_by_key(|one| wanted.is_some_and(|wanted| one.key != wanted));
        let mut all: Vec<KeyAbout> = states
            .into_iter()
            .map(|state| {
                let waits_for = self.waits(&state);
                KeyAbout { waits_for, last_did: self.doings.deed(&state.id), reads: None, state }
            })
            .collect();
        if wanted.is_some() {
            for one in all.iter_mut().take(READS) {
                one.reads = self.version_for(&one.state.id).view.reads_now(&one.state.id);
            }
        }
        all
    }

    /// What a key waits for, in words.
    fn waits(&self, state: &KeyState) -> String {
        let due = Duration::from_millis(state.due_in_millis.unwrap_or_default());
        match state.state {
            "working" => match self.doings.phases.lock().get(&state.id) {
                None => "the module's answer".to_owned(),
                Some((phase, since)) => {
                    let what = match phase {
                        Phase::LooksUp(count) => format!("answers to {count} lookups"),
                        Phase::Writes(count) => format!("{count} actions to be carried out"),
                        Phase::Cache(barriers) => {
                            format!(
                                "the cache to show what it wrote: {}",
                                self.current().executor.describe(barriers)
                            )
                        }
                    };
                    format!("{what}, for {:.0?}", since.elapsed())
                }
            },
            "ready" if !self.leads() => "this process to lead".to_owned(),
            "ready" => "its turn".to_owned(),
            "waiting" => match state.held {
                Some(Held::Backoff) if state.failures > 0 => {
                    format!("the end of its backoff after {} failures, in {due:.0?}", state.failures)
                }
                Some(Held::Backoff) => format!("the end of its backoff, in {due:.0?}"),
                Some(Held::Quiet) => format!("more changes to come at once, for {due:.0?} still"),
                Some(Held::Rest) => format!("a rest after much computing, for {due:.0?} still"),
                None => format!("the time it named itself, in {due:.0?}"),
            },
            _ => match self.waiting_for() {
                waiting if waiting.is_empty() => "a change of what it reads".to_owned(),
                waiting => format!("{} to be cached", waiting.join(", ")),
            },
        }
    }
}
