//! What a controller tells about itself.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
};

use serde::{Deserialize, Serialize};

use super::{
    CanaryStatus, Controller,
    shadow::{Shadow, ShadowStatus},
};
use crate::{
    contract::display_name,
    grants::RefusalCounts,
    limits::LimitsStatus,
    metrics::{Figures, counted},
};

/// The last thing that went wrong with a key of a controller.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyError {
    /// The key.
    pub key: String,
    /// What went wrong.
    pub reason: String,
    /// When.
    pub at: jiff::Timestamp,
}

/// One controller, for `coxswain status`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerStatus {
    /// Name.
    pub name: String,
    /// Short names.
    pub aliases: Vec<String>,
    /// Version, as the module calls itself.
    pub version: String,
    /// File of the module.
    pub file: String,
    /// sha256 of the file.
    pub hash: String,
    /// Since when this version runs.
    pub since: jiff::Timestamp,
    /// New versions since the start.
    pub swaps: u64,
    /// Whether all that it reads is in the cache.
    pub ready: bool,
    /// Resources it waits for.
    pub waiting_for: Vec<String>,
    /// Keys whose plans may be carried out at once.
    #[serde(default)]
    pub concurrency: usize,
    /// Keys that are ready to be reconciled.
    pub queue_length: usize,
    /// Keys being reconciled, or held until the cache shows their last writes.
    pub in_flight: usize,
    /// Keys that wait for a time.
    pub delayed: usize,
    /// Keys that failed and wait for their backoff.
    pub backing_off: usize,
    /// Reconciles since the start.
    pub reconciles: u64,
    /// Failed reconciles since the start.
    pub failures: u64,
    /// Traps, deadlines and full memories since the start.
    pub faults: u64,
    /// Writes since the start.
    pub writes: u64,
    /// Writes that changed nothing.
    pub no_op_writes: u64,
    /// Whether it works, rather than stand by.
    #[serde(default = "yes")]
    pub leads: bool,
    /// What was refused because it is not declared or not granted.
    #[serde(default)]
    pub refusals: RefusalCounts,
    /// The last thing that went wrong.
    pub last_error: Option<KeyError>,
    /// How often it went back to an earlier version.
    #[serde(default)]
    pub rollbacks: u64,
    /// Microseconds that the longest swap kept the controller.
    #[serde(default)]
    pub longest_swap_micros: u64,
    /// Plans refused as a whole.
    #[serde(default)]
    pub invalid_plans: u64,
    /// What it may use.
    #[serde(default)]
    pub limits: LimitsStatus,
    /// How often it asked for more, by limit; those never hit are left out.
    #[serde(default)]
    pub limit_hits: BTreeMap<String, u64>,
    /// Why the controller as a whole is slowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowed: Option<String>,
    /// Candidates that compute beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shadows: Vec<ShadowStatus>,
    /// A version that has a share of its keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanaryStatus>,
}

fn yes() -> bool {
    true
}

impl Controller {
    /// The controller as it is now.
    pub fn status(&self) -> ControllerStatus {
        let loaded = self.current();
        let manifest = loaded.module.manifest();
        let queue = self.queue.stats();
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        // One after the other: no lock is held while another is taken.
        let (since, last_error) = (self.running_since(), self.last_error());
        let shadows = self.shadows();
        ControllerStatus {
            name: self.name.clone(),
            aliases: manifest.aliases.clone(),
            version: manifest.version.clone(),
            file: loaded.path().display().to_string(),
            hash: loaded.module.hash().to_owned(),
            since,
            swaps: count(&self.counters.swaps),
            ready: loaded.view.is_ready(),
            waiting_for: self.waiting_for(),
            concurrency: self.concurrency,
            queue_length: queue.ready,
            in_flight: queue.taken,
            delayed: queue.delayed,
            backing_off: queue.backing_off,
            reconciles: count(&self.counters.reconciles),
            failures: count(&self.counters.failures),
            faults: count(&self.counters.faults),
            writes: count(&self.counters.writes),
            no_op_writes: count(&self.counters.no_op_writes),
            leads: self.leads(),
            refusals: loaded.view.grants().counts(),
            last_error,
            longest_swap_micros: count(&self.counters.longest_swap_micros),
            rollbacks: count(&self.counters.rollbacks),
            invalid_plans: count(&self.counters.invalid_plans),
            limits: loaded.module.limits().into(),
            limit_hits: self.counters.limit_hits.by_name(),
            slowed: loaded.probation.trouble(),
            shadows: shadows.iter().map(|shadow| shadow.status()).collect(),
            canary: self.canary().map(|canary| canary.status()),
        }
    }

    fn running_since(&self) -> jiff::Timestamp {
        *self.since.lock()
    }

    fn last_error(&self) -> Option<KeyError> {
        self.last_error.lock().clone()
    }

    fn shadows(&self) -> Vec<Arc<Shadow>> {
        self.shadows.read().clone()
    }

    /// The controller at a scrape of metrics.
    pub fn figures(&self) -> Figures {
        let loaded = self.current();
        let queue = self.queue.stats();
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Figures {
            name: self.name.clone(),
            version: loaded.module.manifest().version.clone(),
            hash: loaded.module.hash().to_owned(),
            since: loaded.since.as_millisecond() as f64 / 1000.0,
            keys: [
                ("ready", queue.ready),
                ("working", queue.taken),
                ("delayed", queue.delayed),
                ("backing_off", queue.backing_off),
            ],
            ready: loaded.view.is_ready(),
            memory: loaded.memory(),
            counters: vec![
                (counted::SWAPS, count(&self.counters.swaps)),
                (counted::ROLLBACKS, count(&self.counters.rollbacks)),
                (counted::INVALID_PLANS, count(&self.counters.invalid_plans)),
                (counted::WRITES, count(&self.counters.writes)),
                (counted::NO_OP_WRITES, count(&self.counters.no_op_writes)),
            ],
            limit_hits: self.counters.limit_hits.by_name().into_iter().collect(),
            refusals: loaded.view.grants().counts().named().to_vec(),
        }
    }

    /// Resources that the module needs and that are not in the cache yet.
    pub(super) fn waiting_for(&self) -> Vec<String> {
        let loaded = self.current();
        let registry = self.shared.store.registry();
        let waiting = loaded.view.waiting_for();
        waiting
            .into_iter()
            .filter_map(|number| registry.name(number))
            .map(|name| display_name(&name))
            .collect()
    }
}
