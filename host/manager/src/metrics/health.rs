//! Health checks, for `/metrics/slis`.

use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};

use super::family::Registered;

/// Health checks. They are in a registry of their own, which is scraped at
/// `/metrics/slis`, and in `/metrics` too.
pub struct HealthMetrics {
    slis: Registry,
    health: IntGaugeVec,
    total: IntCounterVec,
}

impl HealthMetrics {
    #[allow(clippy::expect_used, reason = "names are constants; a test makes them all")]
    pub(super) fn new(of: &mut Registered<'_>) -> Self {
        let health_help = "[STABLE] This metric records the result of a single healthcheck.";
        let total_help = "[STABLE] This metric records the results of all healthcheck.";
        let health = of.add(
            IntGaugeVec::new(Opts::new("kubernetes_healthcheck", health_help), &["name", "type"]),
            health_help,
        );
        let total = of.add(
            IntCounterVec::new(
                Opts::new("kubernetes_healthchecks_total", total_help),
                &["name", "type", "status"],
            ),
            total_help,
        );
        let slis = Registry::new();
        slis.register(Box::new(health.clone())).expect("registered once");
        slis.register(Box::new(total.clone())).expect("registered once");
        Self { slis, health, total }
    }

    /// Notes the result of a check; `kind` is the endpoint, such as `healthz`.
    pub fn observe(&self, name: &str, kind: &str, good: bool) {
        self.health.with_label_values(&[name, kind]).set(good.into());
        self.total.with_label_values(&[name, kind, if good { "success" } else { "error" }]).inc();
    }

    /// The checks alone, as text.
    pub fn text(&self) -> String {
        super::encode(&self.slis.gather())
    }
}
