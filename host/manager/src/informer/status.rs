//! How informers fare, for people to see.

use std::collections::{BTreeMap, HashSet};

use parking_lot::Mutex;

use crate::contract::{GroupResource, SyncState};

/// How one informer fares.
#[derive(Clone, Debug, serde::Serialize)]
pub struct InformerStatus {
    /// Number of the resource.
    pub number: u32,
    /// Its name.
    pub resource: GroupResource,
    /// How far its cache has come.
    pub state: SyncState,
    /// What is wrong, be it only for the moment.
    pub trouble: Option<String>,
    /// When `state` or `trouble` last changed.
    pub since: jiff::Timestamp,
    /// Complete lists so far.
    pub lists: u64,
    /// Watches opened so far.
    pub watches: u64,
}

/// The informers' statuses, by number of the resource.
#[derive(Default)]
pub(super) struct StatusTable(Mutex<BTreeMap<u32, InformerStatus>>);

impl StatusTable {
    /// Adds a resource, unless it is there already.
    pub(super) fn add(&self, number: u32, resource: GroupResource, state: SyncState, now: jiff::Timestamp) {
        let status =
            InformerStatus { number, resource, state, trouble: None, since: now, lists: 0, watches: 0 };
        self.0.lock().entry(number).or_insert(status);
    }

    /// Takes a resource away.
    pub(super) fn remove(&self, number: u32) {
        self.0.lock().remove(&number);
    }

    /// Takes all but these away.
    pub(super) fn retain(&self, keep: &HashSet<u32>) {
        self.0.lock().retain(|number, _| keep.contains(number));
    }

    /// Returns whether state or trouble are other than before.
    pub(super) fn set(
        &self,
        number: u32,
        state: SyncState,
        trouble: Option<String>,
        now: jiff::Timestamp,
    ) -> bool {
        let mut table = self.0.lock();
        let Some(status) = table.get_mut(&number) else { return false };
        if status.state == state && status.trouble == trouble {
            return false;
        }
        status.state = state;
        status.trouble = trouble;
        status.since = now;
        true
    }

    pub(super) fn count(&self, number: u32, lists: u64, watches: u64) {
        if let Some(status) = self.0.lock().get_mut(&number) {
            status.lists += lists;
            status.watches += watches;
        }
    }

    pub(super) fn all(&self) -> Vec<InformerStatus> {
        self.0.lock().values().cloned().collect()
    }
}
