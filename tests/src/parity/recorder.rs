//! Watches a cluster and keeps its newest state and the full history.
//!
//! In: watches. Out: objects, and everything that happened to them. Kept: what
//! happened between two looks is not missed, since all waits, invariants and
//! observations are computed from the history.

mod measure;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::Method;
use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use measure::{Marks, measure};

use super::{
    api::{Api, Entry},
    object::{self, list, text},
};
use crate::{client::Lines, ordered::Ordered};

/// What is watched from the start; other resources when a scenario names them.
const WATCHED: [&str; 29] = [
    "namespaces",
    "nodes",
    "pods",
    "replicationcontrollers",
    "services",
    "endpoints",
    "configmaps",
    "secrets",
    "serviceaccounts",
    "resourcequotas",
    "persistentvolumeclaims",
    "persistentvolumes",
    "events",
    "deployments",
    "replicasets",
    "statefulsets",
    "daemonsets",
    "controllerrevisions",
    "jobs",
    "cronjobs",
    "horizontalpodautoscalers",
    "poddisruptionbudgets",
    "endpointslices",
    "volumeattachments",
    "certificatesigningrequests",
    "clusterroles",
    "resourceclaims",
    "servicecidrs",
    "leases",
];
/// How long a first list may take.
const FIRST: Duration = Duration::from_secs(20);
/// Pause before a lost watch is opened again.
const RETRY: Duration = Duration::from_millis(300);

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Added,
    /// It changed.
    Modified,
    /// It is gone.
    Deleted,
}

/// One entry of the history.
#[derive(Clone, Debug)]
pub struct Happened {
    /// When we were told.
    pub at: Instant,
    /// What.
    pub change: Change,
    /// The object after it, or the last of it.
    pub object: Arc<Value>,
}

/// Objects of one resource by namespace and name.
type Objects = BTreeMap<(String, String), Arc<Value>>;

/// What is known.
#[derive(Default)]
pub struct Known {
    objects: HashMap<String, Objects>,
    history: HashMap<(String, String), Vec<Happened>>,
    /// Lowest version that a wait for an object may look at.
    floor: HashMap<(String, String, String), u64>,
    /// Newest version seen of a resource.
    head: HashMap<String, u64>,
    /// When something last changed in a namespace.
    touched: HashMap<String, Instant>,
}

impl Known {
    /// One object.
    pub fn object(&self, resource: &str, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        self.objects.get(resource)?.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// Objects of a namespace that fit a selector, by name.
    pub fn list(&self, resource: &str, namespace: &str, selector: &str) -> Vec<Arc<Value>> {
        let of = self.objects.get(resource).into_iter().flatten();
        of.filter(|((ns, _), o)| ns == namespace && object::selected(o, selector))
            .map(|(_, o)| o.clone())
            .collect()
    }

    /// All objects of a resource.
    pub fn all(&self, resource: &str) -> impl Iterator<Item = &Arc<Value>> {
        self.objects.get(resource).into_iter().flat_map(BTreeMap::values)
    }

    /// Everything that happened in a namespace.
    pub fn past(&self, resource: &str, namespace: &str) -> &[Happened] {
        let key = (resource.to_owned(), namespace.to_owned());
        self.history.get(&key).map(Vec::as_slice).unwrap_or_default()
    }

    /// Resources of which something happened in a namespace.
    pub fn resources(&self, namespace: &str) -> Vec<String> {
        let mut found: Vec<String> = self
            .history
            .keys()
            .filter(|(_, ns)| ns == namespace)
            .map(|(resource, _)| resource.clone())
            .collect();
        found.sort();
        found
    }

    /// Whether we have been told of our own last write to an object.
    pub fn fresh(&self, resource: &str, namespace: &str, name: &str) -> bool {
        let key = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        let floor = self.floor.get(&key).copied().unwrap_or_default();
        self.head.get(resource).copied().unwrap_or_default() >= floor
    }

    /// When something last changed in a namespace.
    pub fn touched(&self, namespace: &str) -> Option<Instant> {
        self.touched.get(namespace).copied()
    }

    fn note(&mut self, resource: &str, change: Change, object: Value) {
        let (namespace, name) = (object::namespace(&object).to_owned(), object::name(&object).to_owned());
        let object = Arc::new(object);
        let at = Instant::now();
        let table = self.objects.entry(resource.to_owned()).or_default();
        match change {
            Change::Deleted => drop(table.remove(&(namespace.clone(), name))),
            _ => drop(table.insert((namespace.clone(), name), object.clone())),
        }
        let head = self.head.entry(resource.to_owned()).or_default();
        *head = (*head).max(object::version(&object));
        if !matches!(resource, "leases" | "events") {
            self.touched.insert(namespace.clone(), at);
        }
        self.history.entry((resource.to_owned(), namespace)).or_default().push(Happened {
            at,
            change,
            object,
        });
    }
}

/// The recorder.
pub struct Recorder {
    api: Arc<Api>,
    known: Mutex<Known>,
    moved: watch::Sender<u64>,
    watching: Mutex<HashSet<String>>,
    cancel: CancellationToken,
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Recorder {
    /// Starts to watch, and returns when the first lists are there.
    pub async fn start(api: Arc<Api>) -> anyhow::Result<Arc<Self>> {
        let recorder = Arc::new(Self {
            api,
            known: Mutex::default(),
            moved: watch::Sender::new(0),
            watching: Mutex::default(),
            cancel: CancellationToken::new(),
        });
        // The table of resources is read once, not by all at once.
        recorder.api.entry("pods").await?;
        futures::future::try_join_all(WATCHED.iter().map(|resource| recorder.add(resource))).await?;
        Ok(recorder)
    }

    /// Watches a resource too.
    pub async fn add(self: &Arc<Self>, resource: &str) -> anyhow::Result<()> {
        if !self.watching.lock().insert(resource.to_owned()) {
            return Ok(());
        }
        let entry = self.api.entry(resource).await?;
        let (first, listed) = tokio::sync::oneshot::channel();
        let watcher = Watcher {
            // The watcher must not keep the recorder alive.
            recorder: Arc::downgrade(self),
            api: self.api.clone(),
            entry,
            resource: resource.to_owned(),
            known: HashMap::new(),
        };
        tokio::spawn(watcher.run(first, self.cancel.clone()));
        match tokio::time::timeout(FIRST, listed).await {
            Ok(Ok(())) => Ok(()),
            _ => anyhow::bail!("{resource} could not be listed within {FIRST:?}"),
        }
    }

    /// What is known now. Not to be held over an await.
    pub fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    /// After a write of our own: a wait must not judge anything older.
    pub fn require(&self, resource: &str, object: &Value) {
        let version = object::version(object);
        if version == 0 || !self.watching.lock().contains(resource) {
            return;
        }
        let key =
            (resource.to_owned(), object::namespace(object).to_owned(), object::name(object).to_owned());
        let mut known = self.known.lock();
        let floor = known.floor.entry(key).or_default();
        *floor = (*floor).max(version);
    }

    /// Waits until something holds; false if it did not in time.
    pub async fn wait(&self, limit: Duration, mut holds: impl FnMut(&Known) -> bool) -> bool {
        let end = tokio::time::Instant::now() + limit;
        let mut moved = self.moved.subscribe();
        loop {
            if holds(&self.known.lock()) {
                return true;
            }
            tokio::select! {
                _ = moved.changed() => {}
                () = tokio::time::sleep_until(end) => return holds(&self.known.lock()),
            }
        }
    }

    fn note(&self, resource: &str, change: Change, object: Value) {
        self.known.lock().note(resource, change, object);
        self.moved.send_modify(|n| *n += 1);
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct WithData {
    data: Ordered,
}

struct Watcher {
    recorder: std::sync::Weak<Recorder>,
    api: Arc<Api>,
    entry: Arc<Entry>,
    resource: String,
    known: HashMap<String, Value>,
}

impl Watcher {
    async fn run(mut self, first: tokio::sync::oneshot::Sender<()>, cancel: CancellationToken) {
        let mut first = Some(first);
        let watching = async {
            let mut version = None;
            loop {
                version = match version {
                    None => self.list().await,
                    Some(version) => {
                        // Nobody waits for later lists.
                        let _ = first.take().map(|first| first.send(()));
                        self.watch(version).await
                    }
                };
                if version.is_none() {
                    tokio::time::sleep(RETRY).await;
                }
            }
        };
        tokio::select! {
            () = watching => {}
            () = cancel.cancelled() => {}
        }
    }

    fn tell(&self, change: Change, object: Value) {
        if let Some(recorder) = self.recorder.upgrade() {
            recorder.note(&self.resource, change, object);
        }
    }

    /// Lists and tells what is new; also what vanished while nobody watched.
    async fn list(&mut self) -> Option<String> {
        let doc = self.api.get(&self.entry.path("", "", "")).await.ok()?;
        let mut seen = HashMap::new();
        for item in list(&doc["items"]) {
            let mut item = item.clone();
            item["apiVersion"] = self.entry.api_version.as_str().into();
            item["kind"] = self.entry.kind.as_str().into();
            let uid = text(&item["metadata"]["uid"]).to_owned();
            match self.known.get(&uid) {
                None => self.tell(Change::Added, item.clone()),
                Some(old) if object::version(old) != object::version(&item) => {
                    self.tell(Change::Modified, item.clone())
                }
                Some(_) => {}
            }
            seen.insert(uid, item);
        }
        for (uid, object) in std::mem::replace(&mut self.known, seen) {
            if !self.known.contains_key(&uid) {
                self.tell(Change::Deleted, object);
            }
        }
        Some(text(&doc["metadata"]["resourceVersion"]).to_owned())
    }

    /// Watches until the stream ends; the version to go on from, or none if a
    /// list is needed.
    async fn watch(&mut self, mut version: String) -> Option<String> {
        let path = self.entry.path("", "", "");
        let target =
            format!("{path}?watch=1&allowWatchBookmarks=true&timeoutSeconds=600&resourceVersion={version}");
        let head = crate::client::headers([("user-agent", "parity-harness"), ("accept", "application/json")]);
        let opened =
            self.api.client().open(Method::GET, &target, head.unwrap_or_default(), Bytes::new()).await;
        let response = opened.ok().filter(|r| r.status().is_success())?;
        let mut lines = Lines::new(response.into_body());
        while let Some(line) = lines.next().await {
            let event: Event<'_> = serde_json::from_slice(&line).ok()?;
            let change = match event.kind {
                "ADDED" => Change::Added,
                "MODIFIED" => Change::Modified,
                "DELETED" => Change::Deleted,
                "BOOKMARK" => {
                    let object: Value = serde_json::from_str(event.object.get()).ok()?;
                    version = text(&object["metadata"]["resourceVersion"]).to_owned();
                    continue;
                }
                _ => return None,
            };
            let mut object: Value = serde_json::from_str(event.object.get()).ok()?;
            version = text(&object["metadata"]["resourceVersion"]).to_owned();
            if self.resource == "controllerrevisions" {
                // The bytes are what counts.
                let read: WithData = serde_json::from_str(event.object.get()).ok()?;
                object["data"] = read.data.to_string().into();
            }
            let uid = text(&object["metadata"]["uid"]).to_owned();
            match change {
                Change::Deleted => drop(self.known.remove(&uid)),
                _ => drop(self.known.insert(uid, object.clone())),
            }
            self.tell(change, object);
        }
        Some(version)
    }
}
