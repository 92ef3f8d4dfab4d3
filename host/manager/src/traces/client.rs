//! The way to a collector.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client as Hyper, connect::HttpConnector},
    rt::TokioExecutor,
};
use opentelemetry_http::{HttpClient, HttpError};
use tokio::runtime::Handle;

/// Sends spans from whatever thread, on the runtime it was made in.
#[derive(Debug)]
pub(super) struct Client {
    hyper: Hyper<HttpsConnector<HttpConnector>, Full<Bytes>>,
    runtime: Handle,
    /// Whether the last one was not taken, so that it is said once.
    failing: AtomicBool,
}

impl Client {
    /// Within a runtime.
    pub(super) fn new() -> Result<Self, String> {
        let connector = HttpsConnectorBuilder::new()
            .with_native_roots()
            .map_err(|error| format!("the machine's authorities cannot be read: {error}"))?
            .https_or_http()
            .enable_http1()
            .build();
        let hyper = Hyper::builder(TokioExecutor::new()).build(connector);
        Ok(Self { hyper, runtime: Handle::current(), failing: AtomicBool::new(false) })
    }

    fn note(&self, collector: &str, outcome: Result<u16, &HttpError>) {
        let reason = match outcome {
            Ok(200..300) => {
                self.failing.store(false, Ordering::Relaxed);
                return;
            }
            Ok(status) => format!("it answers {status}"),
            Err(error) => error.to_string(),
        };
        if !self.failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(collector, reason, "spans are lost: the collector does not take them");
        }
    }
}

#[async_trait::async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let collector = request.uri().to_string();
        let hyper = self.hyper.clone();
        let sending = self.runtime.spawn(async move {
            let (parts, body) = hyper.request(request.map(Full::new)).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok::<_, HttpError>(Response::from_parts(parts, body))
        });
        let answer = sending.await.map_err(HttpError::from).flatten();
        self.note(&collector, answer.as_ref().map(|answer| answer.status().as_u16()));
        answer
    }
}
