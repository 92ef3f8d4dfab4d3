//! Requests about leases.

use std::time::Duration;

use http::{Method, header};
use kube::client::Body;
use serde_json::Value;

use super::record::{Lease, Record};
use crate::{
    api::{ApiClient, ApiError, Response, collection_path, query_escape},
    contract::GroupResource,
};

const JSON: &str = "application/json";

/// How long a watch of leases lasts. The server ends it by itself.
pub(super) const WATCH: Duration = Duration::from_secs(600);

/// Reads and writes the leases of a namespace.
#[derive(Clone)]
pub(super) struct LeaseClient {
    api: ApiClient,
    collection: String,
    pub(super) namespace: String,
}

impl LeaseClient {
    pub(super) fn new(api: ApiClient, namespace: &str) -> Self {
        let leases = GroupResource {
            group: "coordination.k8s.io".into(),
            version: "v1".into(),
            resource: "leases".into(),
        };
        Self { api, collection: collection_path(&leases, namespace), namespace: namespace.to_owned() }
    }

    /// Reads a lease; none if there is no such.
    pub(super) async fn get(&self, name: &str, timeout: Duration) -> Result<Option<Lease>, ApiError> {
        match self.send(Method::GET, &self.path(name), None, timeout).await {
            Ok(response) => read(&response.body).map(Some),
            // A server that does not know leases answers 404 without naming one.
            Err(error) if error.failure.status == 404 && error.failure.reason == "NotFound" => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn create(
        &self,
        name: &str,
        record: &Record,
        timeout: Duration,
    ) -> Result<Lease, ApiError> {
        let body = Lease::to_create(&self.namespace, name, record);
        read(&self.send(Method::POST, &self.collection, Some(body), timeout).await?.body)
    }

    /// Writes a record if the lease is still what `lease` says.
    pub(super) async fn update(
        &self,
        lease: &Lease,
        record: &Record,
        timeout: Duration,
    ) -> Result<Lease, ApiError> {
        let path = self.path(lease.name());
        read(&self.send(Method::PUT, &path, Some(lease.with(record)), timeout).await?.body)
    }

    /// Opens a watch of one lease, or of all. It begins with what there is.
    pub(super) async fn watch(
        &self,
        only: Option<&str>,
        timeout: Duration,
    ) -> Result<http::Response<Body>, ApiError> {
        let mut path =
            format!("{}?watch=true&timeoutSeconds={}&resourceVersion=0", self.collection, WATCH.as_secs());
        if let Some(name) = only {
            path.push_str(&format!("&fieldSelector={}", query_escape(&format!("metadata.name={name}"))));
        }
        self.api.open(&path, JSON, timeout).await
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.collection)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        timeout: Duration,
    ) -> Result<Response, ApiError> {
        let mut headers = vec![(header::ACCEPT, JSON)];
        if body.is_some() {
            headers.push((header::CONTENT_TYPE, JSON));
        }
        let path = format!("{path}?timeout={}ms", timeout.as_millis());
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        self.api.send(method, &path, &headers, body.into(), timeout).await
    }
}

fn read(body: &[u8]) -> Result<Lease, ApiError> {
    Lease::read(body).map_err(|reason| ApiError::no_answer(format!("a lease cannot be read: {reason}")))
}
