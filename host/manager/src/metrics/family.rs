//! Making families of metrics.
//!
//! In: names, labels, help. Out: registered families, and how many there are of
//! each stability. Invariant: names are the host's own and each is registered
//! once, so that registering cannot fail at run time.

use std::collections::BTreeMap;

use prometheus::{
    GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry, core::Collector,
};

/// A registry being filled.
pub(super) struct Registered<'a> {
    registry: &'a Registry,
    stability: BTreeMap<String, u64>,
}

/// The stability that a help text begins with.
fn stability(help: &str) -> &str {
    help.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or("", |(stability, _)| stability)
}

impl<'a> Registered<'a> {
    pub(super) fn new(registry: &'a Registry) -> Self {
        Self { registry, stability: BTreeMap::new() }
    }

    /// Adds a family.
    #[allow(clippy::expect_used, reason = "names are constants; a test makes them all")]
    pub(super) fn add<C: Collector + Clone + 'static>(
        &mut self,
        made: prometheus::Result<C>,
        help: &str,
    ) -> C {
        let family = made.expect("a metric has a valid name and labels");
        self.registry.register(Box::new(family.clone())).expect("a metric is registered once");
        *self.stability.entry(stability(help).to_owned()).or_default() += 1;
        family
    }

    pub(super) fn counter(&mut self, name: &str, labels: &[&str], help: &str) -> IntCounterVec {
        self.add(IntCounterVec::new(Opts::new(name, help), labels), help)
    }

    pub(super) fn gauge(&mut self, name: &str, labels: &[&str], help: &str) -> IntGaugeVec {
        self.add(IntGaugeVec::new(Opts::new(name, help), labels), help)
    }

    pub(super) fn gauge_f64(&mut self, name: &str, labels: &[&str], help: &str) -> GaugeVec {
        self.add(GaugeVec::new(Opts::new(name, help), labels), help)
    }

    pub(super) fn histogram(
        &mut self,
        name: &str,
        labels: &[&str],
        buckets: &[f64],
        help: &str,
    ) -> HistogramVec {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.add(HistogramVec::new(options, labels), help)
    }

    /// Registers a collector of another's making.
    #[allow(clippy::expect_used, reason = "as `add`")]
    pub(super) fn collector(&mut self, collector: Box<dyn Collector>, families: u64) {
        self.registry.register(collector).expect("a metric is registered once");
        *self.stability.entry(String::new()).or_default() += families;
    }

    /// Tells how many families there are, as Kubernetes' programs do.
    pub(super) fn count(mut self) {
        let help =
            "[BETA] The count of registered metrics broken by stability level and deprecation version.";
        let counter =
            self.counter("registered_metrics_total", &["stability_level", "deprecated_version"], help);
        for (stability, families) in &self.stability {
            counter.with_label_values(&[stability.as_str(), ""]).inc_by(*families);
        }
    }
}

/// `count` buckets, each `factor` times as wide as the one before.
pub(super) fn exponential(start: f64, factor: f64, count: usize) -> Vec<f64> {
    std::iter::successors(Some(start), |bound| Some(bound * factor)).take(count).collect()
}
