//! The recent past of one resource: what watches replay and what pages of a list look back into.
//!
//! In: events in order of version. Out: events after a version. Invariant: it is whole from `floor` on; a version below
//! the floor is refused, never answered with a gap.

use std::collections::VecDeque;
use std::sync::Arc;

use super::object::{Change, Stored};

/// One change of one object.
#[derive(Debug)]
pub struct Event {
    /// Version of the change.
    pub rv: u64,
    /// What happened.
    pub change: Change,
    /// `namespace/name` or `name`.
    pub key: Arc<str>,
    /// The object after it; for a deletion the last state under the version of the deletion.
    pub object: Arc<Stored>,
    /// The object before it.
    pub previous: Option<Arc<Stored>>,
}

/// How much past is kept of each resource.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimits {
    /// Events.
    pub events: usize,
    /// Bytes of encoded objects.
    pub bytes: usize,
}

impl Default for HistoryLimits {
    fn default() -> Self {
        Self { events: 32 * 1024, bytes: 48 << 20 }
    }
}

/// The version asked for is older than what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// The oldest version that can still be asked for.
    pub floor: u64,
}

pub(super) struct History {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    floor: u64,
    limits: HistoryLimits,
}

impl History {
    pub(super) fn new(floor: u64, limits: HistoryLimits) -> Self {
        Self { events: VecDeque::new(), bytes: 0, floor, limits }
    }

    pub(super) fn push(&mut self, event: Event) {
        self.bytes += event.object.size();
        self.events.push_back(Arc::new(event));
        while self.events.len() > self.limits.events
            || (self.bytes > self.limits.bytes && self.events.len() > 1)
        {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(event) = self.events.pop_front() {
            self.bytes -= event.object.size();
            self.floor = event.rv;
        }
    }

    /// Forgets everything up to and including `rv`.
    pub(super) fn compact(&mut self, rv: u64) {
        while self.events.front().is_some_and(|event| event.rv <= rv) {
            self.drop_oldest();
        }
        self.floor = self.floor.max(rv);
    }

    /// Events newer than `rv`, oldest first.
    pub(super) fn after(
        &self,
        rv: u64,
    ) -> Result<impl DoubleEndedIterator<Item = &Arc<Event>> + ExactSizeIterator, Compacted> {
        if rv < self.floor {
            return Err(Compacted { floor: self.floor });
        }
        let start = self.events.partition_point(|event| event.rv <= rv);
        Ok(self.events.range(start..))
    }
}
