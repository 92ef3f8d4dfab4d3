//! What a queue tells metrics.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

use super::{Place, Queue};
use crate::{key::Key, metrics::QueueSeries};

/// The series of each key source, and the keys that are worked on. Without
/// series nothing is measured.
#[derive(Default)]
pub(super) struct Measure {
    series: Vec<QueueSeries>,
    /// Keys that are worked on, and since when. Those that only wait for their
    /// barrier are not.
    working: HashMap<Key, Instant>,
}

impl Measure {
    fn of(&self, key: &Key) -> Option<&QueueSeries> {
        self.series.get(key.source as usize)
    }

    pub(super) fn added(&self, key: &Key) {
        if let Some(series) = self.of(key) {
            series.adds.inc();
        }
    }

    pub(super) fn ready(&self, key: &Key) {
        if let Some(series) = self.of(key) {
            series.depth.inc();
        }
    }

    pub(super) fn taken(&mut self, key: &Key, queued_at: Instant) {
        let now = Instant::now();
        if let Some(series) = self.of(key) {
            series.depth.dec();
            series.latency.observe(now.duration_since(queued_at).as_secs_f64());
            self.working.insert(key.clone(), now);
        }
    }

    pub(super) fn done(&mut self, key: &Key, now: Instant) {
        if let (Some(since), Some(series)) = (self.working.remove(key), self.of(key)) {
            series.work.observe(now.duration_since(since).as_secs_f64());
        }
    }

    pub(super) fn retried(&self, key: &Key) {
        if let Some(series) = self.of(key) {
            series.retries.inc();
        }
    }
}

impl Queue {
    /// Measures the keys of each source from now on, in the manifest's order.
    /// What is ready already moves along.
    pub fn measure(&self, series: Vec<QueueSeries>) {
        let mut inner = self.inner.lock();
        inner.move_depth(-1);
        inner.measure.series = series;
        inner.move_depth(1);
    }

    /// The work on a key is done; all that is left is to wait for its barrier.
    pub fn done(&self, key: &Key) {
        self.inner.lock().measure.done(key, Instant::now());
    }

    /// Keys that are worked on: the name of their queue, and for how long.
    pub fn working(&self) -> Vec<(String, Duration)> {
        let inner = self.inner.lock();
        let named = |key: &Key| inner.measure.of(key).map(|series| series.name().to_owned());
        let working = inner.measure.working.iter();
        working.filter_map(|(key, since)| Some((named(key)?, since.elapsed()))).collect()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.inner.get_mut().move_depth(-1);
    }
}

impl super::Inner {
    /// Measures no more until [`Queue::measure`].
    pub(super) fn stop_measuring(&mut self) {
        self.move_depth(-1);
        self.measure.series.clear();
    }

    /// Adds what is ready to the depths, so many times.
    pub(super) fn move_depth(&self, times: i64) {
        if self.measure.series.is_empty() {
            return;
        }
        let ready = self.entries.iter().filter(|(_, entry)| matches!(entry.place, Place::Ready(_)));
        for series in ready.filter_map(|(key, _)| self.measure.of(key)) {
            series.depth.add(times);
        }
    }
}
