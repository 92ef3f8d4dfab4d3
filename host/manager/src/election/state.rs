//! What an election tells about itself.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::record::Record;

/// What a process is under a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// It has not yet seen the lease.
    #[default]
    Candidate,
    /// It waits for the lease.
    Standby,
    /// It holds the lease.
    Leader,
}

/// One lease, for `coxswain status`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseStatus {
    /// Namespace and name.
    pub lease: String,
    /// What we are under it.
    pub role: Role,
    /// Who holds it; empty if nobody does.
    pub holder: String,
    /// Since when, as the holder says.
    pub since: String,
    /// How often it went from one holder to another.
    pub transitions: i64,
    /// What went wrong last; none since the last request that succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// Counts of one lease since the start.
#[derive(Debug, Default)]
pub struct ElectionCounters {
    /// Terms begun.
    pub terms: AtomicU64,
    /// Terms that ended because the lease was lost.
    pub losses: AtomicU64,
    /// Renewals that succeeded.
    pub renewals: AtomicU64,
    /// Renewals that had to read the lease first: client-go's
    /// `leader_election_slowpath_total`.
    pub slow_renewals: AtomicU64,
    /// Requests that failed, by status; 0 where there was no answer.
    failures: Mutex<BTreeMap<u32, u64>>,
}

impl ElectionCounters {
    pub(super) fn failed(&self, status: u32) {
        *self.failures.lock().entry(status).or_default() += 1;
    }

    /// Requests that failed, by status; 0 where there was no answer.
    pub fn failures(&self) -> BTreeMap<u32, u64> {
        self.failures.lock().clone()
    }
}

pub(super) fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl LeaseStatus {
    /// Notes what a Lease says. True if somebody else holds it now.
    pub(super) fn saw(&mut self, record: &Record) -> bool {
        let other = self.holder != record.holder_identity;
        self.holder.clone_from(&record.holder_identity);
        self.since.clone_from(&record.acquire_time);
        self.transitions = record.lease_transitions;
        other
    }
}
