//! What the process measures, in Prometheus' text form.
//!
//! In: observations from where the work is done, and, at a scrape, the state of
//! the manager. Out: the series that alert rules and dashboards for
//! kube-controller-manager know, under their names, types, labels and buckets
//! (<https://kubernetes.io/docs/reference/instrumentation/metrics/>), and our
//! own beside them, which begin with `coxswain_`. The help of a metric begins
//! with its stability, as in Kubernetes.

mod client;
mod controller;
mod family;
mod guest;
mod health;
mod labels;
mod process;
mod queue;
mod review;
mod scrape;

use std::{collections::HashSet, sync::Arc};

use parking_lot::Mutex;
use prometheus::{Encoder, Registry, TextEncoder};

pub use client::ClientMetrics;
pub use controller::{ControllerSeries, Figures, counted};
pub use guest::{Meter, Moment};
pub use health::HealthMetrics;
pub use labels::AllowedLabels;
pub use queue::QueueSeries;
pub use review::ReviewMetrics;
pub use scrape::{LeaseFigures, ResourceFigures, Scraped};

use family::Registered;

/// Content type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Everything that one manager measures.
pub struct Metrics {
    registry: Registry,
    disabled: HashSet<String>,
    labels: AllowedLabels,
    /// Requests to the API server.
    pub client: Arc<ClientMetrics>,
    /// Health checks, which are scraped apart.
    pub health: HealthMetrics,
    /// Reviews asked of the API server for those who ask us.
    pub reviews: ReviewMetrics,
    queues: queue::Queues,
    controllers: controller::Controllers,
    guests: Arc<guest::Guests>,
    scrape: scrape::Gauges,
    features: prometheus::IntGaugeVec,
    /// Scrapes one after the other: gauges of state are filled in for each.
    scraping: Mutex<()>,
}

impl Metrics {
    /// Metrics of a process that talks to `server`, without those that are
    /// `disabled`.
    pub fn new(server: &str, disabled: impl IntoIterator<Item = String>) -> Arc<Self> {
        Self::with_labels(server, disabled, AllowedLabels::default())
    }

    /// The same, with bounds to what labels may be.
    pub fn with_labels(
        server: &str,
        disabled: impl IntoIterator<Item = String>,
        labels: AllowedLabels,
    ) -> Arc<Self> {
        let registry = Registry::new();
        let mut of = Registered::new(&registry);
        let metrics = Self {
            disabled: disabled.into_iter().collect(),
            labels,
            client: Arc::new(ClientMetrics::new(server, &mut of)),
            health: HealthMetrics::new(&mut of),
            reviews: ReviewMetrics::new(&mut of),
            queues: queue::Queues::new(&mut of),
            controllers: controller::Controllers::new(&mut of),
            guests: Arc::new(guest::Guests::new(registry.clone(), &mut of)),
            scrape: scrape::Gauges::new(&mut of),
            features: of.gauge(
                "kubernetes_feature_enabled",
                &["name", "stage"],
                "[BETA] This metric records the data about the stage and enablement of a k8s feature.",
            ),
            scraping: Mutex::default(),
            registry: registry.clone(),
        };
        process::register(&mut of);
        of.count();
        Arc::new(metrics)
    }

    /// The series of the queue of this name.
    pub fn queue(&self, name: &str) -> QueueSeries {
        self.queues.get(name)
    }

    /// The series of a controller.
    pub fn controller(&self, name: &str) -> ControllerSeries {
        self.controllers.get(name)
    }

    /// Whether a feature is on, and how far it has come: `ALPHA`, `BETA`,
    /// `DEPRECATED` or, once it is there for all, nothing.
    pub fn feature(&self, name: &str, stage: &str, on: bool) {
        self.features.with_label_values(&[name, stage]).set(on.into());
    }

    /// What a controller measures by itself.
    pub fn meter(&self, controller: &str) -> Meter {
        self.guests.meter(controller)
    }

    /// Everything, as text. `state` tells what is not observed as it happens.
    pub fn text(&self, state: &Scraped) -> String {
        let _one = self.scraping.lock();
        self.queues.refresh(&state.queues);
        self.controllers.refresh(&state.controllers);
        self.scrape.refresh(state);
        let families = self.registry.gather();
        let disabled = |name: &str| self.disabled.contains(name);
        let mut kept: Vec<_> = families.into_iter().filter(|family| !disabled(family.name())).collect();
        self.labels.apply(&mut kept);
        encode(&kept)
    }
}

/// Families as text. They were checked when they were registered.
fn encode(families: &[prometheus::proto::MetricFamily]) -> String {
    let mut text = Vec::with_capacity(1 << 17);
    if let Err(error) = TextEncoder::new().encode(families, &mut text) {
        tracing::error!(%error, "metrics cannot be written");
    }
    String::from_utf8(text).unwrap_or_default()
}

#[cfg(test)]
mod tests;
