//! What every controller is measured by.

use std::{sync::Arc, time::Duration};

use prometheus::{GaugeVec, Histogram, HistogramVec, IntCounterVec, IntGaugeVec};

use super::family::{Registered, exponential};
use crate::engine::Fault;

/// Name under which controllers are reported as managed, as dashboards know it.
const MANAGER: &str = "kube-controller-manager";

/// Names of counts that a controller keeps itself.
pub mod counted {
    /// Versions that took over from another.
    pub const SWAPS: &str = "coxswain_module_swaps_total";
    /// Ways back.
    pub const ROLLBACKS: &str = "coxswain_module_rollbacks_total";
    /// Plans that were refused as a whole.
    pub const INVALID_PLANS: &str = "coxswain_invalid_plans_total";
    /// Writes that succeeded.
    pub const WRITES: &str = "coxswain_writes_total";
    /// Those that changed nothing.
    pub const NO_OP_WRITES: &str = "coxswain_no_op_writes_total";
}

const COUNTERS: [(&str, &str); 5] = [
    (counted::SWAPS, "[ALPHA] Versions of a module that took over from another."),
    (counted::ROLLBACKS, "[ALPHA] How often it went back to an earlier version."),
    (counted::INVALID_PLANS, "[ALPHA] Plans that were refused as a whole."),
    (counted::WRITES, "[ALPHA] Writes that succeeded."),
    (counted::NO_OP_WRITES, "[ALPHA] Writes that succeeded and changed nothing."),
];

/// Families over all controllers.
pub(super) struct Controllers {
    families: Arc<Families>,
}

struct Families {
    guest: HistogramVec,
    reconciles: IntCounterVec,
    faults: IntCounterVec,
    actions: IntCounterVec,
    barrier: HistogramVec,
    managed: IntGaugeVec,
    keys: IntGaugeVec,
    ready: IntGaugeVec,
    memory: IntGaugeVec,
    counters: Vec<(&'static str, IntCounterVec)>,
    limit_hits: IntCounterVec,
    refusals: IntCounterVec,
    info: IntGaugeVec,
    last_swap: GaugeVec,
}

/// The series of one controller.
#[derive(Clone)]
pub struct ControllerSeries {
    name: Arc<str>,
    families: Arc<Families>,
    guest: Histogram,
    barrier: Histogram,
}

/// One controller at a scrape.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Its name.
    pub name: String,
    /// Version of its module, as that calls itself.
    pub version: String,
    /// Hash of its module.
    pub hash: String,
    /// Since when this version runs, in seconds since 1970.
    pub since: f64,
    /// Keys by state.
    pub keys: [(&'static str, usize); 4],
    /// Whether its caches have synced.
    pub ready: bool,
    /// Bytes of linear memory of its instance.
    pub memory: usize,
    /// Counts since it was loaded, by name of the metric.
    pub counters: Vec<(&'static str, u64)>,
    /// How often it went past its limits, by limit.
    pub limit_hits: Vec<(String, u64)>,
    /// What was refused because it is not declared or not granted, by kind.
    pub refusals: Vec<(&'static str, u64)>,
}

impl Controllers {
    pub(super) fn new(of: &mut Registered<'_>) -> Self {
        let controller = &["controller"];
        Self { families: Arc::new(Families {
            guest: of.histogram(
                "coxswain_reconcile_duration_seconds",
                controller,
                &exponential(1e-6, 4.0, 12),
                "[ALPHA] How long a controller's module computed for a reconcile, in seconds.",
            ),
            reconciles: of.counter(
                "coxswain_reconciles_total",
                &["controller", "outcome"],
                "[ALPHA] Reconciles, by how they ended: plan, retry, terminal, fault, waiting (for a cache), superseded (by a swap).",
            ),
            faults: of.counter(
                "coxswain_module_faults_total",
                &["controller", "kind"],
                "[ALPHA] Reconciles that a module did not survive: trap, deadline, memory.",
            ),
            actions: of.counter(
                "coxswain_plan_actions_total",
                &["controller", "verb", "result"],
                "[ALPHA] Actions of plans, by verb and by what became of them: done, failed, unknown, halted.",
            ),
            barrier: of.histogram(
                "coxswain_barrier_wait_seconds",
                controller,
                &exponential(0.001, 4.0, 10),
                "[ALPHA] How long a key was held until the cache showed what it had written, in seconds.",
            ),
            managed: of.gauge(
                "running_managed_controllers",
                &["name", "manager"],
                "[BETA] Indicates where instances of a controller are currently running",
            ),
            keys: of.gauge(
                "coxswain_keys",
                &["controller", "state"],
                "[ALPHA] Keys by state: ready, working (or held by a barrier), delayed (until a time), backing_off.",
            ),
            ready: of.gauge(
                "coxswain_controller_ready",
                controller,
                "[ALPHA] Whether all that a controller reads is in the cache.",
            ),
            memory: of.gauge(
                "coxswain_module_memory_bytes",
                controller,
                "[ALPHA] Linear memory of a controller's instance, in bytes.",
            ),
            counters: COUNTERS.iter().map(|(name, help)| (*name, of.counter(name, controller, help))).collect(),
            limit_hits: of.counter(
                "coxswain_limit_hits_total",
                &["controller", "limit"],
                "[ALPHA] How often a controller went past a limit: what that cost is the reconcile, or the line of its log.",
            ),
            refusals: of.counter(
                "coxswain_refusals_total",
                &["controller", "what"],
                "[ALPHA] What was refused because the manifest does not declare or the policy does not grant it: keys, reads, plans, lookups, events.",
            ),
            info: of.gauge(
                "coxswain_module_info",
                &["controller", "version", "hash"],
                "[ALPHA] Always 1; the version and the hash of the module that runs.",
            ),
            last_swap: of.gauge_f64(
                "coxswain_module_started_timestamp_seconds",
                controller,
                "[ALPHA] Since when the version of a module that runs has done so, in seconds since 1970.",
            ),
        }) }
    }

    pub(super) fn get(&self, name: &str) -> ControllerSeries {
        ControllerSeries {
            name: name.into(),
            families: self.families.clone(),
            guest: self.families.guest.with_label_values(&[name]),
            barrier: self.families.barrier.with_label_values(&[name]),
        }
    }

    /// Fills in the state of the controllers that are loaded, and no others.
    pub(super) fn refresh(&self, controllers: &[Figures]) {
        let families = &self.families;
        families.managed.reset();
        families.keys.reset();
        families.ready.reset();
        families.memory.reset();
        families.limit_hits.reset();
        families.refusals.reset();
        families.counters.iter().for_each(|(_, counter)| counter.reset());
        families.info.reset();
        families.last_swap.reset();
        for one in controllers {
            let name = one.name.as_str();
            families.managed.with_label_values(&[name, MANAGER]).set(1);
            for (state, keys) in one.keys {
                families.keys.with_label_values(&[name, state]).set(keys as i64);
            }
            families.ready.with_label_values(&[name]).set(one.ready.into());
            families.memory.with_label_values(&[name]).set(one.memory as i64);
            for (counter, family) in &families.counters {
                let count =
                    one.counters.iter().find(|(known, _)| known == counter).map_or(0, |(_, count)| *count);
                family.with_label_values(&[name]).inc_by(count);
            }
            for (limit, hits) in &one.limit_hits {
                families.limit_hits.with_label_values(&[name, limit.as_str()]).inc_by(*hits);
            }
            for (what, times) in one.refusals.iter().filter(|(_, times)| *times > 0) {
                families.refusals.with_label_values(&[name, what]).inc_by(*times);
            }
            families.info.with_label_values(&[name, one.version.as_str(), one.hash.as_str()]).set(1);
            families.last_swap.with_label_values(&[name]).set(one.since);
        }
    }
}

impl ControllerSeries {
    /// A reconcile ended so; `guest` is how long the module computed.
    pub fn reconciled(&self, outcome: &str, guest: Duration) {
        self.families.reconciles.with_label_values(&[&self.name, outcome]).inc();
        self.guest.observe(guest.as_secs_f64());
    }

    /// A module did not survive a reconcile.
    pub fn faulted(&self, fault: &Fault) {
        let kind = match fault {
            Fault::Trap(_) => "trap",
            Fault::Deadline(_) => "deadline",
            Fault::Memory { .. } => "memory",
            Fault::Snapshot(_) => return,
        };
        self.families.faults.with_label_values(&[&self.name, kind]).inc();
    }

    /// An action was carried out, or not.
    pub fn acted(&self, verb: &str, result: &str) {
        self.families.actions.with_label_values(&[&self.name, verb, result]).inc();
    }

    /// A key was held by its barriers for so long.
    pub fn held(&self, waited: Duration) {
        self.barrier.observe(waited.as_secs_f64());
    }
}
