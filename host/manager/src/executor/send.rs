//! Sending one request, as often as the server asks us to.
//!
//! Invariant: the gate is asked directly before each request that writes.

use std::time::Duration;

use http::{Method, header};

use super::{Executor, WriteGate, answer::Head, request::WriteRequest};
use crate::api::{ApiError, Response};

/// How often a request that is told to wait is sent again; client-go's number.
const THROTTLED: u32 = 10;

/// The wait where the server names none.
const DEFAULT_WAIT: Duration = Duration::from_secs(1);

/// The longest wait that is sat out; what takes longer is a failure, and the
/// key's backoff takes over.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// How often a read that got no answer is sent again.
const READ_AGAIN: u32 = 2;

/// Accept header for metadata alone. A server that cannot do that gives all.
pub(super) const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Accept header for metadata of a list.
pub(super) const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// What came of sending a write.
pub(super) enum Reply {
    /// It was done.
    Done(Response),
    /// It was refused, for certain.
    Refused(ApiError),
    /// Nobody can tell.
    Lost(ApiError),
    /// The server failed, most likely before it did anything.
    Broken(ApiError),
    /// It was not sent: the gate is closed.
    Halted,
}

/// How long to wait before sending again, if the server asked for that.
fn throttled(error: &ApiError) -> Option<Duration> {
    let wait = match error.failure.status {
        429 => error.retry_after.unwrap_or(DEFAULT_WAIT),
        503 => error.retry_after?,
        _ => return None,
    };
    (wait <= LONGEST_WAIT).then_some(wait)
}

/// The pause before an attempt after one without an answer.
pub(super) fn pause(attempt: u32) -> Duration {
    Duration::from_millis(200).saturating_mul(4u32.saturating_pow(attempt.saturating_sub(1)))
}

impl Executor {
    /// Sends a write.
    pub(super) async fn send_write(&self, request: &WriteRequest, gate: &dyn WriteGate) -> Reply {
        let headers = [(header::CONTENT_TYPE, request.content_type), (header::ACCEPT, request.accept)];
        let mut waits = 0;
        loop {
            self.shared.limited(&request.method, self.shared.limiter.write()).await;
            let Some(pass) = gate.admit() else { return Reply::Halted };
            let timeout = pass.bound(self.shared.config.request_timeout);
            let sent = self
                .shared
                .api
                .send(
                    request.method.clone(),
                    &request.path_within(timeout),
                    &headers,
                    request.body.clone(),
                    timeout,
                )
                .await;
            drop(pass);
            let error = match sent {
                Ok(response) => return Reply::Done(response),
                Err(error) => error,
            };
            if let Some(wait) = throttled(&error)
                && waits < THROTTLED
            {
                waits += 1;
                self.shared.retried(&request.method, &error);
                tokio::time::sleep(wait).await;
                continue;
            }
            return match error.failure.status {
                0 | 502 | 504 => Reply::Lost(error),
                500 | 503 => Reply::Broken(error),
                _ => Reply::Refused(error),
            };
        }
    }

    /// Reads what a lost write may have done. None: there is no such object.
    pub(super) async fn live(&self, path: &str, accept: &str) -> Result<Option<Response>, ApiError> {
        match self.shared.read(Method::GET, path, accept, bytes::Bytes::new(), Turn::Write).await {
            Ok(response) => Ok(Some(response)),
            Err(error) if error.failure.status == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads an object's metadata.
    pub(super) async fn live_head(&self, path: &str) -> Result<Option<Head>, ApiError> {
        Ok(self.live(path, METADATA).await?.map(|response| Head::parse(&response.body)))
    }
}

/// Whose turn with the rate limit a read takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It settles a write.
    Write,
    /// It is a lookup, which has taken the first turn already.
    Taken,
}

impl super::Shared {
    /// Waits for a turn, and measures that.
    pub(super) async fn limited(&self, method: &Method, turn: impl Future<Output = ()>) {
        let started = tokio::time::Instant::now();
        turn.await;
        if let Some(metrics) = self.api.metrics() {
            metrics.limited(method.as_str(), started.elapsed());
        }
    }

    fn retried(&self, method: &Method, error: &ApiError) {
        if let Some(metrics) = self.api.metrics() {
            metrics.retried(method.as_str(), error.failure.status);
        }
    }

    /// Sends a request that changes nothing, and so may be repeated.
    pub(super) async fn read(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        body: bytes::Bytes,
        turn: Turn,
    ) -> Result<Response, ApiError> {
        let mut headers = vec![(header::ACCEPT, accept)];
        if method != Method::GET {
            headers.push((header::CONTENT_TYPE, "application/json"));
        }
        let (mut waits, mut lost) = (0, 0);
        loop {
            match turn {
                Turn::Write => self.limited(&method, self.limiter.write()).await,
                Turn::Taken if waits + lost > 0 => self.limited(&method, self.limiter.lookup()).await,
                Turn::Taken => {}
            }
            let error = match self
                .api
                .send(method.clone(), path, &headers, body.clone(), self.config.request_timeout)
                .await
            {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            if let Some(wait) = throttled(&error)
                && waits < THROTTLED
            {
                waits += 1;
                self.retried(&method, &error);
                tokio::time::sleep(wait).await;
            } else if matches!(error.failure.status, 0 | 502 | 504) && lost < READ_AGAIN {
                lost += 1;
                self.retried(&method, &error);
                tokio::time::sleep(pause(lost)).await;
            } else {
                return Err(error);
            }
        }
    }
}
