//! Work queues, as client-go measures them.

use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;
use prometheus::{GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use super::family::{Registered, exponential};

/// The series of one queue. Queues of the same name share them.
#[derive(Clone)]
pub struct QueueSeries {
    name: String,
    /// Keys that are ready.
    pub depth: IntGauge,
    /// Keys that became due.
    pub adds: IntCounter,
    /// How long a key was ready before it was taken, in seconds.
    pub latency: Histogram,
    /// How long it was worked on, in seconds, its barrier not included.
    pub work: Histogram,
    /// Keys that failed and will be tried again.
    pub retries: IntCounter,
}

impl QueueSeries {
    /// Name of the queue.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// All queues.
pub(super) struct Queues {
    depth: IntGaugeVec,
    adds: IntCounterVec,
    latency: HistogramVec,
    work: HistogramVec,
    unfinished: GaugeVec,
    longest: GaugeVec,
    retries: IntCounterVec,
    known: Mutex<BTreeMap<String, QueueSeries>>,
}

impl Queues {
    pub(super) fn new(of: &mut Registered<'_>) -> Self {
        let name = &["name"];
        let buckets = exponential(10e-9, 10.0, 10);
        Self {
            depth: of.gauge("workqueue_depth", name, "[BETA] Current depth of workqueue"),
            adds: of.counter("workqueue_adds_total", name, "[BETA] Total number of adds handled by workqueue"),
            latency: of.histogram(
                "workqueue_queue_duration_seconds",
                name,
                &buckets,
                "[BETA] How long in seconds an item stays in workqueue before being requested.",
            ),
            work: of.histogram(
                "workqueue_work_duration_seconds",
                name,
                &buckets,
                "[BETA] How long in seconds processing an item from workqueue takes.",
            ),
            unfinished: of.gauge_f64(
                "workqueue_unfinished_work_seconds",
                name,
                "[BETA] How many seconds of work has done that is in progress and hasn't been observed by work_duration. Large values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this increases.",
            ),
            longest: of.gauge_f64(
                "workqueue_longest_running_processor_seconds",
                name,
                "[BETA] How many seconds has the longest running processor for workqueue been running.",
            ),
            retries: of.counter("workqueue_retries_total", name, "[BETA] Total number of retries handled by workqueue"),
            known: Mutex::default(),
        }
    }

    pub(super) fn get(&self, name: &str) -> QueueSeries {
        let make = || QueueSeries {
            name: name.to_owned(),
            depth: self.depth.with_label_values(&[name]),
            adds: self.adds.with_label_values(&[name]),
            latency: self.latency.with_label_values(&[name]),
            work: self.work.with_label_values(&[name]),
            retries: self.retries.with_label_values(&[name]),
        };
        self.known.lock().entry(name.to_owned()).or_insert_with(make).clone()
    }

    /// Fills in what is under way: names of queues, and how long each key of
    /// them has been worked on.
    pub(super) fn refresh(&self, working: &[(String, Duration)]) {
        for name in self.known.lock().keys() {
            self.unfinished.with_label_values(&[name]).set(0.0);
            self.longest.with_label_values(&[name]).set(0.0);
        }
        for (name, since) in working {
            let seconds = since.as_secs_f64();
            self.unfinished.with_label_values(&[name]).add(seconds);
            let longest = self.longest.with_label_values(&[name]);
            longest.set(longest.get().max(seconds));
        }
    }
}
