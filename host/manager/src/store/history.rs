//! What changed since the oldest snapshot that is still in use.
//!
//! In: changes and pins. Out: for a pin, what its objects looked like then, and
//! what a reconcile missed. Invariant: without pins nothing is kept, and a pin
//! holds up no writer.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;

use super::object::Record;

/// An object came, changed or went.
#[derive(Clone)]
pub(super) struct Change {
    pub(super) generation: u64,
    pub(super) old: Option<Arc<Record>>,
    pub(super) new: Option<Arc<Record>>,
}

impl Change {
    /// Any state of the object.
    pub(super) fn record(&self) -> Option<&Arc<Record>> {
        self.new.as_ref().or(self.old.as_ref())
    }

    /// Both states, old before new.
    pub(super) fn states(&self) -> impl Iterator<Item = &Arc<Record>> {
        self.old.iter().chain(&self.new)
    }

    /// Whether a view shows a difference.
    pub(super) fn is_seen_by(&self, view: usize) -> bool {
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => old.id != new.id || old.versions.get(view) != new.versions.get(view),
            _ => true,
        }
    }
}

/// The log of changes.
#[derive(Default)]
pub(super) struct History {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pins: BTreeMap<u64, usize>,
    log: VecDeque<Change>,
}

impl State {
    fn trim(&mut self) {
        match self.pins.first_key_value() {
            None => {
                self.log.clear();
                if self.log.capacity() > 4096 {
                    self.log.shrink_to_fit();
                }
            }
            Some((&oldest, _)) => {
                while self.log.front().is_some_and(|change| change.generation <= oldest) {
                    self.log.pop_front();
                }
            }
        }
    }
}

impl History {
    /// Notes a change, if anybody may ask for it.
    pub(super) fn record(&self, change: &Change) {
        let mut state = self.state.lock();
        if !state.pins.is_empty() {
            state.log.push_back(change.clone());
        }
    }

    /// Keeps a generation readable until the pin is dropped. Either the caller
    /// holds the store's lock, so that the generation is the current one, or
    /// somebody else pins it already.
    pub(super) fn pin(self: &Arc<Self>, generation: u64) -> Pin {
        *self.state.lock().pins.entry(generation).or_default() += 1;
        Pin { history: self.clone(), generation }
    }

    /// Shows the changes after a generation that is pinned, oldest first.
    pub(super) fn since(&self, generation: u64, mut each: impl FnMut(&Change)) {
        let state = self.state.lock();
        let start = state.log.partition_point(|change| change.generation <= generation);
        state.log.range(start..).for_each(&mut each);
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.state.lock().log.len()
    }
}

/// Holds a generation.
pub(super) struct Pin {
    history: Arc<History>,
    pub(super) generation: u64,
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut state = self.history.state.lock();
        if let Some(count) = state.pins.get_mut(&self.generation) {
            *count -= 1;
            if *count == 0 {
                state.pins.remove(&self.generation);
                state.trim();
            }
        }
    }
}
