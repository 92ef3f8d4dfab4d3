//! What controllers measure by themselves.
//!
//! In: the metrics that a manifest declares, the samples of a plan, and what
//! became of that plan. Out: series under the names that the manifest gives.
//! Invariants: a module cannot touch a metric of the host or of a module that
//! sees it differently; the number of series is bounded.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use prometheus::{
    CounterVec, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, core::Collector,
};

use super::family::Registered;
use crate::{
    contract::{ActionOutcome, ActionResult, Manifest, Measure, MetricKind, MetricSpec, Occasion, Sample},
    key::Key,
};

/// Series that one metric may have. Whoever makes more of them has a label that
/// names objects.
const MOST_SERIES: usize = 2000;

enum Family {
    Counter(CounterVec),
    Histogram(HistogramVec),
    Gauge(GaugeVec),
}

/// A metric that a module declared.
struct Metric {
    spec: MetricSpec,
    family: Family,
    series: Mutex<HashMap<Vec<String>, usize>>,
}

/// What a key of a controller has told of gauges.
type Parts = HashMap<(Arc<str>, Key), Vec<(Arc<Metric>, Vec<String>, f64)>>;

/// The metrics of all modules.
pub(super) struct Guests {
    registry: Registry,
    metrics: Mutex<BTreeMap<String, Arc<Metric>>>,
    parts: Mutex<Parts>,
    dropped: IntCounterVec,
}

/// What a reconcile came to, for its samples.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// Actions that did not simply succeed.
    pub results: &'a [ActionResult],
    /// Whether any action failed, or has an unknown outcome, or was not sent.
    pub failed: bool,
    /// Since the reconcile began.
    pub elapsed: Duration,
}

impl Moment<'_> {
    fn counts(&self, occasion: &Occasion) -> bool {
        match occasion {
            Occasion::Always => true,
            Occasion::Succeeded => !self.failed,
            Occasion::Failed => self.failed,
            Occasion::Done(tag) => self.results.iter().all(|result| result.tag != *tag),
            Occasion::Refused(tag) => {
                let tried = |result: &ActionResult| !matches!(result.result, ActionOutcome::Skipped);
                self.results.iter().any(|result| result.tag == *tag && tried(result))
            }
        }
    }
}

/// One controller's way to its metrics.
#[derive(Clone)]
pub struct Meter {
    controller: Arc<str>,
    guests: Arc<Guests>,
}

impl Guests {
    pub(super) fn new(registry: Registry, of: &mut Registered<'_>) -> Self {
        let dropped = of.counter(
            "coxswain_samples_dropped_total",
            &["controller", "reason"],
            "[ALPHA] Samples of modules that were not counted: undeclared, labels, value, series (too many), conflict (another module sees the metric differently).",
        );
        Self { registry, metrics: Mutex::default(), parts: Mutex::default(), dropped }
    }

    pub(super) fn meter(self: &Arc<Self>, controller: &str) -> Meter {
        Meter { controller: controller.into(), guests: self.clone() }
    }
}

impl Metric {
    fn new(spec: &MetricSpec, registry: &Registry) -> prometheus::Result<Self> {
        let labels: Vec<&str> = spec.labels.iter().map(String::as_str).collect();
        let help = if spec.help.is_empty() { &spec.name } else { &spec.help };
        let options = Opts::new(&spec.name, help);
        let (family, collector): (_, Box<dyn Collector>) = match spec.kind {
            MetricKind::Counter => {
                let vec = CounterVec::new(options, &labels)?;
                (Family::Counter(vec.clone()), Box::new(vec))
            }
            MetricKind::Gauge => {
                let vec = GaugeVec::new(options, &labels)?;
                (Family::Gauge(vec.clone()), Box::new(vec))
            }
            MetricKind::Histogram => {
                let options = HistogramOpts::new(&spec.name, help).buckets(spec.buckets.clone());
                let vec = HistogramVec::new(options, &labels)?;
                (Family::Histogram(vec.clone()), Box::new(vec))
            }
        };
        registry.register(collector)?;
        Ok(Self { spec: spec.clone(), family, series: Mutex::default() })
    }

    /// Makes room for a series. False if there are too many.
    fn admit(&self, labels: &[String]) -> bool {
        let mut series = self.series.lock();
        if let Some(uses) = series.get_mut(labels) {
            *uses += 1;
            return true;
        }
        if series.len() >= MOST_SERIES {
            return false;
        }
        series.insert(labels.to_vec(), 1);
        true
    }

    /// Takes a part of a gauge away; a series without parts goes.
    fn subtract(&self, labels: &[String], value: f64) {
        let Family::Gauge(gauge) = &self.family else { return };
        let mut series = self.series.lock();
        let Some(uses) = series.get_mut(labels) else { return };
        *uses -= 1;
        let gone = *uses == 0;
        if gone {
            series.remove(labels);
            // An error says that there is no such series.
            let _ = gauge.remove_label_values(labels);
        } else {
            gauge.with_label_values(labels).sub(value);
        }
    }
}

impl Meter {
    /// Makes the metrics that a manifest declares. One that is there already is
    /// kept if it is the same; else who was first keeps it.
    pub fn declare(&self, manifest: &Manifest) {
        let mut metrics = self.guests.metrics.lock();
        for spec in &manifest.metrics {
            if let Some(there) = metrics.get(&spec.name) {
                if !same(&there.spec, spec) {
                    tracing::warn!(controller = %self.controller, metric = spec.name, "the metric is there already with another kind, other labels or other buckets; what this version measures is not counted until a restart");
                }
                continue;
            }
            match Metric::new(spec, &self.guests.registry) {
                Ok(metric) => drop(metrics.insert(spec.name.clone(), Arc::new(metric))),
                Err(error) => {
                    tracing::warn!(controller = %self.controller, metric = spec.name, %error, "the metric cannot be kept");
                }
            }
        }
    }

    /// Counts the samples of a plan that was carried out.
    pub fn count(&self, manifest: &Manifest, key: &Key, samples: &[Sample], moment: Moment<'_>) {
        let mut parts = Vec::new();
        for sample in samples.iter().filter(|sample| moment.counts(&sample.if_)) {
            if let Err(reason) = self.one(manifest, sample, moment.elapsed, &mut parts) {
                self.guests.dropped.with_label_values(&[&*self.controller, reason]).inc();
            }
        }
        self.set_parts(key, parts);
    }

    /// Forgets the parts of a key that is no more.
    pub fn forget(&self, key: &Key) {
        self.set_parts(key, Vec::new());
    }

    /// Forgets the parts of all keys.
    pub fn clear(&self) {
        let mut parts = self.guests.parts.lock();
        let ours = parts.extract_if(|(controller, _), _| *controller == self.controller);
        for (metric, labels, value) in ours.flat_map(|(_, told)| told) {
            metric.subtract(&labels, value);
        }
    }

    fn one(
        &self,
        manifest: &Manifest,
        sample: &Sample,
        elapsed: Duration,
        parts: &mut Vec<(Arc<Metric>, Vec<String>, f64)>,
    ) -> Result<(), &'static str> {
        let declared = manifest.metrics.iter().find(|spec| spec.name == sample.metric).ok_or("undeclared")?;
        let metric = self.guests.metrics.lock().get(&sample.metric).cloned().ok_or("conflict")?;
        if !same(&metric.spec, declared) {
            return Err("conflict");
        }
        if sample.labels.len() != declared.labels.len() {
            return Err("labels");
        }
        let value = match sample.value {
            Measure::Number(number) => number,
            Measure::Elapsed => elapsed.as_secs_f64(),
        };
        if !value.is_finite() || (declared.kind == MetricKind::Counter && value < 0.0) {
            return Err("value");
        }
        if !metric.admit(&sample.labels) {
            return Err("series");
        }
        match &metric.family {
            Family::Counter(counter) => counter.with_label_values(&sample.labels).inc_by(value),
            Family::Histogram(histogram) => histogram.with_label_values(&sample.labels).observe(value),
            Family::Gauge(gauge) => {
                gauge.with_label_values(&sample.labels).add(value);
                parts.push((metric, sample.labels.clone(), value));
            }
        }
        Ok(())
    }

    /// Puts the parts of a key in the place of those it had.
    fn set_parts(&self, key: &Key, new: Vec<(Arc<Metric>, Vec<String>, f64)>) {
        let mut parts = self.guests.parts.lock();
        if parts.is_empty() && new.is_empty() {
            return;
        }
        let of = (self.controller.clone(), key.clone());
        let old = if new.is_empty() { parts.remove(&of) } else { parts.insert(of, new) };
        for (metric, labels, value) in old.into_iter().flatten() {
            metric.subtract(&labels, value);
        }
    }
}

/// Whether two declarations mean the same series. Their help may differ.
fn same(a: &MetricSpec, b: &MetricSpec) -> bool {
    a.kind == b.kind && a.labels == b.labels && a.buckets == b.buckets
}
