//! The executor: the only writer.
//!
//! In: plans and lookups of one controller. Out: requests to the API server,
//! results, answers, events, and the barriers that hold the key until the cache
//! shows what was written. Invariants: nothing is sent of a plan that asks for
//! something undeclared; nothing is written while the gate is closed; a write
//! whose answer was lost is never carried out twice.

mod answer;
mod barrier;
mod cached;
mod check;
mod config;
mod dead;
mod effect;
mod instead;
mod limits;
mod lookups;
mod request;
mod rules;
mod run;
mod send;
mod settle;
pub mod signing;
pub(crate) mod tell;
mod write;

pub use barrier::{Barrier, Barriers, wait_passed};
pub use cached::{Cached, SeenBy, SharedCache};
pub use config::ExecutorConfig;
pub(crate) use rules::rbac_verb;
pub use signing::{NoSigningKeys, SigningKeys};

use std::{any::Any, sync::Arc, time::Duration};

use crate::{
    api::ApiClient,
    clock::SharedClock,
    contract::{ActionOutcome, ActionResult, Answer, Failure, Lookup, Plan},
    entropy::Entropy,
    events::EventRecorder,
    key::Key,
    registry::{Registry, is_wildcard},
};
use dead::Dead;
use instead::Unpatchable;
use limits::Limiter;
use lookups::Unsent;
use run::Run;

/// Whether this process may write: it leads.
pub trait WriteGate: Send + Sync {
    /// Asked directly before each request that writes; none if it may not be
    /// sent. The pass is held until the request has ended.
    fn admit(&self) -> Option<Pass>;

    /// Whether a request would be admitted now.
    fn may_write(&self) -> bool;
}

/// Leave to send one request that writes.
#[derive(Debug, Default)]
pub struct Pass {
    /// How long the request may take at most; none if nothing bounds it.
    pub within: Option<Duration>,
    /// Whoever gave it sees by this when it is given back.
    pub held: Option<Box<dyn Any + Send + Sync>>,
}

impl Pass {
    /// The time a request may take that would otherwise have `timeout`.
    pub fn bound(&self, timeout: Duration) -> Duration {
        self.within.map_or(timeout, |within| within.min(timeout))
    }
}

/// A write that succeeded.
#[derive(Clone, Debug)]
pub struct Done {
    /// Tag of its action.
    pub tag: String,
    /// Name of the object, the one that was made up for it included.
    pub name: String,
    /// The resourceVersion it led to; none if the object went away.
    pub version: Option<u64>,
}

/// What became of a plan.
#[derive(Clone, Debug, Default)]
pub struct Executed {
    /// Actions that did not simply succeed, in the plan's order.
    pub results: Vec<ActionResult>,
    /// What the cache must show before the key is reconciled again.
    pub barriers: Vec<Barrier>,
    /// Writes that succeeded, in the order in which they did.
    pub done: Vec<Done>,
    /// How many of them changed nothing.
    pub no_op_writes: u32,
    /// Whether any action failed or has an unknown outcome.
    pub failed: bool,
    /// Whether a step in which one failed changed something all the same.
    pub advanced: bool,
    /// Why nothing was sent at all: the plan asks for what it may not.
    pub invalid: Option<String>,
    /// Whether that is so because of the operator's policy alone.
    pub denied: bool,
    /// Whether the gate closed before all was sent.
    pub halted: bool,
    /// The highest resourceVersion that was written of the key's own object.
    pub primary_version: Option<u64>,
}

impl Executed {
    /// Whether conflicts are all that made it fail: what was read was behind.
    pub fn is_conflict(&self) -> bool {
        let conflicts = |outcome: &ActionOutcome| match outcome {
            ActionOutcome::Failed(failure) => is_conflict(failure),
            ActionOutcome::Unknown => false,
            ActionOutcome::Skipped => true,
        };
        self.failed && self.invalid.is_none() && self.results.iter().all(|result| conflicts(&result.result))
    }
}

/// Carries out what one controller decides.
pub struct Executor {
    shared: Arc<Shared>,
    cache: Arc<dyn Cached>,
    events: EventRecorder,
    entropy: Entropy,
}

/// What requests need; lookups outlive who asked for them.
struct Shared {
    config: ExecutorConfig,
    api: ApiClient,
    registry: Arc<Registry>,
    limiter: Limiter,
    unsent: Unsent,
    dead: Dead,
    unpatchable: Unpatchable,
}

impl Executor {
    /// An executor for one controller.
    pub fn new(
        config: ExecutorConfig,
        api: ApiClient,
        registry: Arc<Registry>,
        cache: Arc<dyn Cached>,
        events: EventRecorder,
        entropy: Entropy,
        _clock: SharedClock,
    ) -> Arc<Self> {
        let multiple = config.manifest.client_limits;
        let qps = config.qps * f64::from(multiple.qps.max(1));
        let limiter = Limiter::new(qps, config.burst.saturating_mul(multiple.burst.max(1)));
        let shared = Arc::new(Shared {
            config,
            api,
            registry,
            limiter,
            unsent: Unsent::default(),
            dead: Dead::default(),
            unpatchable: Unpatchable::default(),
        });
        Arc::new(Self { shared, cache, events, entropy })
    }

    /// Carries out a plan. Nothing of it is sent if any part of it is not
    /// allowed or makes no sense.
    pub async fn carry_out(
        &self,
        key: &Key,
        plan: Plan,
        view: &dyn SeenBy,
        gate: &Arc<dyn WriteGate>,
    ) -> Executed {
        if let Err(invalid) = check::check(&plan, &self.shared.config, &self.shared.registry, view) {
            return self.refuse_plan(key, &plan, invalid);
        }
        Run::new(self, key, &plan, view, gate).plan(&plan).await
    }

    /// Whether a plan could be carried out, as far as that can be seen without
    /// carrying it out. The error says why not.
    pub fn check(&self, plan: &Plan, view: &dyn SeenBy) -> Result<(), String> {
        check::check(plan, &self.shared.config, &self.shared.registry, view).map_err(|invalid| invalid.reason)
    }

    /// Nothing is sent, and the module is told which of its actions is to blame.
    fn refuse_plan(&self, key: &Key, plan: &Plan, invalid: check::Invalid) -> Executed {
        let check::Invalid { reason, tag, forbidden, denied } = invalid;
        tracing::warn!(controller = self.shared.config.controller, %key, reason, "refused a plan");
        let grants = &self.shared.config.grants;
        if forbidden {
            grants.refusals.writes.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        let failure = refused(if forbidden { "Forbidden" } else { "Invalid" }, reason.clone());
        let mut blamed = false;
        let result = |action: &crate::contract::Action| {
            let first = !blamed && tag.as_ref() == Some(&action.tag);
            blamed |= first;
            let result = if first { ActionOutcome::Failed(failure.clone()) } else { ActionOutcome::Skipped };
            ActionResult { tag: action.tag.clone(), result }
        };
        let results = plan.steps.iter().flat_map(|step| &step.actions).map(result).collect();
        Executed { failed: true, invalid: Some(reason), denied, results, ..Executed::default() }
    }

    /// Answers lookups, each with a request sent after this call began.
    pub async fn look_up(&self, asks: Vec<Lookup>) -> Vec<Answer> {
        self.look_up_timed(asks).await.into_iter().map(|(answer, _)| answer).collect()
    }

    /// The same, and how long each took.
    pub async fn look_up_timed(&self, asks: Vec<Lookup>) -> Vec<(Answer, Duration)> {
        self.shared.look_up(asks).await
    }

    /// Waits until the cache shows what a key wrote.
    pub async fn wait_passed(&self, key: &Key, barriers: &mut Barriers) {
        wait_passed(barriers, &*self.cache, &self.shared.config.controller, key).await;
    }

    /// What barriers wait for, in words.
    pub fn describe(&self, barriers: &Barriers) -> String {
        barriers.describe(&*self.cache)
    }

    /// Whether the module reads a resource, so that the cache will show what is
    /// written to it.
    fn reads(&self, resource: u32) -> bool {
        let registry = &self.shared.registry;
        let Some(name) = registry.name(resource) else { return false };
        let mut reads = self.shared.config.manifest.reads.iter().map(|read| &read.resource);
        reads.any(|read| if is_wildcard(read) { registry.in_wildcard(resource) } else { *read == name })
    }
}

/// A refusal of the host's own: no request was sent.
pub(crate) fn refused(reason: &str, message: impl Into<String>) -> Failure {
    Failure { status: 0, reason: reason.to_owned(), message: message.into(), causes: Vec::new() }
}

/// Whether a precondition did not hold, or the object was written by somebody else meanwhile.
fn is_conflict(failure: &Failure) -> bool {
    failure.status == 409 && failure.reason == "Conflict"
}

/// A conflict that the host found by itself.
fn conflict(message: &str) -> Failure {
    Failure { status: 409, reason: "Conflict".to_owned(), message: message.to_owned(), causes: Vec::new() }
}

#[cfg(test)]
mod tests;
