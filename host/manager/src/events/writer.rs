//! Writing one controller's events, one after the other.
//!
//! In: occurrences from the queue. Out: POSTs of new Events, PATCHes that count
//! old ones up. Invariant: only a request without an answer is repeated; what
//! the server refuses is given up.

use std::time::Duration;

use http::{Method, header};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    Occurrence, Queued,
    correlate::{Correlator, Names, Verdict},
};
use crate::{
    api::{ApiClient, ApiError},
    contract::EventKind,
    entropy::Entropy,
};

/// How often an event is tried.
const ATTEMPTS: u32 = 12;

/// The pause between two tries.
const PAUSE: Duration = Duration::from_secs(10);

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Writes what comes from the queue.
pub(super) struct Writer {
    api: ApiClient,
    entropy: Entropy,
    cancel: CancellationToken,
    correlator: Correlator,
}

impl Writer {
    pub(super) fn new(api: ApiClient, entropy: Entropy, cancel: CancellationToken, names: Names) -> Self {
        Self { api, entropy, cancel, correlator: Correlator::new(names) }
    }

    /// Runs until the queue closes. Once it is cancelled, each event is tried
    /// only once more.
    pub(super) async fn run(mut self, mut waiting: mpsc::Receiver<Queued>) {
        while let Some(event) = waiting.recv().await {
            self.write(&event).await;
        }
    }

    async fn write(&mut self, event: &Queued) {
        let Queued { occurrence, at, gate, .. } = event;
        let at = *at;
        let Some(verdict) = self.correlator.judge(occurrence, at) else { return };
        for attempt in 1..=ATTEMPTS {
            let (timeout, pass) = match gate.as_ref().map(|gate| gate.admit()) {
                None => (TIMEOUT, None),
                Some(Some(pass)) => (pass.bound(TIMEOUT), Some(pass)),
                Some(None) => {
                    tracing::debug!(
                        controller = occurrence.controller,
                        reason = occurrence.reason,
                        "no event: this process does not lead any more"
                    );
                    return;
                }
            };
            let error = match self.send(occurrence, &verdict, at, timeout).await {
                Ok(()) => {
                    self.correlator.wrote(verdict.identity, verdict.written);
                    return;
                }
                Err(error) => error,
            };
            drop(pass);
            let (controller, reason, message) =
                (&occurrence.controller, &occurrence.reason, &verdict.message);
            if terminating(&error) {
                tracing::debug!(controller, reason, message, "no event: its namespace is being deleted");
                return;
            }
            if error.failure.reason == "AlreadyExists" {
                // An earlier try got through after all.
                self.correlator.wrote(verdict.identity, verdict.written);
                return;
            }
            if !matches!(error.failure.status, 0 | 429 | 500..) {
                tracing::warn!(controller, reason, message, %error, "the server refused an event");
                return;
            }
            if attempt == ATTEMPTS || self.cancel.is_cancelled() {
                tracing::warn!(controller, reason, message, %error, "gave an event up");
                return;
            }
            // The first pause is of any length, so that many do not come back together.
            let pause = if attempt == 1 { PAUSE.mul_f64(self.entropy.next_fraction()) } else { PAUSE };
            tokio::select! {
                () = self.cancel.cancelled() => {}
                () = sleep(error.retry_after.unwrap_or(pause).min(PAUSE)) => {}
            }
        }
    }

    async fn send(
        &self,
        occurrence: &Occurrence,
        verdict: &Verdict,
        at: Timestamp,
        timeout: Duration,
    ) -> Result<(), ApiError> {
        // Two requests at most, which share the time.
        let timeout = if verdict.written.count > 1 { timeout / 2 } else { timeout };
        let namespace = namespace(occurrence);
        let collection = format!("/api/v1/namespaces/{namespace}/events");
        if verdict.written.count > 1 {
            let path = format!("{collection}/{}", verdict.written.name);
            let patch = json!({"count": verdict.written.count, "lastTimestamp": seconds(at), "message": verdict.message});
            match self
                .request(Method::PATCH, &path, "application/strategic-merge-patch+json", &patch, timeout)
                .await
            {
                // Events live an hour or so; it is written anew.
                Err(error) if error.failure.status == 404 => {}
                answer => return answer,
            }
        }
        self.request(Method::POST, &collection, "application/json", &object(occurrence, verdict, at), timeout)
            .await
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &Value,
        timeout: Duration,
    ) -> Result<(), ApiError> {
        let path = &format!("{path}?timeout={}ms", timeout.as_millis().max(1));
        let headers = [(header::CONTENT_TYPE, content_type), (header::ACCEPT, "application/json")];
        self.api.send(method, path, &headers, body.to_string().into(), timeout).await.map(drop)
    }
}

/// Whether a refusal says that the namespace is on its way out.
fn terminating(error: &ApiError) -> bool {
    error.failure.causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
}

/// Events about objects of the cluster go here.
fn namespace(occurrence: &Occurrence) -> &str {
    if occurrence.involved.namespace.is_empty() { "default" } else { &occurrence.involved.namespace }
}

/// A time as the API writes it.
fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn object(occurrence: &Occurrence, verdict: &Verdict, at: Timestamp) -> Value {
    let involved = &occurrence.involved;
    let mut about = json!({"apiVersion": involved.api_version, "kind": involved.kind, "name": involved.name});
    for (field, value) in [
        ("namespace", &involved.namespace),
        ("uid", &involved.uid),
        ("resourceVersion", &involved.resource_version),
    ] {
        if !value.is_empty() {
            about[field] = value.as_str().into();
        }
    }
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": verdict.written.name, "namespace": namespace(occurrence)},
        "involvedObject": about,
        "reason": occurrence.reason,
        "message": verdict.message,
        "type": match occurrence.kind { EventKind::Normal => "Normal", EventKind::Warning => "Warning" },
        "source": {"component": occurrence.component},
        "reportingComponent": occurrence.component,
        "reportingInstance": "",
        "firstTimestamp": seconds(verdict.written.first),
        "lastTimestamp": seconds(at),
        "count": verdict.written.count,
    })
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
