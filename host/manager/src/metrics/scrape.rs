//! State that is filled in at a scrape.

use std::time::Duration;

use prometheus::{IntCounter, IntCounterVec, IntGaugeVec};

use super::{controller::Figures, family::Registered};

/// The state of a manager.
#[derive(Clone, Debug, Default)]
pub struct Scraped {
    /// The controllers that are loaded.
    pub controllers: Vec<Figures>,
    /// Keys being worked on: name of their queue, and for how long.
    pub queues: Vec<(String, Duration)>,
    /// The cache.
    pub resources: Vec<ResourceFigures>,
    /// The leases that are striven for.
    pub leases: Vec<LeaseFigures>,
    /// Files that are not loaded.
    pub refused: usize,
    /// Whether the API server answered when last asked what it serves.
    pub connected: bool,
    /// Events that were dropped since the start.
    pub events_dropped: u64,
    /// How often the clock jumped since the start.
    pub clock_jumps: u64,
}

/// One lease.
#[derive(Clone, Debug, Default)]
pub struct LeaseFigures {
    /// Its name.
    pub name: String,
    /// Whether we hold it.
    pub held: bool,
    /// Renewals that had to read it first.
    pub slow_renewals: u64,
    /// Terms begun.
    pub terms: u64,
    /// Terms that ended because it was lost.
    pub losses: u64,
}

/// One resource of the cache.
#[derive(Clone, Debug, Default)]
pub struct ResourceFigures {
    /// Its name.
    pub resource: String,
    /// State of its cache.
    pub state: &'static str,
    /// Objects in it.
    pub objects: usize,
    /// Bytes they take.
    pub bytes: usize,
    /// Lists so far.
    pub lists: u64,
    /// Watches so far.
    pub watches: u64,
}

pub(super) struct Gauges {
    objects: IntGaugeVec,
    bytes: IntGaugeVec,
    synced: IntGaugeVec,
    lists: IntCounterVec,
    watches: IntCounterVec,
    leader: IntGaugeVec,
    slow_renewals: IntCounterVec,
    terms: IntCounterVec,
    losses: IntCounterVec,
    refused: IntGaugeVec,
    connected: IntGaugeVec,
    dropped: IntCounter,
    clock_jumps: IntCounter,
}

impl Gauges {
    pub(super) fn new(of: &mut Registered<'_>) -> Self {
        let resource = &["resource"];
        let jumps_help =
            "[ALPHA] How often the clock was set by more than a second, or the machine suspended.";
        let dropped_help = "[ALPHA] Events that were dropped because too many waited to be written.";
        Self {
            objects: of.gauge("coxswain_cache_objects", resource, "[ALPHA] Objects in the cache."),
            bytes: of.gauge("coxswain_cache_bytes", resource, "[ALPHA] Bytes that the objects in the cache take."),
            synced: of.gauge(
                "coxswain_informer_state",
                &["resource", "state"],
                "[ALPHA] State of each cache: synced, syncing, failed, absent.",
            ),
            lists: of.counter("coxswain_informer_lists_total", resource, "[ALPHA] Complete lists since the informer began."),
            watches: of.counter("coxswain_informer_watches_total", resource, "[ALPHA] Watches opened since the informer began."),
            leader: of.gauge(
                "leader_election_master_status",
                &["name"],
                "[ALPHA] Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.",
            ),
            slow_renewals: of.counter(
                "leader_election_slowpath_total",
                &["name"],
                "[ALPHA] Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify the lease. Please make sure to group by name.",
            ),
            terms: of.counter("coxswain_leader_terms_total", &["name"], "[ALPHA] Terms of leadership that began here."),
            losses: of.counter(
                "coxswain_leader_losses_total",
                &["name"],
                "[ALPHA] Terms that ended because the lease was lost.",
            ),
            refused: of.gauge("coxswain_refused_modules", &[], "[ALPHA] Files in the directory that are not loaded, or whose new content is not."),
            connected: of.gauge(
                "coxswain_api_server_connected",
                &[],
                "[ALPHA] Whether the API server answered when last asked what it serves.",
            ),
            dropped: of.add(IntCounter::new("coxswain_events_dropped_total", dropped_help), dropped_help),
            clock_jumps: of.add(IntCounter::new("coxswain_clock_jumps_total", jumps_help), jumps_help),
        }
    }

    pub(super) fn refresh(&self, state: &Scraped) {
        for family in [&self.objects, &self.bytes, &self.synced, &self.leader] {
            family.reset();
        }
        self.lists.reset();
        self.watches.reset();
        for one in &state.resources {
            let name = &[one.resource.as_str()];
            self.objects.with_label_values(name).set(one.objects as i64);
            self.bytes.with_label_values(name).set(one.bytes as i64);
            self.synced.with_label_values(&[one.resource.as_str(), one.state]).set(1);
            self.lists.with_label_values(name).inc_by(one.lists);
            self.watches.with_label_values(name).inc_by(one.watches);
        }
        for counter in [&self.slow_renewals, &self.terms, &self.losses] {
            counter.reset();
        }
        for lease in &state.leases {
            let name = &[lease.name.as_str()];
            self.leader.with_label_values(name).set(lease.held.into());
            self.slow_renewals.with_label_values(name).inc_by(lease.slow_renewals);
            self.terms.with_label_values(name).inc_by(lease.terms);
            self.losses.with_label_values(name).inc_by(lease.losses);
        }
        self.refused.with_label_values::<&str>(&[]).set(state.refused as i64);
        self.connected.with_label_values::<&str>(&[]).set(state.connected.into());
        let new = state.events_dropped.saturating_sub(self.dropped.get());
        self.dropped.inc_by(new);
        self.clock_jumps.inc_by(state.clock_jumps.saturating_sub(self.clock_jumps.get()));
    }
}
