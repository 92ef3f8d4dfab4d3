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
    executor::Done,
    key::Key,
};

/// Series that one metric may have. Whoever makes more of them has a label that
/// names objects.
const MOST_SERIES: usize = 2000;
/// The same of a gauge, whose series go with the keys that tell of them.
const MOST_GAUGES: usize = 20_000;

enum Family {
    Counter(CounterVec),
    Histogram(HistogramVec),
    Gauge(GaugeVec),
}

/// A metric that a module declared.
struct Metric {
    spec: MetricSpec,
    family: Family,
    series: Mutex<HashMap<Vec<String>, Series>>,
}

/// A series of a metric.
#[derive(Default)]
struct Series {
    /// Parts of a gauge that are in it.
    parts: usize,
    /// Their sum, in units of 2^-60: what is taken away again leaves no trace.
    sum: i128,
}

/// Units of such a sum in 1.
const UNITS: f64 = (1u64 << 60) as f64;

/// What a key told of a gauge.
struct Part {
    metric: Arc<Metric>,
    labels: Vec<String>,
    value: f64,
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.metric, &other.metric) && self.labels == other.labels && self.value == other.value
    }
}

/// What a key of a controller has told of gauges.
type Parts = HashMap<(Arc<str>, Key), Vec<Part>>;

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
    /// Writes that took effect.
    pub done: &'a [Done],
    /// Ids of the lookups of the reconcile, and how long each took.
    pub lookups: &'a [(String, Duration)],
    /// Whether any action failed, or has an unknown outcome, or was not sent.
    pub failed: bool,
    /// Since the reconcile began.
    pub elapsed: Duration,
}

impl Moment<'_> {
    /// How often a sample of this occasion counts.
    fn times(&self, occasion: &Occasion) -> u32 {
        let counts = match occasion {
            Occasion::Always => true,
            Occasion::Succeeded => !self.failed,
            Occasion::Failed => self.failed,
            Occasion::Done(tag) => self.results.iter().all(|result| result.tag != *tag),
            Occasion::Refused(tag) => {
                let tried = |result: &&ActionResult| !matches!(result.result, ActionOutcome::Skipped);
                return saturated(self.results.iter().filter(|r| r.tag == *tag).filter(tried).count());
            }
            Occasion::Each(tag) => {
                return saturated(self.done.iter().filter(|done| done.tag == *tag).count());
            }
        };
        counts.into()
    }

    /// The number that a measure stands for, if there is one.
    fn number(&self, measure: &Measure) -> Option<f64> {
        match measure {
            Measure::Number(number) => Some(*number),
            Measure::Elapsed => Some(self.elapsed.as_secs_f64()),
            Measure::Lookup(id) => {
                self.lookups.iter().find(|(of, _)| of == id).map(|(_, took)| took.as_secs_f64())
            }
        }
    }
}

fn saturated(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
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
        let metric = Self { spec: spec.clone(), family, series: Mutex::default() };
        if spec.labels.is_empty() {
            metric.begin();
        }
        Ok(metric)
    }

    /// Has the one series of a metric without labels, at 0: what has not happened yet is a number too.
    fn begin(&self) {
        self.admit(&[]);
        let none: [&str; 0] = [];
        match &self.family {
            Family::Counter(counter) => drop(counter.with_label_values(&none)),
            Family::Histogram(histogram) => drop(histogram.with_label_values(&none)),
            Family::Gauge(gauge) => drop(gauge.with_label_values(&none)),
        }
    }

    /// Makes room for a series. False if there are too many.
    fn admit(&self, labels: &[String]) -> bool {
        let mut series = self.series.lock();
        if series.contains_key(labels) {
            return true;
        }
        let most = if matches!(self.family, Family::Gauge(_)) { MOST_GAUGES } else { MOST_SERIES };
        if series.len() >= most {
            return false;
        }
        series.insert(labels.to_vec(), Series::default());
        true
    }

    /// Adds a part of a gauge, or takes it away.
    fn change(&self, labels: &[String], value: f64, adds: bool) {
        let mut series = self.series.lock();
        let one = match series.get_mut(labels) {
            Some(one) => one,
            None if adds => series.entry(labels.to_vec()).or_default(),
            None => return,
        };
        let units = (value * UNITS) as i128;
        if adds {
            one.parts += 1;
            one.sum = one.sum.saturating_add(units);
        } else {
            one.parts = one.parts.saturating_sub(1);
            one.sum = one.sum.saturating_sub(units);
        }
    }

    /// Shows a gauge as it has become; a series without parts goes.
    fn publish(&self, labels: &[String]) {
        let Family::Gauge(gauge) = &self.family else { return };
        let mut series = self.series.lock();
        let Some(one) = series.get(labels) else { return };
        if one.parts > 0 || labels.is_empty() {
            gauge.with_label_values(labels).set(one.sum as f64 / UNITS);
        } else {
            series.remove(labels);
            // An error says that there is no such series.
            let _ = gauge.remove_label_values(labels);
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
        for sample in samples {
            let times = moment.times(&sample.if_);
            let Some(value) = moment.number(&sample.value).filter(|_| times > 0) else { continue };
            if let Err(reason) = self.one(manifest, sample, value, times, &mut parts) {
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
        let ours: Vec<Part> = ours.flat_map(|(_, told)| told).collect();
        ours.iter().for_each(|part| part.metric.change(&part.labels, part.value, false));
        ours.iter().for_each(|part| part.metric.publish(&part.labels));
    }

    fn one(
        &self,
        manifest: &Manifest,
        sample: &Sample,
        value: f64,
        times: u32,
        parts: &mut Vec<Part>,
    ) -> Result<(), &'static str> {
        let declared = manifest.metrics.iter().find(|spec| spec.name == sample.metric).ok_or("undeclared")?;
        let metric = self.guests.metrics.lock().get(&sample.metric).cloned().ok_or("conflict")?;
        if !same(&metric.spec, declared) {
            return Err("conflict");
        }
        if sample.labels.len() != declared.labels.len() {
            return Err("labels");
        }
        if !value.is_finite() || (declared.kind == MetricKind::Counter && value < 0.0) {
            return Err("value");
        }
        if !metric.admit(&sample.labels) {
            return Err("series");
        }
        match &metric.family {
            Family::Counter(counter) => {
                counter.with_label_values(&sample.labels).inc_by(value * f64::from(times));
            }
            Family::Histogram(histogram) => {
                let histogram = histogram.with_label_values(&sample.labels);
                (0..times).for_each(|_| histogram.observe(value));
            }
            Family::Gauge(_) => {
                let (labels, value) = (sample.labels.clone(), value * f64::from(times));
                parts.push(Part { metric, labels, value });
            }
        }
        Ok(())
    }

    /// Puts the parts of a key in the place of those it had. No scrape sees both.
    fn set_parts(&self, key: &Key, new: Vec<Part>) {
        let mut parts = self.guests.parts.lock();
        if parts.is_empty() && new.is_empty() {
            return;
        }
        let of = (self.controller.clone(), key.clone());
        if parts.get(&of).is_some_and(|old| *old == new) {
            return;
        }
        let old = parts.remove(&of).unwrap_or_default();
        new.iter().for_each(|part| part.metric.change(&part.labels, part.value, true));
        old.iter().for_each(|part| part.metric.change(&part.labels, part.value, false));
        new.iter().chain(&old).for_each(|part| part.metric.publish(&part.labels));
        if !new.is_empty() {
            parts.insert(of, new);
        }
    }
}

/// Whether two declarations mean the same series. Their help may differ.
fn same(a: &MetricSpec, b: &MetricSpec) -> bool {
    a.kind == b.kind && a.labels == b.labels && a.buckets == b.buckets
}
