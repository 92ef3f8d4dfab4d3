//! Plain requests to the API server, on kube's client.
//!
//! Everything dynamic: a resource is what discovery says it is. Answers of 400
//! and more become a [`Failure`] in the contract's form; so do requests that
//! got no answer, with status 0.

mod refused;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use kube::client::Body;

use self::refused::Refused;
pub(crate) use self::refused::is_unauthorized;
use crate::{
    connect::NotAfter,
    contract::{Cause, Failure, GroupResource},
    credentials::Account,
    metrics::ClientMetrics,
    traces,
};

/// Path of a collection: `/api/v1/namespaces/ns/pods`. An empty namespace gives
/// the path over all namespaces.
pub fn collection_path(resource: &GroupResource, namespace: &str) -> String {
    let base = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    if namespace.is_empty() {
        format!("{base}/{}", resource.resource)
    } else {
        format!("{base}/namespaces/{namespace}/{}", resource.resource)
    }
}

/// Path of an object or, with a subresource, of that.
pub fn object_path(resource: &GroupResource, namespace: &str, name: &str, subresource: &str) -> String {
    let mut path = format!("{}/{name}", collection_path(resource, namespace));
    if !subresource.is_empty() {
        path.push('/');
        path.push_str(subresource);
    }
    path
}

/// Percent-encodes a value for a query string.
pub fn query_escape(value: &str) -> String {
    percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// A successful answer.
#[derive(Debug)]
pub struct Response {
    /// Status, below 400.
    pub status: StatusCode,
    /// Headers.
    pub headers: http::HeaderMap,
    /// Body.
    pub body: Bytes,
}

/// A failed request.
#[derive(Clone, Debug)]
pub struct ApiError {
    /// What the server said, or status 0 where it said nothing.
    pub failure: Failure,
    /// How long the server asked us to wait.
    pub retry_after: Option<Duration>,
}

impl ApiError {
    /// A request that got no answer.
    pub fn no_answer(message: impl Into<String>) -> Self {
        Self {
            failure: Failure {
                status: 0,
                reason: String::new(),
                message: message.into(),
                causes: Vec::new(),
            },
            retry_after: None,
        }
    }

    /// Whether nobody can tell if the request took effect.
    pub fn is_unknown(&self) -> bool {
        self.failure.status == 0
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.failure.status == 0 {
            write!(f, "no answer: {}", self.failure.message)
        } else {
            write!(f, "{} {}: {}", self.failure.status, self.failure.reason, self.failure.message)
        }
    }
}

impl std::error::Error for ApiError {}

/// A client of the API server.
#[derive(Clone)]
pub struct ApiClient {
    client: kube::Client,
    user_agent: http::HeaderValue,
    read_only: bool,
    /// Whose tokens go with each request, if not the kube client knows them.
    account: Option<Arc<Account>>,
    /// Kinds of refusals that were told of, as bits of [`Refused`].
    told: Arc<AtomicU8>,
    metrics: Option<Arc<ClientMetrics>>,
}

impl ApiClient {
    /// Wraps a kube client. `user_agent` goes with each request.
    pub fn new(client: kube::Client, user_agent: &str) -> Self {
        let user_agent = http::HeaderValue::from_str(user_agent)
            .unwrap_or_else(|_| http::HeaderValue::from_static("coxswain"));
        Self { client, user_agent, read_only: false, account: None, told: Arc::default(), metrics: None }
    }

    /// Measures each request.
    #[must_use]
    pub fn measured(self, metrics: Arc<ClientMetrics>) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    /// Where requests are measured.
    pub fn metrics(&self) -> Option<&ClientMetrics> {
        self.metrics.as_deref()
    }

    /// The same connection under another user agent.
    pub fn with_user_agent(&self, user_agent: &str) -> Self {
        let other = Self::new(self.client.clone(), user_agent);
        let (account, metrics) = (self.account.clone(), self.metrics.clone());
        Self { read_only: self.read_only, account, metrics, ..other }
    }

    /// The same client, unable to change anything: whatever is neither a GET nor
    /// a review (a POST that is answered and not kept) fails without being sent.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self { read_only: true, ..self }
    }

    /// The same connection with the tokens of a service account.
    pub fn with_account(&self, account: Arc<Account>) -> Self {
        Self { account: Some(account), ..self.clone() }
    }

    /// Says once who is refused what, since whoever runs the manager can mend it.
    fn tell(&self, what: &str, failure: &Failure) {
        let Some(refused) = Refused::of(failure) else { return };
        let bit = refused as u8;
        if self.told.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return;
        }
        let client = self.user_agent.to_str().unwrap_or_default();
        tracing::warn!(client, what, "{}", refused.text(&failure.message));
    }

    /// Credentials are accepted: should they not be again, that is news.
    fn accepted(&self) {
        self.told.fetch_and(!(Refused::Credentials as u8), Ordering::Relaxed);
    }

    async fn ask(&self, mut request: Request<Body>) -> Result<http::Response<Body>, ApiError> {
        let Some(account) = &self.account else {
            return self.client.send(request).await.map_err(|e| ApiError::no_answer(describe(&e)));
        };
        let authorization = account.authorization().await?;
        request.headers_mut().insert(header::AUTHORIZATION, authorization.clone());
        let response = self.client.send(request).await.map_err(|e| ApiError::no_answer(describe(&e)))?;
        if response.status() == StatusCode::UNAUTHORIZED {
            account.refused(&authorization).await;
        }
        Ok(response)
    }

    fn build(
        &self,
        method: Method,
        path: &str,
        headers: &[(header::HeaderName, &str)],
        body: Bytes,
    ) -> Result<Request<Body>, ApiError> {
        if self.read_only && method != Method::GET && !(method == Method::POST && is_review(path)) {
            let message = format!("{method} {path}: not sent, since this process only reads");
            return Err(ApiError::no_answer(message));
        }
        let mut request =
            Request::builder().method(method).uri(path).header(header::USER_AGENT, self.user_agent.clone());
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        if let Some(headers) = request.headers_mut() {
            traces::inject(headers);
        }
        request
            .body(Body::from(body.to_vec()))
            .map_err(|e| ApiError::no_answer(format!("invalid request {path}: {e}")))
    }

    /// Sends a request and reads the whole answer, within `timeout`.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(header::HeaderName, &str)],
        body: Bytes,
        timeout: Duration,
    ) -> Result<Response, ApiError> {
        let what = format!("{method} {path}");
        let sent = Sent::new(self.metrics.as_deref(), &method, body.len());
        let mut request = self.build(method, path, headers, body)?;
        request.extensions_mut().insert(NotAfter(tokio::time::Instant::now() + timeout));
        let work = async {
            let response = self.ask(request).await?;
            let (parts, body) = response.into_parts();
            let sent = sent.answered(parts.status, &parts.headers);
            let body = body.collect().await.map_err(|e| ApiError::no_answer(describe(&e)))?.to_bytes();
            sent.read(body.len());
            if parts.status.as_u16() >= 400 {
                let error = refusal(parts.status, &parts.headers, &body);
                self.tell(&what, &error.failure);
                Err(error)
            } else {
                self.accepted();
                Ok(Response { status: parts.status, headers: parts.headers, body })
            }
        };
        match tokio::time::timeout(timeout, work).await {
            Ok(answer) => answer,
            Err(_) => Err(ApiError::no_answer(format!("no answer within {timeout:?}"))),
        }
    }

    /// GET of JSON.
    pub async fn get(&self, path: &str, timeout: Duration) -> Result<Response, ApiError> {
        self.send(Method::GET, path, &[(header::ACCEPT, "application/json")], Bytes::new(), timeout).await
    }

    /// Opens a stream, such as a watch. `timeout` is for the head of the answer.
    pub async fn open(
        &self,
        path: &str,
        accept: &str,
        timeout: Duration,
    ) -> Result<http::Response<Body>, ApiError> {
        let sent = Sent::new(self.metrics.as_deref(), &Method::GET, 0);
        let request = self.build(Method::GET, path, &[(header::ACCEPT, accept)], Bytes::new())?;
        let response = match tokio::time::timeout(timeout, self.ask(request)).await {
            Ok(answer) => answer?,
            Err(_) => return Err(ApiError::no_answer(format!("no answer within {timeout:?}"))),
        };
        sent.answered(response.status(), response.headers());
        if response.status().as_u16() < 400 {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map_err(|e| ApiError::no_answer(describe(&e)))?.to_bytes();
        let error = refusal(parts.status, &parts.headers, &body);
        self.tell(&format!("GET {path}"), &error.failure);
        Err(error)
    }
}

/// Whether a POST to this path asks for a review: the API server answers it
/// and keeps nothing. <https://kubernetes.io/docs/reference/access-authn-authz/>
pub(crate) fn is_review(path: &str) -> bool {
    const REVIEWS: [&str; 5] = [
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
        "tokenreviews",
    ];
    let mut parts = path.trim_start_matches('/').split('/');
    let group = (parts.next() == Some("apis")).then(|| parts.next()).flatten();
    let known = matches!(group, Some("authorization.k8s.io" | "authentication.k8s.io"));
    known && parts.next_back().is_some_and(|last| REVIEWS.contains(&last))
}

/// A request under way, as far as it is measured. One that is dropped has got
/// no answer.
struct Sent<'a> {
    metrics: Option<&'a ClientMetrics>,
    method: Method,
    bytes: usize,
    at: tokio::time::Instant,
    status: Option<StatusCode>,
}

impl<'a> Sent<'a> {
    fn new(metrics: Option<&'a ClientMetrics>, method: &Method, bytes: usize) -> Self {
        Self { metrics, method: method.clone(), bytes, at: tokio::time::Instant::now(), status: None }
    }

    fn answered(mut self, status: StatusCode, headers: &http::HeaderMap) -> Answered<'a> {
        self.status = Some(status);
        if let (Some(metrics), Some([flow_schema, level])) = (self.metrics, classified(headers)) {
            metrics.classified(flow_schema, level, status.as_u16());
        }
        Answered { metrics: self.metrics, method: self.method.clone() }
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        if let Some(metrics) = self.metrics {
            let status = self.status.map(|status| status.as_u16());
            metrics.sent(self.method.as_str(), status, self.at.elapsed(), self.bytes);
        }
    }
}

/// Which FlowSchema and which PriorityLevelConfiguration the API server took a
/// request for, by uid, if it says so.
/// <https://kubernetes.io/docs/concepts/cluster-administration/flow-control/#diagnostics>
fn classified(headers: &http::HeaderMap) -> Option<[&str; 2]> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    Some([text("x-kubernetes-pf-flowschema-uid")?, text("x-kubernetes-pf-prioritylevel-uid")?])
}

/// An answer whose body is being read.
struct Answered<'a> {
    metrics: Option<&'a ClientMetrics>,
    method: Method,
}

impl Answered<'_> {
    fn read(&self, bytes: usize) {
        if let Some(metrics) = self.metrics {
            metrics.received(self.method.as_str(), bytes);
        }
    }
}

/// An error with its sources, since the outermost one rarely says what happened.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        source = inner.source();
    }
    // What the layers of the client wrap around it says nothing.
    while let Some(rest) = text.strip_prefix("ServiceError: ") {
        text = rest.to_owned();
    }
    text
}

fn refusal(status: StatusCode, headers: &http::HeaderMap, body: &[u8]) -> ApiError {
    let retry_after = headers
        .get(header::RETRY_AFTER)
        .and_then(|v| v.to_str().ok())
        .and_then(|v| v.trim().parse().ok())
        .map(Duration::from_secs);
    ApiError { failure: parse_status(status, body), retry_after }
}

/// Reads a Status object; a body that is none is taken as the message.
pub fn parse_status(status: StatusCode, body: &[u8]) -> Failure {
    #[derive(serde::Deserialize, Default)]
    #[serde(default)]
    struct Status {
        reason: String,
        message: String,
        code: u32,
        details: Option<Details>,
    }
    #[derive(serde::Deserialize, Default)]
    #[serde(default)]
    struct Details {
        causes: Option<Vec<WireCause>>,
    }
    #[derive(serde::Deserialize, Default)]
    #[serde(default)]
    struct WireCause {
        reason: String,
        message: String,
        field: String,
    }
    match serde_json::from_slice::<Status>(body) {
        Ok(parsed) => Failure {
            status: if parsed.code == 0 { status.as_u16().into() } else { parsed.code },
            reason: parsed.reason,
            message: parsed.message,
            causes: parsed
                .details
                .and_then(|d| d.causes)
                .unwrap_or_default()
                .into_iter()
                .map(|c| Cause { reason: c.reason, message: c.message, field: c.field })
                .collect(),
        },
        Err(_) => Failure {
            status: status.as_u16().into(),
            reason: String::new(),
            message: String::from_utf8_lossy(&body[..body.len().min(1024)]).trim().to_owned(),
            causes: Vec::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reviews_are_posts_that_change_nothing() {
        for (path, review) in [
            ("/apis/authorization.k8s.io/v1/subjectaccessreviews", true),
            ("/apis/authorization.k8s.io/v1/namespaces/a/localsubjectaccessreviews", true),
            ("/apis/authentication.k8s.io/v1/tokenreviews", true),
            ("/apis/example.com/v1/subjectaccessreviews", false),
            ("/api/v1/namespaces/a/pods", false),
            ("/api/v1/namespaces/tokenreviews", false),
            ("/apis/authorization.k8s.io/v1/subjectaccessreviews/x", false),
        ] {
            assert_eq!(is_review(path), review, "{path}");
        }
    }

    #[tokio::test]
    async fn what_the_api_server_takes_requests_for_is_counted() {
        let service = tower::service_fn(move |request: Request<Body>| async move {
            let full = request.uri().path().ends_with("/pods");
            let mut response = http::Response::builder().status(if full { 429 } else { 200 });
            if request.uri().path() != "/version" {
                response = response
                    .header("x-kubernetes-pf-flowschema-uid", "f")
                    .header("x-kubernetes-pf-prioritylevel-uid", "p");
            }
            Ok::<_, std::convert::Infallible>(response.body(Body::empty()).unwrap())
        });
        let metrics = crate::metrics::Metrics::new("https://x", []);
        let api =
            ApiClient::new(kube::Client::new(service, "default"), "test").measured(metrics.client.clone());
        for path in ["/api/v1/nodes", "/api/v1/nodes", "/api/v1/pods", "/version"] {
            let _ = api.get(path, Duration::from_secs(60)).await;
        }
        let _ = api.open("/api/v1/nodes", "*/*", Duration::from_secs(60)).await;
        let text = metrics.text(&crate::metrics::Scraped::default());
        let series = |code: &str| {
            format!(
                "coxswain_api_priority_requests_total{{code=\"{code}\",flow_schema=\"f\",priority_level=\"p\"}}"
            )
        };
        for line in [format!("{} 3\n", series("200")), format!("{} 1\n", series("429"))] {
            assert!(text.contains(&line), "{line}: {text}");
        }
    }

    #[tokio::test]
    async fn why_there_is_no_answer_is_said_without_wrappers() {
        let service = tower::service_fn(|_: Request<Body>| async {
            Err::<http::Response<Body>, _>(std::io::Error::other("the line is dead"))
        });
        let api = ApiClient::new(kube::Client::new(service, "default"), "test");
        let error = api.get("/version", Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(error.to_string(), "no answer: the line is dead");
    }

    #[tokio::test]
    async fn a_client_that_only_reads_sends_nothing_else() {
        let sent = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
        let seen = sent.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            seen.lock().push(format!("{} {}", request.method(), request.uri().path()));
            async { Ok::<_, std::convert::Infallible>(http::Response::new(Body::empty())) }
        });
        let api = ApiClient::new(kube::Client::new(service, "default"), "test").read_only();
        let api = api.with_user_agent("another");
        let review = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        for (method, path, allowed) in [
            (Method::GET, "/api/v1/pods", true),
            (Method::POST, review, true),
            (Method::POST, "/api/v1/namespaces/a/pods", false),
            (Method::PUT, review, false),
            (Method::PATCH, "/api/v1/namespaces/a/pods/b", false),
            (Method::DELETE, "/api/v1/namespaces/a/pods/b", false),
        ] {
            let what = format!("{method} {path}");
            let timeout = Duration::from_secs(1);
            let answer = api.send(method, path, &[], Bytes::new(), timeout).await;
            assert_eq!(answer.is_ok(), allowed, "{what}");
            if let Err(error) = answer {
                assert!(error.to_string().contains("only reads"), "{error}");
            }
        }
        assert_eq!(*sent.lock(), ["GET /api/v1/pods".to_owned(), format!("POST {review}")]);
    }
}
