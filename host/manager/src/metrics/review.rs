//! Who asks us, and what we ask the API server about them.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec};

use super::family::Registered;

const SECONDS: [f64; 8] = [0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0];

/// Reviews of tokens and of access, and their outcome.
pub struct ReviewMetrics {
    authn: IntCounterVec,
    authn_duration: HistogramVec,
    authz: IntCounterVec,
    authz_duration: HistogramVec,
    /// Requests to our endpoints, by how who sent them was recognised and what
    /// became of them.
    pub requests: IntCounterVec,
    /// Times that certificates or authorities could not be loaded anew.
    pub reload_failures: IntCounterVec,
    /// When the certificate that is served expires, in seconds since 1970.
    pub certificate_expiry: prometheus::IntGaugeVec,
}

impl ReviewMetrics {
    pub(super) fn new(of: &mut Registered<'_>) -> Self {
        let count = "[ALPHA] Number of HTTP requests partitioned by status code.";
        let latency = "[ALPHA] Request latency in seconds. Broken down by status code.";
        Self {
            authn: of.counter("apiserver_delegated_authn_request_total", &["code"], count),
            authn_duration: of.histogram(
                "apiserver_delegated_authn_request_duration_seconds",
                &["code"],
                &SECONDS,
                latency,
            ),
            authz: of.counter("apiserver_delegated_authz_request_total", &["code"], count),
            authz_duration: of.histogram(
                "apiserver_delegated_authz_request_duration_seconds",
                &["code"],
                &SECONDS,
                latency,
            ),
            requests: of.counter(
                "coxswain_endpoint_requests_total",
                &["method", "code"],
                "[ALPHA] Requests to the endpoints, by how their sender was recognised and by status code.",
            ),
            reload_failures: of.counter(
                "coxswain_certificate_reload_failures_total",
                &["what"],
                "[ALPHA] Times that a certificate or an authority could not be read again; what was read before stays in use.",
            ),
            certificate_expiry: of.gauge(
                "coxswain_serving_certificate_expiry_timestamp_seconds",
                &[],
                "[ALPHA] When the certificate of the endpoints expires, in seconds since 1970.",
            ),
        }
    }

    /// A review of a token; status 0: no answer.
    pub fn authentication(&self, status: u32, took: Duration) {
        observe(&self.authn, &self.authn_duration, status, took);
    }

    /// A review of access; status 0: no answer.
    pub fn authorization(&self, status: u32, took: Duration) {
        observe(&self.authz, &self.authz_duration, status, took);
    }
}

fn observe(count: &IntCounterVec, duration: &HistogramVec, status: u32, took: Duration) {
    let code = if status == 0 { "<error>".to_owned() } else { status.to_string() };
    count.with_label_values(&[code.as_str()]).inc();
    duration.with_label_values(&[code.as_str()]).observe(took.as_secs_f64());
}
