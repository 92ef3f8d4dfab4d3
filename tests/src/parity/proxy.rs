//! The HTTPS proxy between a manager and the API server: it counts writes, and makes faults on command.
//!
//! In: the manager's requests; faults. Out: the server's answers, or what the
//! faults make of them; a log of writes. Kept: without faults nothing is
//! changed but the wait for whole bodies; a request that was on its way when
//! an outage began is still carried out.

mod listen;
mod rules;
mod tls;
mod watches;

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

pub use rules::What;
pub use tls::{Authority, certificate_request};

use super::metrics::Metrics;
use crate::client::{Access, Client};
use rules::{Kind, Rule};
use watches::Watch;

/// The error that makes hyper close a connection.
#[derive(Debug, thiserror::Error)]
#[error("cut on purpose")]
struct Cut;

type Body = UnsyncBoxBody<Bytes, Cut>;

/// A write that the server has answered.
#[derive(Clone, Debug)]
pub struct Write {
    /// What it was about; the name of a new object comes from its body.
    pub what: What,
    /// The server's code.
    pub code: u16,
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    counts: BTreeMap<String, u64>,
    refused: BTreeMap<String, u64>,
    writes: Vec<Write>,
    watches: BTreeMap<u64, Watch>,
    next_watch: u64,
    timers: Option<CancellationToken>,
}

impl State {
    fn count(&mut self, what: impl Into<String>) {
        *self.counts.entry(what.into()).or_default() += 1;
    }

    /// The first rule of a kind that hits a request.
    fn hit(&mut self, kind: Kind, what: &What) -> Option<rules::Spec> {
        let rule = self
            .rules
            .iter_mut()
            .filter(|rule| rule.kind == kind)
            .find_map(|rule| rule.hit(what).then_some(rule));
        rule.map(|rule| rule.spec.clone())
    }
}

/// A running proxy.
pub struct Proxy {
    identified: Client,
    /// For requests that bring a token of their own.
    bare: Client,
    impersonate: Option<String>,
    metrics: Option<Arc<Metrics>>,
    seed: u64,
    address: SocketAddr,
    control: mpsc::UnboundedSender<listen::Order>,
    state: Mutex<State>,
    moved: watch::Sender<()>,
    cancel: CancellationToken,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Proxy {
    /// Listens on a free port of the loopback interface.
    pub async fn start(
        upstream: &Access,
        authority: &Authority,
        impersonate: Option<String>,
        metrics: Option<Arc<Metrics>>,
        seed: u64,
    ) -> anyhow::Result<Arc<Self>> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let (control, orders) = mpsc::unbounded_channel();
        let bare = Access { certificate: Vec::new(), key: Vec::new(), token: None, ..upstream.clone() };
        let proxy = Arc::new(Self {
            identified: Client::new(upstream)?,
            bare: Client::new(&bare)?,
            impersonate,
            metrics,
            seed,
            address: listener.local_addr()?,
            control,
            state: Mutex::default(),
            moved: watch::Sender::new(()),
            cancel: CancellationToken::new(),
        });
        let serving = listen::run(Arc::downgrade(&proxy), listener, authority.acceptor()?, orders);
        let cancel = proxy.cancel.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = serving => {}
                () = cancel.cancelled() => {}
            }
        });
        Ok(proxy)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A kubeconfig that leads here.
    pub fn kubeconfig(&self, authority: &Authority) -> String {
        use base64::{Engine, prelude::BASE64_STANDARD};
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": format!("https://{}", self.address),
                "certificate-authority-data": BASE64_STANDARD.encode(authority.certificate())}}],
            "users": [{"name": "manager", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "manager"}}],
        })
        .to_string()
    }

    /// Replaces all faults.
    pub fn set_faults(self: &Arc<Self>, faults: &Value) -> anyhow::Result<()> {
        let parsed = rules::parse(faults, self.seed)?;
        let timers = CancellationToken::new();
        let mut state = self.state.lock();
        if let Some(before) = state.timers.replace(timers.clone()) {
            before.cancel();
        }
        state.rules = parsed.rules;
        for i in 0..state.rules.len() {
            match state.rules[i].kind {
                Kind::CutWatches => self.cut_again_and_again(state.rules[i].clone(), timers.clone()),
                Kind::Gone => {
                    let rule = state.rules[i].clone();
                    let open = if rule.spec.cut { cut(&mut state, &rule) } else { 1 };
                    state.rules[i].spec.count.get_or_insert(open.max(1));
                }
                _ => {}
            }
        }
        if parsed.outage.is_some() {
            state.count("outages");
        }
        drop(state);
        self.moved.send_replace(());
        // Without an outage the port is open again.
        let order = parsed.outage.map_or(listen::Order::Open, listen::Order::Close);
        // The listener is gone only when we are.
        let _ = self.control.send(order);
        Ok(())
    }

    /// Tears all connections down and refuses new ones until [`Proxy::mend`]:
    /// what a killed process leaves behind.
    pub fn sever(&self) {
        let _ = self.control.send(listen::Order::Close(Duration::from_secs(3600)));
    }

    /// Ends [`Proxy::sever`].
    pub fn mend(&self) {
        let _ = self.control.send(listen::Order::Open);
    }

    /// What was done so far.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.state.lock().counts.clone()
    }

    /// Writes that never reached the server, by what they were and the code.
    pub fn refused(&self) -> BTreeMap<String, u64> {
        self.state.lock().refused.clone()
    }

    /// Number of writes so far.
    pub fn written(&self) -> usize {
        self.state.lock().writes.len()
    }

    /// Writes from a number on.
    pub fn writes_since(&self, number: usize) -> Vec<Write> {
        self.state.lock().writes.get(number..).unwrap_or_default().to_vec()
    }

    fn cut_again_and_again(self: &Arc<Self>, rule: Rule, timers: CancellationToken) {
        let Some(every) = rule.spec.every else { return };
        let proxy = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = tokio::time::sleep(every) => {}
                    () = timers.cancelled() => return,
                }
                let Some(proxy) = proxy.upgrade() else { return };
                cut(&mut proxy.state.lock(), &rule);
            }
        });
    }

    /// Answers a request; an error closes the connection.
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>, Cut> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
        let target = parts.uri.path_and_query().map_or("/", |t| t.as_str()).to_owned();
        if let Some((code, doc)) = self.metrics.as_ref().and_then(|metrics| metrics.answer(&target)) {
            return Ok(document(code, &doc));
        }
        let mut what = What::of(&parts.method, &target);
        if let Some(answer) = self.faulty_before(&what).await {
            return Ok(answer);
        }
        if what.is_create() && what.name.is_empty() {
            let sent: Value = serde_json::from_slice(&body).unwrap_or_default();
            what.name = sent["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        }
        let own = parts.headers.contains_key(header::AUTHORIZATION);
        let head = self.forwarded(parts.headers, &what, own);
        let client = if own { &self.bare } else { &self.identified };
        let answer = client.open(parts.method, &target, head, body).await.map_err(|error| {
            tracing::debug!(%target, "no answer from upstream: {error:#}");
            Cut
        })?;
        let code = answer.status();
        if what.is_watch() && code == StatusCode::OK {
            return Ok(self.watch(what, answer));
        }
        let (mut parts, body) = answer.into_parts();
        let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
        if what.is_write() {
            let mut state = self.state.lock();
            state.writes.push(Write { what: what.clone(), code: code.as_u16() });
            if code.is_success() && state.hit(Kind::LoseAnswer, &what).is_some() {
                state.count("answers lost");
                return Err(Cut);
            }
        }
        without_framing(&mut parts.headers);
        parts.version = http::Version::HTTP_11;
        Ok(Response::from_parts(parts, full(body)))
    }

    /// Faults that come before the server hears of a request.
    async fn faulty_before(&self, what: &What) -> Option<Response<Body>> {
        let class = if what.is_watch() {
            "watches"
        } else if what.is_write() {
            "writes"
        } else {
            "reads"
        };
        let waits: Vec<Duration> = {
            let mut state = self.state.lock();
            state.count(class);
            let rules = state.rules.iter().filter(|rule| rule.kind == Kind::Latency && rule.fits(what));
            let waits: Vec<Duration> = rules.filter_map(|rule| rule.spec.wait(class)).collect();
            waits.iter().for_each(|_| state.count("late"));
            waits
        };
        for wait in waits {
            tokio::time::sleep(wait).await;
        }
        let mut state = self.state.lock();
        if what.is_watch() && state.hit(Kind::Gone, what).is_some() {
            state.count("gone");
            return Some(refusal(410, "too old resource version (fault)", None));
        }
        let spec = if what.is_write() { state.hit(Kind::Reject, what)? } else { return None };
        state.count(format!("rejected {}", spec.code));
        if !what.is_noise() {
            *state.refused.entry(format!("{} {}", what.key(), spec.code)).or_default() += 1;
        }
        let pause = spec.retry_after.or((spec.code == 429).then_some(1));
        Some(refusal(spec.code, "refused by the proxy", pause))
    }

    fn forwarded(&self, mut head: HeaderMap, what: &What, own: bool) -> HeaderMap {
        without_framing(&mut head);
        head.remove(header::HOST);
        if what.is_watch() {
            // Frames are looked at one by one.
            head.remove(header::ACCEPT_ENCODING);
        }
        if let Some(user) = self.impersonate.as_ref().filter(|_| !own).and_then(|user| user.parse().ok()) {
            head.insert("impersonate-user", user);
        }
        head
    }
}

/// Breaks watches off that a rule fits; their number.
fn cut(state: &mut State, rule: &Rule) -> u64 {
    let fitting: Vec<CancellationToken> = state
        .watches
        .values()
        .filter(|watch| rule.fits(&watch.what))
        .map(|watch| watch.cut.clone())
        .collect();
    for token in &fitting {
        token.cancel();
        state.count("cut");
    }
    fitting.len() as u64
}

fn without_framing(head: &mut HeaderMap) {
    for name in [header::TRANSFER_ENCODING, header::CONTENT_LENGTH, header::CONNECTION] {
        head.remove(name);
    }
}

fn full(body: Bytes) -> Body {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

fn refusal(code: u16, message: &str, retry_after: Option<u64>) -> Response<Body> {
    let reason = match code {
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    let mut doc = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code});
    if let Some(seconds) = retry_after {
        doc["details"] = json!({"retryAfterSeconds": seconds});
    }
    let mut response = document(code, &doc);
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

fn document(code: u16, doc: &Value) -> Response<Body> {
    let mut response = Response::new(full(doc.to_string().into()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

/// Whether a method changes something.
fn writes(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE)
}
