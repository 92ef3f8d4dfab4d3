//! Asking a module by itself, without a manager around it.

use std::sync::Arc;

use coxswain::{
    contract::{Level, Request, Timestamp},
    engine::LogSink,
    key::Key,
    store::{ModuleView, Snapshot},
};

/// A log that nobody reads.
pub struct Silence;

impl LogSink for Silence {
    fn log(&self, _: Level, _: &str) {}
}

/// The question of a key's first reconcile, without state and results.
pub fn request(
    view: &Arc<ModuleView>,
    snapshot: &Snapshot,
    key: &Key,
    seconds: u32,
    options: &[String],
) -> Request {
    Request {
        key: key.into(),
        primary: snapshot.primary(),
        resources: view.resources(),
        now: Timestamp { seconds, millis: 0 },
        seed: (1, 2),
        state: None,
        state_format: 1,
        results: Vec::new(),
        answers: Vec::new(),
        options: options.to_vec(),
    }
}
