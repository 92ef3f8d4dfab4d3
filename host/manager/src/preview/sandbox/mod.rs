//! A copy of the cluster that controllers may write to while a plan is made.
//!
//! In: the requests of a manager. Out: answers. A resource is read from the
//! cluster, whole, when it is first asked for, and from then on an API server in
//! this process answers for it: reads, watches and writes. What that one does not
//! know (discovery, aggregated APIs, reviews) the cluster answers, if it is a
//! read. Invariant: nothing but reads goes to the cluster, for its client refuses
//! to send anything else.

mod bring;
mod route;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use coxswain_localcluster::{
    AuthorizationMode,
    rest::{self, Rest, RestConfig, clock::Clock},
    storage::{HistoryLimits, Store},
};
use futures::StreamExt;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Frame;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::BoxError;

use crate::{
    api::{ApiClient, ApiError},
    clock::SharedClock,
};
use bring::Brought;
use route::{Way, way};

/// How long the cluster may take to answer what is passed on.
const PASSED_ON: Duration = Duration::from_secs(60);

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// What a write did to an object.
pub(crate) struct Written {
    /// As it was; none if it is new.
    pub(crate) before: Option<Value>,
    /// As it is.
    pub(crate) after: Value,
}

/// A copy of the cluster.
pub struct Sandbox {
    cluster: ApiClient,
    rest: Arc<Rest>,
    brought: Brought,
    /// What a write did is told apart from what others did meanwhile.
    one_write: tokio::sync::Mutex<()>,
    /// By the resourceVersion it led to.
    written: Mutex<HashMap<u64, Written>>,
}

impl Sandbox {
    /// A copy of what `cluster` reaches. Nothing is read yet.
    pub(crate) fn new(cluster: ApiClient, clock: &SharedClock) -> Arc<Self> {
        let rest = Rest::new(RestConfig {
            store: Store::new(HistoryLimits::default()),
            clock: Clock::starting_at(clock.now()),
            seed: None,
            admin_token: String::new(),
            service_account_key: Vec::new(),
            admin_endpoint: false,
            authorization: AuthorizationMode::AlwaysAllow,
        });
        Arc::new(Self {
            cluster: cluster.read_only(),
            rest,
            brought: Brought::default(),
            one_write: tokio::sync::Mutex::default(),
            written: Mutex::default(),
        })
    }

    /// A client of the copy.
    pub(crate) fn client(self: &Arc<Self>) -> kube::Client {
        let sandbox = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let sandbox = sandbox.clone();
            async move { sandbox.answer(request).await }
        });
        kube::Client::new(service, "default")
    }

    /// The newest change of a resource here; none if it is not here.
    pub(crate) fn last_change(&self, group: &str, version: &str, plural: &str) -> Option<u64> {
        let kind = self.rest.registry().kinds().find(group, version, plural)?.clone();
        Some(self.rest.store().existing(&kind.storage)?.last_change())
    }

    /// The newest change of all.
    pub(crate) fn version(&self) -> u64 {
        self.rest.store().version()
    }

    /// What the write did that led to a resourceVersion.
    pub(crate) fn with_written<T>(&self, version: u64, look: impl FnOnce(&Written) -> T) -> Option<T> {
        self.written.lock().get(&version).map(look)
    }

    /// Resources that writes are checked against and that could not be read, with the reasons.
    pub(crate) fn troubles(&self) -> BTreeMap<String, String> {
        self.brought.troubles()
    }

    async fn answer(self: Arc<Self>, request: Request<Body>) -> Result<Answer, BoxError> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let writes = head.method != Method::GET;
        let find = |named: (&str, &str, &str)| self.find(named);
        let mut way_taken = way(&head.method, head.uri.path(), find);
        if let Way::Unknown = way_taken {
            // A custom resource is known once its definition is here.
            if let Err(error) = self.bring_definitions().await {
                return refusal(&error);
            }
            way_taken = way(&head.method, head.uri.path(), find);
        }
        match way_taken {
            Way::Here { kind, event } => {
                // Events are written and not read: they need no others beside them.
                if !(event && writes)
                    && let Err(error) = self.bring(&kind).await
                {
                    return refusal(&error);
                }
                if writes {
                    self.bring_checked_against().await;
                }
                self.serve(head, body).await
            }
            Way::Cluster => self.pass_on(head.method, &path, &head.headers, body).await,
            Way::Unknown if !writes => self.pass_on(head.method, &path, &head.headers, body).await,
            Way::Unknown | Way::Nowhere => {
                let what = format!("{} {path}: a plan cannot play this, and does not send it", head.method);
                Ok(failure(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", &what))
            }
        }
    }

    fn find(&self, (group, version, plural): (&str, &str, &str)) -> Option<Arc<rest::strategy::Kind>> {
        self.rest.registry().kinds().find(group, version, plural).cloned()
    }

    /// Has the API server of this process answer.
    async fn serve(&self, head: http::request::Parts, body: Bytes) -> Result<Answer, BoxError> {
        let writes = head.method != Method::GET;
        let one_write = if writes { Some(self.one_write.lock().await) } else { None };
        let before = if writes { self.object_of(head.uri.path()) } else { None };
        let request = rest::Request {
            method: head.method,
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            headers: head.headers,
            body,
            identity: Some(rest::admin()),
        };
        let response = self.rest.handle(request).await.map_err(|_| "the connection was cut")?;
        if let rest::Body::Full(body) = response.body()
            && writes
            && response.status().is_success()
        {
            self.note(before, body);
        }
        drop(one_write);
        Ok(response.map(|body| match body {
            rest::Body::Full(bytes) => whole(bytes),
            rest::Body::Stream(pieces) => {
                StreamBody::new(pieces.map(|piece| Ok(Frame::data(piece)))).boxed_unsync()
            }
        }))
    }

    fn note(&self, before: Option<Value>, after: &[u8]) {
        let Ok(mut after) = serde_json::from_slice::<Value>(after) else { return };
        let version = after["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
        let Some(version) = version else { return };
        // Objects as they are kept do not say what they are.
        for name in ["apiVersion", "kind"] {
            after.as_object_mut().and_then(|after| after.remove(name));
        }
        // What changes nothing leads to the version of the write before it.
        self.written.lock().entry(version).or_insert(Written { before, after });
    }

    /// The object that a path names, as it is here.
    fn object_of(&self, path: &str) -> Option<Value> {
        let Some(rest::path::Route::Resource(path)) = rest::path::route(path) else { return None };
        let kind = self.find((&path.group, &path.version, &path.plural))?;
        let key = rest::key(path.namespace.as_deref().unwrap_or_default(), &path.name?);
        let stored = self.rest.store().existing(&kind.storage)?.get(&key)?;
        Some(kind.strategy.from_storage(&kind, stored.value()))
    }

    /// Has the cluster answer; its client sends nothing but reads.
    async fn pass_on(
        &self,
        method: Method,
        path: &str,
        headers: &http::HeaderMap,
        body: Bytes,
    ) -> Result<Answer, BoxError> {
        let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
        if method == Method::GET {
            let opened = self.cluster.open(path, accept.unwrap_or("application/json"), PASSED_ON).await;
            return match opened {
                Ok(response) => Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync())),
                Err(error) => refusal(&error),
            };
        }
        let sent = [(header::ACCEPT, "application/json"), (header::CONTENT_TYPE, "application/json")];
        match self.cluster.send(method, path, &sent, body, PASSED_ON).await {
            Ok(answered) => {
                let mut response = Response::new(whole(answered.body));
                *response.status_mut() = answered.status;
                *response.headers_mut() = answered.headers;
                Ok(response)
            }
            Err(error) => refusal(&error),
        }
    }
}

fn whole(bytes: Bytes) -> UnsyncBoxBody<Bytes, BoxError> {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// What the cluster refused, in the form of its answer; no answer is none here either.
fn refusal(error: &ApiError) -> Result<Answer, BoxError> {
    let refused = &error.failure;
    match u16::try_from(refused.status).ok().and_then(|code| StatusCode::from_u16(code).ok()) {
        Some(status) if status.as_u16() >= 400 => Ok(failure(status, &refused.reason, &refused.message)),
        _ => Err(refused.message.clone().into()),
    }
}

fn failure(status: StatusCode, reason: &str, message: &str) -> Answer {
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": status.as_u16(), "reason": reason, "message": message});
    let mut response = Response::new(whole(body.to_string().into()));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests;
