//! What the last reconciles of a controller came to, for people to see.
//!
//! Invariant: as many as [`KEPT`] are kept, whatever their number.

use std::collections::VecDeque;

use parking_lot::Mutex;
use serde::Serialize;

use crate::{
    contract::{Outcome, Plan},
    engine::Fault,
};

/// Reconciles that are kept.
const KEPT: usize = 256;

/// One reconcile.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Recent {
    /// The key.
    pub key: String,
    /// When its last round ended.
    pub at: jiff::Timestamp,
    /// How long the module computed, in microseconds.
    pub guest_micros: u64,
    /// Objects that it listed or got, as far as their number is known.
    pub reads: usize,
    /// What it came to.
    pub outcome: String,
}

/// The last reconciles.
#[derive(Default)]
pub(super) struct RecentList(Mutex<VecDeque<Recent>>);

impl RecentList {
    pub(super) fn add(&self, recent: Recent) {
        let mut list = self.0.lock();
        list.truncate(KEPT - 1);
        list.push_front(recent);
    }

    /// The newest first.
    pub(super) fn all(&self) -> Vec<Recent> {
        self.0.lock().iter().cloned().collect()
    }
}

/// What a round came to, in a line.
pub(super) fn describe(result: &Result<Outcome, Fault>) -> String {
    match result {
        Ok(Outcome::Plan(plan)) => describe_plan(plan),
        Ok(Outcome::Lookups(asks)) => format!("asks {} lookups", asks.len()),
        Ok(Outcome::Retry(reason)) => format!("retry: {reason}"),
        Ok(Outcome::Terminal(reason)) => format!("terminal: {reason}"),
        Err(fault) => fault.to_string(),
    }
}

/// Whether a round asked for nothing.
pub(super) fn is_for_nothing(result: &Result<Outcome, Fault>) -> bool {
    matches!(result, Ok(Outcome::Plan(plan)) if plan.steps.iter().all(|step| step.actions.is_empty()))
}

fn describe_plan(plan: &Plan) -> String {
    let actions: usize = plan.steps.iter().map(|step| step.actions.len()).sum();
    let mut text = match actions {
        0 => "nothing to do".to_owned(),
        _ => {
            let named = plan.steps.iter().flat_map(|step| &step.actions).take(3);
            let named: Vec<String> = named.map(|a| format!("{} {}/{}", a.tag, a.namespace, a.name)).collect();
            format!("{actions} actions: {}", named.join(", "))
        }
    };
    if let Some(at) = plan.not_before {
        text.push_str(&format!("; back at {}", crate::clock::from_wire(at)));
    }
    text
}
