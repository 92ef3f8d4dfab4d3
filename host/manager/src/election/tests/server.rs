//! An API server with leases.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::api::ApiClient;

/// What befalls a request.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// It is refused with this status.
    Status(u16),
    /// It is refused with this status if it would write.
    ReadOnly(u16),
    /// It is never answered, and not carried out.
    Hang,
    /// It is carried out, and its answer lost.
    LoseAnswer,
}

/// A request as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) from: String,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) watch: bool,
}

#[derive(Default)]
struct State {
    leases: BTreeMap<String, Value>,
    version: u64,
    asked: Vec<Asked>,
    /// By who asks: what befalls all requests, or the next few.
    faults: BTreeMap<String, VecDeque<Option<Fault>>>,
    lasting: BTreeMap<String, Fault>,
    watchable: bool,
    events: Vec<Value>,
}

/// The server.
#[derive(Clone)]
pub(super) struct Server {
    state: Arc<Mutex<State>>,
    changes: broadcast::Sender<String>,
}

impl Server {
    /// One whose leases can be watched.
    pub(super) fn new() -> Self {
        let state = State { version: 100, watchable: true, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)), changes: broadcast::channel(1000).0 }
    }

    /// One where that is forbidden.
    pub(super) fn without_watch() -> Self {
        let server = Self::new();
        server.state.lock().watchable = false;
        server
    }

    /// From now on all requests of this candidate meet a fault.
    pub(super) fn fail(&self, who: &str, fault: Fault) {
        self.state.lock().lasting.insert(who.into(), fault);
    }

    /// They do not any more.
    pub(super) fn heal(&self, who: &str) {
        self.state.lock().lasting.remove(who);
    }

    /// The next requests of this candidate meet these.
    pub(super) fn next(&self, who: &str, faults: impl IntoIterator<Item = Option<Fault>>) {
        self.state.lock().faults.entry(who.into()).or_default().extend(faults);
    }

    /// What a lease says; null if there is none.
    pub(super) fn spec(&self, name: &str) -> Value {
        self.state.lock().leases.get(name).map_or(Value::Null, |lease| lease["spec"].clone())
    }

    pub(super) fn leases(&self) -> Vec<(String, String)> {
        let state = self.state.lock();
        let holder = |lease: &Value| lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
        state.leases.iter().map(|(name, lease)| (name.clone(), holder(lease))).collect()
    }

    pub(super) fn uid(&self, name: &str) -> String {
        self.state.lock().leases[name]["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    /// Somebody writes a lease by hand.
    pub(super) fn put(&self, name: &str, spec: Value) {
        let mut state = self.state.lock();
        let kind = if state.leases.contains_key(name) { "MODIFIED" } else { "ADDED" };
        let before = state.leases.get(name).map(|lease| lease["metadata"]["uid"].clone());
        self.store(&mut state, kind, name, json!({"metadata": {"name": name, "uid": before}, "spec": spec}));
    }

    /// Somebody deletes a lease.
    pub(super) fn delete(&self, name: &str) {
        let mut state = self.state.lock();
        let Some(mut lease) = state.leases.remove(name) else { return };
        state.version += 1;
        lease["metadata"]["resourceVersion"] = state.version.to_string().into();
        let _ = self.changes.send(json!({"type": "DELETED", "object": lease}).to_string() + "\n");
    }

    /// Requests about leases so far.
    pub(super) fn asked(&self, who: &str) -> Vec<Asked> {
        self.state.lock().asked.iter().filter(|asked| asked.from == who).cloned().collect()
    }

    /// Messages of the events so far.
    pub(super) fn events(&self) -> Vec<String> {
        let state = self.state.lock();
        state.events.iter().map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    fn store(&self, state: &mut State, kind: &str, name: &str, mut lease: Value) {
        state.version += 1;
        if !lease["metadata"]["uid"].is_string() {
            lease["metadata"]["uid"] = format!("uid-{}", state.version).into();
        }
        lease["metadata"]["resourceVersion"] = state.version.to_string().into();
        let _ = self.changes.send(json!({"type": kind, "object": lease}).to_string() + "\n");
        state.leases.insert(name.to_owned(), lease);
    }

    /// A client for one candidate.
    pub(super) fn client(&self, who: &str) -> ApiClient {
        let (server, who) = (self.clone(), who.to_owned());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, who) = (server.clone(), who.clone());
            async move {
                // A request takes a moment.
                tokio::time::sleep(Duration::from_millis(5)).await;
                server.answer(&who, request).await
            }
        });
        ApiClient::new(kube::Client::new(service, "default"), "test")
    }

    async fn answer(&self, who: &str, request: Request<Body>) -> std::io::Result<Response<Frames>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let path = parts.uri.path().to_owned();
        if path.ends_with("/events") {
            self.state.lock().events.push(serde_json::from_slice(&body).unwrap());
            return Ok(respond(201, String::from_utf8(body.to_vec()).unwrap()));
        }
        let watch = parts.uri.query().is_some_and(|query| query.contains("watch=true"));
        let fault = {
            let mut state = self.state.lock();
            let method = parts.method.to_string();
            state.asked.push(Asked { from: who.to_owned(), method, path: path.clone(), watch });
            let next = state.faults.get_mut(who).filter(|_| !watch).and_then(VecDeque::pop_front).flatten();
            next.or_else(|| state.lasting.get(who).cloned())
        };
        match fault {
            Some(Fault::Status(status)) => return Ok(refuse(status, "Injected")),
            Some(Fault::ReadOnly(status)) if parts.method != "GET" => return Ok(refuse(status, "Injected")),
            Some(Fault::Hang) => std::future::pending().await,
            _ => {}
        }
        if watch {
            return Ok(self.watch());
        }
        let answer = self.carry_out(&parts.method, &path, &body);
        match fault {
            Some(Fault::LoseAnswer) => Err(std::io::Error::other("connection reset")),
            _ => Ok(answer),
        }
    }

    fn watch(&self) -> Response<Frames> {
        let state = self.state.lock();
        if !state.watchable {
            return refuse(403, "Forbidden");
        }
        let now: Vec<String> =
            state.leases.values().map(|l| json!({"type": "ADDED", "object": l}).to_string() + "\n").collect();
        let later = futures::stream::unfold(self.changes.subscribe(), |mut changes| async {
            changes.recv().await.ok().map(|line| (line, changes))
        });
        let lines = futures::stream::iter(now).chain(later);
        let frames = lines.map(|line| std::io::Result::Ok(Frame::data(Bytes::from(line)))).boxed();
        Response::builder().body(StreamBody::new(frames)).unwrap()
    }

    fn carry_out(&self, method: &Method, path: &str, body: &[u8]) -> Response<Frames> {
        let mut state = self.state.lock();
        let name = path.rsplit('/').next().unwrap().to_owned();
        let sent: Value = serde_json::from_slice(body).unwrap_or_default();
        match *method {
            Method::GET => match state.leases.get(&name) {
                Some(lease) => respond(200, lease.to_string()),
                None => refuse(404, "NotFound"),
            },
            Method::POST => {
                let name = sent["metadata"]["name"].as_str().unwrap().to_owned();
                if state.leases.contains_key(&name) {
                    return refuse(409, "AlreadyExists");
                }
                self.store(&mut state, "ADDED", &name, sent);
                respond(201, state.leases[&name].to_string())
            }
            Method::PUT => {
                let Some(lease) = state.leases.get(&name) else { return refuse(404, "NotFound") };
                if lease["metadata"]["resourceVersion"] != sent["metadata"]["resourceVersion"] {
                    return refuse(409, "Conflict");
                }
                self.store(&mut state, "MODIFIED", &name, sent);
                respond(200, state.leases[&name].to_string())
            }
            _ => refuse(405, "MethodNotAllowed"),
        }
    }
}

type Frames = StreamBody<futures::stream::BoxStream<'static, std::io::Result<Frame<Bytes>>>>;

fn respond(status: u16, body: String) -> Response<Frames> {
    let frames = futures::stream::iter([std::io::Result::Ok(Frame::data(Bytes::from(body)))]).boxed();
    Response::builder().status(status).body(StreamBody::new(frames)).unwrap()
}

fn refuse(status: u16, reason: &str) -> Response<Frames> {
    let body = json!({"kind": "Status", "code": status, "reason": reason, "message": "said the test"});
    respond(status, body.to_string())
}
