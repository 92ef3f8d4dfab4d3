//! Requests to the API server, as client-go measures them.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec};

use super::family::Registered;

const SECONDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// 64 bytes to 16 MB.
const BYTES: [f64; 11] =
    [64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0];

/// Requests to one API server. Durations are in seconds, sizes in bytes.
pub struct ClientMetrics {
    host: String,
    requests: IntCounterVec,
    duration: HistogramVec,
    limiter: HistogramVec,
    request_size: HistogramVec,
    response_size: HistogramVec,
    retries: IntCounterVec,
    priorities: IntCounterVec,
}

impl ClientMetrics {
    pub(super) fn new(server: &str, of: &mut Registered<'_>) -> Self {
        let verb_host = &["verb", "host"];
        Self {
            host: host(server),
            requests: of.counter(
                "rest_client_requests_total",
                &["code", "method", "host"],
                "[ALPHA] Number of HTTP requests, partitioned by status code, method, and host.",
            ),
            duration: of.histogram(
                "rest_client_request_duration_seconds",
                verb_host,
                &SECONDS,
                "[ALPHA] Request latency in seconds. Broken down by verb, and host.",
            ),
            limiter: of.histogram(
                "rest_client_rate_limiter_duration_seconds",
                verb_host,
                &SECONDS,
                "[ALPHA] Client side rate limiter latency in seconds. Broken down by verb, and host.",
            ),
            request_size: of.histogram(
                "rest_client_request_size_bytes",
                verb_host,
                &BYTES,
                "[ALPHA] Request size in bytes. Broken down by verb and host.",
            ),
            response_size: of.histogram(
                "rest_client_response_size_bytes",
                verb_host,
                &BYTES,
                "[ALPHA] Response size in bytes. Broken down by verb and host.",
            ),
            retries: of.counter(
                "rest_client_request_retries_total",
                &["code", "verb", "host"],
                "[ALPHA] Number of request retries, partitioned by status code, verb, and host.",
            ),
            priorities: of.counter(
                "coxswain_api_priority_requests_total",
                &["flow_schema", "priority_level", "code"],
                "[ALPHA] Requests by the uids of the FlowSchema and of the PriorityLevelConfiguration that the API server took them for, and by status code; 429 is a request that it had no room for.",
            ),
        }
    }

    /// A request that was sent: its answer's status, or none where there was no
    /// answer.
    pub fn sent(&self, method: &str, status: Option<u16>, took: Duration, request_bytes: usize) {
        let code = status.map_or_else(|| "<error>".to_owned(), |status| status.to_string());
        self.requests.with_label_values(&[code.as_str(), method, &self.host]).inc();
        self.duration.with_label_values(&[method, &self.host]).observe(took.as_secs_f64());
        self.request_size.with_label_values(&[method, &self.host]).observe(request_bytes as f64);
    }

    /// What the API server took a request for.
    pub fn classified(&self, flow_schema: &str, priority_level: &str, status: u16) {
        self.priorities.with_label_values(&[flow_schema, priority_level, &status.to_string()]).inc();
    }

    /// An answer that was read to its end.
    pub fn received(&self, method: &str, bytes: usize) {
        self.response_size.with_label_values(&[method, &self.host]).observe(bytes as f64);
    }

    /// A request that waited for its controller's rate limit.
    pub fn limited(&self, method: &str, waited: Duration) {
        self.limiter.with_label_values(&[method, &self.host]).observe(waited.as_secs_f64());
    }

    /// A request that is sent again after this answer.
    pub fn retried(&self, method: &str, status: u32) {
        let code = if status == 0 { "<error>".to_owned() } else { status.to_string() };
        self.retries.with_label_values(&[code.as_str(), method, &self.host]).inc();
    }
}

/// Host and port of a URL.
fn host(server: &str) -> String {
    let uri = server.parse::<http::Uri>().ok();
    uri.and_then(|uri| uri.authority().map(ToString::to_string)).unwrap_or_else(|| server.to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_host_is_what_client_go_takes_for_one() {
        for (server, host) in [
            ("https://10.0.0.1:6443/", "10.0.0.1:6443"),
            ("https://api.example/prefix", "api.example"),
            ("https://[::1]:6443", "[::1]:6443"),
        ] {
            assert_eq!(super::host(server), host);
        }
    }
}
