//! The requests of a case, and what is said to them.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{HeaderMap, Method};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use rand::Rng;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::{Case, normalise::Normaliser, template::Scope};
use crate::{
    client::{Client, Lines, headers},
    ordered::{Ordered, from_yaml},
};

const KEPT_HEADERS: [&str; 3] = ["Content-Type", "Warning", "Retry-After"];

/// One step of a case.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Step {
    id: Option<String>,
    /// Method and path.
    #[serde(rename = "do")]
    request: Option<String>,
    /// Path of a watch to open.
    watch: Option<String>,
    /// Watch to take events from.
    collect: Option<String>,
    /// Seconds.
    pause: Option<f64>,
    #[serde(rename = "type")]
    kind: Option<String>,
    accept: Option<String>,
    #[serde(default)]
    headers: std::collections::BTreeMap<String, String>,
    body: Option<Ordered>,
    text: Option<String>,
    /// What the real server answered, by the one who wrote the case.
    #[allow(dead_code, reason = "the golden file counts")]
    expect: Option<u16>,
    #[serde(default)]
    silent: bool,
    until: Option<Map<String, Value>>,
    within: Option<f64>,
    events: Option<usize>,
    quiet: Option<f64>,
    #[serde(default)]
    close: bool,
    #[serde(default)]
    bookmark: bool,
}

fn content_type(short: &str) -> &str {
    match short {
        "json" => "application/json",
        "yaml" => "application/yaml",
        "json-patch" => "application/json-patch+json",
        "merge" => "application/merge-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "apply" => "application/apply-patch+yaml",
        other => other,
    }
}

fn accepted(short: &str) -> &str {
    match short {
        "table" => "application/json;as=Table;g=meta.k8s.io;v=v1",
        "partial" => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        "partial-list" => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        "discovery" => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        other => other,
    }
}

/// Plays a case; its exchanges, normalised.
pub(super) async fn play(case: &Case, client: &Client) -> anyhow::Result<Value> {
    let run: String = {
        let mut rng = rand::rng();
        (0..8).map(|_| char::from(b'a' + rng.random_range(0..10))).collect()
    };
    let namespace = if case.namespace { format!("conf-{run}") } else { String::new() };
    let mut player = Player {
        client,
        scope: Scope { namespace, run, bodies: HashMap::new() },
        watches: HashMap::new(),
        request: Value::Null,
    };
    player.make_namespace().await?;
    let mut exchanges = Vec::new();
    for (number, step) in case.steps.iter().enumerate() {
        let id = step.id.clone().unwrap_or_else(|| format!("s{}", number + 1));
        let response = player.step(step, &id).await.with_context(|| format!("step {id}"))?;
        if let Some(response) = response.filter(|_| !step.silent) {
            exchanges.push(json!({"step": id, "request": player.request.take(), "response": response}));
        }
    }
    let Scope { namespace, run, .. } = &player.scope;
    let mut normaliser = Normaliser::new(&case.text, namespace, run, case.managed_fields);
    exchanges.iter().for_each(|exchange| normaliser.learn(exchange));
    normaliser.settle();
    Ok(exchanges.iter().map(|exchange| normaliser.exchange(exchange)).collect())
}

struct Player<'a> {
    client: &'a Client,
    scope: Scope,
    watches: HashMap<String, Watch>,
    /// The last request that was sent.
    request: Value,
}

/// Status, kept headers, body.
type Answer = (u16, Value, Ordered);

impl Player<'_> {
    async fn make_namespace(&self) -> anyhow::Result<()> {
        let name = &self.scope.namespace;
        if name.is_empty() {
            return Ok(());
        }
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).to_string();
        let head = headers([("content-type", "application/json")])?;
        let (status, _, answer) = self.call(Method::POST, "/api/v1/namespaces", head, body.into()).await?;
        anyhow::ensure!(status == 201, "cannot create namespace {name}: {status} {answer}");
        Ok(())
    }

    async fn call(&self, method: Method, path: &str, head: HeaderMap, body: Bytes) -> anyhow::Result<Answer> {
        let answer = self.client.call(method, path, head, body).await?;
        let kept = kept(answer.headers());
        let body = decode(answer.body(), text(&kept["Content-Type"]));
        Ok((answer.status().as_u16(), kept, body))
    }

    async fn step(&mut self, step: &Step, id: &str) -> anyhow::Result<Option<Value>> {
        self.request = Value::Null;
        if let Some(pause) = step.pause {
            tokio::time::sleep(Duration::from_secs_f64(pause)).await;
            return Ok(None);
        }
        if let Some(watch) = &step.collect {
            return self.collect(step, id, watch).await.map(Some);
        }
        let (method, path) = match (&step.watch, &step.request) {
            (Some(path), _) => (Method::GET, path.as_str()),
            (None, Some(request)) => {
                let (method, path) = request.split_once(' ').context("do: METHOD PATH")?;
                (method.parse()?, path.trim())
            }
            (None, None) => bail!("a step is one of do, watch, collect and pause"),
        };
        let path = self.scope.text(path, true)?;
        let mut head = headers([
            ("accept", accepted(step.accept.as_deref().unwrap_or("application/json"))),
            ("user-agent", "apiconf"),
        ])?;
        let own = headers(step.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
        for (name, value) in &own {
            head.insert(name, value.clone());
        }
        let body = match (&step.body, &step.text) {
            // Written as when the answers were recorded: some quote it.
            (Some(body), _) => Some(self.scope.fill(body)?.spaced()),
            (None, Some(text)) => Some(self.scope.text(text, false)?),
            (None, None) => None,
        };
        if body.is_some() {
            let kind = content_type(step.kind.as_deref().unwrap_or("application/json"));
            head.extend(headers([("content-type", kind)])?);
        }
        let sent = body.as_deref().map(|body| decode(body.as_bytes(), "").to_value());
        self.request = json!({"method": method.as_str(), "path": path, "body": sent});
        let body = Bytes::from(body.unwrap_or_default());
        let (status, kept, answer) = if step.watch.is_some() {
            match self.open(id, &path, head, body).await? {
                Some(answer) => answer,
                None => {
                    let watch = &self.watches[id];
                    return Ok(Some(json!({"status": 200, "headers": watch.headers})));
                }
            }
        } else {
            self.until(step, method, &path, head, body).await?
        };
        self.scope.bodies.insert(id.to_owned(), answer.clone());
        Ok(Some(json!({"status": status, "headers": kept, "body": answer.to_value()})))
    }

    /// Sends a request until the answer is as wanted; the last answer counts.
    async fn until(
        &self,
        step: &Step,
        method: Method,
        path: &str,
        head: HeaderMap,
        body: Bytes,
    ) -> anyhow::Result<Answer> {
        let end = Instant::now() + Duration::from_secs_f64(step.within.unwrap_or(15.0));
        loop {
            let answer = self.call(method.clone(), path, head.clone(), body.clone()).await?;
            let enough =
                step.until.as_ref().is_none_or(|want| satisfied(want, answer.0, &answer.2.to_value()));
            if enough || Instant::now() > end {
                return Ok(answer);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Opens a watch; an answer if it is refused.
    async fn open(
        &mut self,
        id: &str,
        path: &str,
        head: HeaderMap,
        body: Bytes,
    ) -> anyhow::Result<Option<Answer>> {
        let response = self.client.open(Method::GET, path, head, body).await?;
        let kept = kept(response.headers());
        let status = response.status().as_u16();
        if status == 200 {
            self.watches.insert(id.to_owned(), Watch::start(Lines::new(response.into_body()), kept));
            return Ok(None);
        }
        let body = response.into_body().collect().await?.to_bytes();
        let body = decode(&body, text(&kept["Content-Type"]));
        Ok(Some((status, kept, body)))
    }

    async fn collect(&mut self, step: &Step, id: &str, of: &str) -> anyhow::Result<Value> {
        let watch = self.watches.get_mut(of).with_context(|| format!("there is no watch {of:?}"))?;
        let within = Duration::from_secs_f64(step.within.unwrap_or(15.0));
        let quiet = Duration::from_secs_f64(step.quiet.unwrap_or(0.25));
        let (mut events, ended) = watch.collect(step.events, within, quiet).await;
        if step.bookmark {
            events.extend(watch.seen.lock().bookmark.clone());
        }
        if step.close {
            watch.reading.abort();
        }
        let values: Vec<Value> = events.iter().map(Ordered::to_value).collect();
        self.scope.bodies.insert(id.to_owned(), Ordered::List(events));
        Ok(json!({"of": of, "events": values, "ended": ended && step.events.is_none()}))
    }
}

#[derive(Default)]
struct Seen {
    events: Vec<Ordered>,
    /// The last one; they may come at any time, so they are kept apart.
    bookmark: Option<Ordered>,
    ended: bool,
}

/// An open watch.
struct Watch {
    headers: Value,
    seen: Arc<Mutex<Seen>>,
    moved: watch::Receiver<()>,
    taken: usize,
    reading: tokio::task::JoinHandle<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl Watch {
    fn start(mut lines: Lines, headers: Value) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (moving, moved) = watch::channel(());
        let noted = seen.clone();
        let reading = tokio::spawn(async move {
            while let Some(line) = lines.next().await {
                noted.lock().note(decode(&line, ""));
                moving.send_replace(());
            }
            noted.lock().ended = true;
            moving.send_replace(());
        });
        Self { headers, seen, moved, taken: 0, reading }
    }

    /// Waits for that many more events, or for the end, and then a bit longer.
    async fn collect(
        &mut self,
        count: Option<usize>,
        within: Duration,
        quiet: Duration,
    ) -> (Vec<Ordered>, bool) {
        let waiting = async {
            loop {
                self.moved.mark_unchanged();
                let (have, ended) = {
                    let seen = self.seen.lock();
                    (seen.events.len() - self.taken, seen.ended)
                };
                if ended || count.is_some_and(|count| have >= count) {
                    return;
                }
                if self.moved.changed().await.is_err() {
                    return;
                }
            }
        };
        // Out of time is an answer too: the events that are missing.
        let _ = tokio::time::timeout(within, waiting).await;
        if count.is_some() && !self.seen.lock().ended {
            tokio::time::sleep(quiet).await;
        }
        let seen = self.seen.lock();
        let events = seen.events[self.taken..].to_vec();
        self.taken = seen.events.len();
        (events, seen.ended)
    }
}

impl Seen {
    fn note(&mut self, event: Ordered) {
        if event.get("type") == Some(&Ordered::Text("BOOKMARK".into())) {
            let meta = event.get("object").and_then(|object| object.get("metadata"));
            let initial = meta.and_then(|meta| meta.get("annotations")?.get("k8s.io/initial-events-end"));
            if initial.is_none() {
                self.bookmark = Some(event);
                return;
            }
        }
        self.events.push(event);
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn kept(headers: &HeaderMap) -> Value {
    let mut out = Map::new();
    for name in KEPT_HEADERS {
        let values: Vec<String> = headers
            .get_all(name)
            .iter()
            .map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned())
            .collect();
        match values.as_slice() {
            [] => {}
            [one] => drop(out.insert(name.into(), one.as_str().into())),
            several => drop(out.insert(name.into(), json!(several))),
        }
    }
    Value::Object(out)
}

/// YAML and JSON as values, anything else as text.
fn decode(raw: &[u8], content_type: &str) -> Ordered {
    let text = String::from_utf8_lossy(raw);
    let read = if content_type.starts_with("application/yaml") {
        from_yaml(&text).ok()
    } else {
        serde_json::from_str(&text).ok()
    };
    read.unwrap_or_else(|| Ordered::Text(text.into_owned()))
}

/// Whether an answer has the status and the values wanted; `*` in a pointer is
/// any item.
fn satisfied(want: &Map<String, Value>, status: u16, body: &Value) -> bool {
    fn look<'a>(at: &'a Value, path: &[&str]) -> Vec<&'a Value> {
        match (path, at) {
            ([], found) => vec![found],
            (["*", rest @ ..], Value::Array(items)) => {
                items.iter().flat_map(|item| look(item, rest)).collect()
            }
            (["*", rest @ ..], Value::Object(fields)) => {
                fields.values().flat_map(|item| look(item, rest)).collect()
            }
            ([head, rest @ ..], Value::Array(items)) => {
                let item = head.parse::<usize>().ok().and_then(|n| items.get(n));
                item.map(|item| look(item, rest)).unwrap_or_default()
            }
            ([head, rest @ ..], at) => {
                let key = head.replace("~1", "/").replace("~0", "~");
                at.get(&key).map(|below| look(below, rest)).unwrap_or_default()
            }
        }
    }
    want.iter().all(|(key, value)| {
        if key == "status" {
            return *value == json!(status);
        }
        let path: Vec<&str> = key.split('/').filter(|part| !part.is_empty()).collect();
        look(body, &path).contains(&value)
    })
}
