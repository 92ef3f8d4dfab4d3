//! A server that answers as a test says, a cache that holds what a test says,
//! and short forms for plans.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    api::ApiClient,
    clock::SystemClock,
    contract::*,
    entropy::Entropy,
    events::EventRecorder,
    executor::{Cached, Executed, Executor, ExecutorConfig, Pass, SeenBy, WriteGate},
    key::Key,
    registry::{Discovered, Registry},
    store::{Seen, UidState},
};

/// A request that the server was sent.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) content_type: String,
    pub(super) accept: String,
    pub(super) body: Value,
}

impl Asked {
    /// `PATCH /api/v1/…`
    pub(super) fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

/// What the server does.
pub(super) enum Reply {
    /// Answers.
    Answer(u16, Value),
    /// Answers that the client should wait.
    Throttle(Option<u64>),
    /// Closes the connection.
    Lost,
}

/// Answers 200 with an object.
pub(super) fn ok(body: Value) -> Reply {
    Reply::Answer(200, body)
}

/// Answers with a Status.
pub(super) fn refuse(code: u16, reason: &str) -> Reply {
    Reply::Answer(
        code,
        json!({"kind": "Status", "status": "Failure", "reason": reason, "code": code, "message": format!("says {reason}")}),
    )
}

/// Answers that there is no object of this name.
pub(super) fn gone(name: &str) -> Reply {
    let message = format!("things.example.com {name:?} not found");
    Reply::Answer(
        404,
        json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": message}),
    )
}

/// An object with metadata.
pub(super) fn thing(name: &str, uid: &str, version: u64) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": version.to_string()}})
}

/// The cache.
#[derive(Default)]
pub(super) struct FakeCache {
    /// By name; all of them things.
    pub(super) objects: Mutex<HashMap<String, Seen>>,
    pub(super) deleting: Mutex<Vec<String>>,
    pub(super) observed: Mutex<Option<u64>>,
    pub(super) gone: AtomicBool,
    /// What refs mean, by id; none once the view moved on.
    pub(super) refs: Mutex<HashMap<u32, String>>,
    pub(super) ticks: watch::Sender<u64>,
}

impl FakeCache {
    /// Puts a thing in, under its name and as ref `id`.
    pub(super) fn put(&self, id: u32, name: &str, uid: &str, version: u64) {
        let seen = Seen {
            namespace: "ns".into(),
            name: name.into(),
            uid: uid.into(),
            resource_version: version.to_string(),
        };
        self.objects.lock().insert(name.to_owned(), seen);
        self.refs.lock().insert(id, name.to_owned());
        self.ticks.send_modify(|tick| *tick += 1);
    }
}

impl Cached for FakeCache {
    fn observed(&self, _resource: u32) -> Option<u64> {
        *self.observed.lock()
    }
    fn uid_state(&self, _resource: u32, _namespace: &str, name: &str, uid: &str) -> UidState {
        match self.objects.lock().get(name) {
            Some(seen) if *seen.uid == *uid && self.deleting.lock().iter().any(|d| d == uid) => {
                UidState::Deleting
            }
            Some(seen) if *seen.uid == *uid => UidState::Live,
            _ => UidState::Gone,
        }
    }
    fn by_name(&self, _resource: u32, _namespace: &str, name: &str) -> Option<Seen> {
        self.objects.lock().get(name).cloned()
    }
    fn absent(&self, _resource: u32) -> bool {
        self.gone.load(Ordering::Relaxed)
    }
    fn show(&self, _resource: u32) -> String {
        "things".into()
    }
    fn progress(&self) -> watch::Receiver<u64> {
        self.ticks.subscribe()
    }
}

impl SeenBy for FakeCache {
    fn current(&self, object: &ObjectRef) -> Option<Seen> {
        let name = self.refs.lock().get(&object.id)?.clone();
        self.objects.lock().get(&name).cloned()
    }
    fn pruned_array(&self, _resource: u32, patch: &Value) -> Option<String> {
        patch.pointer("/status/conditions").map(|_| "status.conditions".to_owned())
    }
}

/// A gate that tests close.
pub(super) struct Gate(pub(super) AtomicBool);

impl WriteGate for Gate {
    fn admit(&self) -> Option<Pass> {
        self.may_write().then(Pass::default)
    }
    fn may_write(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Everything around one executor.
pub(super) struct Kit {
    pub(super) executor: Arc<Executor>,
    pub(super) cache: Arc<FakeCache>,
    pub(super) gate: Arc<Gate>,
    pub(super) things: u32,
    /// All requests but those about events.
    pub(super) asked: Arc<Mutex<Vec<Asked>>>,
    /// Events that were written.
    pub(super) events: Arc<Mutex<Vec<Value>>>,
}

/// The resource that tests write.
pub(super) fn things() -> GroupResource {
    GroupResource { group: "example.com".into(), version: "v1".into(), resource: "things".into() }
}

/// A manifest that reads and writes things.
pub(super) fn manifest() -> Manifest {
    let verbs = ["create", "patch", "update", "delete", "deletecollection"].map(str::to_owned).to_vec();
    let write = |subresource: &str| WriteRule {
        resource: things(),
        subresource: subresource.into(),
        verbs: verbs.clone(),
    };
    Manifest {
        version: "1".into(),
        state_format: 1,
        reads: vec![Read {
            resource: things(),
            optional: false,
            fields: vec![],
            whole: true,
            sensitive: vec![],
            indexes: vec![],
        }],
        writes: vec![write(""), write("status"), write("eviction")],
        lookups: vec![
            LookupRule::Get(ResourceRule { resource: things(), subresource: String::new() }),
            LookupRule::List(things()),
            LookupRule::Raw("/apis/metrics.example/".into()),
            LookupRule::Sign("ca".into()),
        ],
        ..Manifest::blank("thing-controller")
    }
}

impl Kit {
    /// A kit with a server; `change` may alter the settings.
    pub(super) fn with(
        change: impl FnOnce(&mut ExecutorConfig),
        answer: impl FnMut(&Asked) -> Reply + Send + 'static,
    ) -> Self {
        let (asked, events) = (Arc::<Mutex<Vec<Asked>>>::default(), Arc::<Mutex<Vec<Value>>>::default());
        let api = ApiClient::new(client(asked.clone(), events.clone(), answer), "test");
        let registry = Registry::new();
        registry.update(vec![Discovered {
            name: things(),
            kind: "Thing".into(),
            scope: Scope::Namespaced,
            verbs: ["list", "watch"].map(str::to_owned).to_vec(),
            preferred: true,
        }]);
        let things = registry.declare(&things());
        let mut config = ExecutorConfig::new(Arc::new(manifest()));
        config.qps = 0.0;
        change(&mut config);
        let cache = Arc::new(FakeCache::default());
        let entropy = Entropy::from_seed(1);
        let (recorder, _) =
            EventRecorder::start(api.clone(), Arc::new(SystemClock), entropy.clone(), Default::default());
        let executor =
            Executor::new(config, api, registry, cache.clone(), recorder, entropy, Arc::new(SystemClock));
        Self { executor, cache, gate: Arc::new(Gate(AtomicBool::new(true))), things, asked, events }
    }

    /// A kit with a server.
    pub(super) fn new(answer: impl FnMut(&Asked) -> Reply + Send + 'static) -> Self {
        Self::with(|_| {}, answer)
    }

    /// Carries steps out for the key `ns/primary`.
    pub(super) async fn run(&self, steps: Vec<Step>) -> Executed {
        let plan = Plan {
            steps,
            events: vec![],
            not_before: None,
            quiet: 0,
            state: StateChange::Keep,
            metrics: vec![],
        };
        let key = Key { source: 0, resource: self.things, namespace: "ns".into(), name: "primary".into() };
        let gate: Arc<dyn WriteGate> = self.gate.clone();
        self.executor.carry_out(&key, plan, &*self.cache, &gate).await
    }

    /// Carries one action out.
    pub(super) async fn act(&self, action: Action) -> Executed {
        self.run(vec![step(vec![action])]).await
    }

    /// An action that tells of its success and its failure, about the primary.
    pub(super) fn telling(&self, action: Action) -> Action {
        let event = |reason: &str, message: &str| Event {
            about: EventTarget {
                resource: self.things,
                namespace: "ns".into(),
                name: "primary".into(),
                uid: "owner".into(),
            },
            kind: EventKind::Warning,
            reason: reason.into(),
            message: message.into(),
        };
        Action {
            on_success: Some(event("Created", "made {name} {x}")),
            on_failure: Some(event("FailedCreate", "no {name}: {message}")),
            ..action
        }
    }

    /// `METHOD path` of all requests so far.
    pub(super) fn lines(&self) -> Vec<String> {
        self.asked.lock().iter().map(Asked::line).collect()
    }

    /// An action on a thing.
    pub(super) fn action(&self, name: &str, verb: Verb) -> Action {
        Action {
            tag: format!("{name}!"),
            resource: self.things,
            namespace: "ns".into(),
            name: name.into(),
            subresource: String::new(),
            verb,
            precondition: Precondition::None,
            on_success: None,
            on_failure: None,
        }
    }

    /// An action on a thing, as seen under ref `id`.
    pub(super) fn as_seen(&self, id: u32, name: &str, verb: Verb) -> Action {
        let seen = ObjectRef { resource: self.things, id, version: 1 };
        Action { precondition: Precondition::AsSeen(seen), ..self.action(name, verb) }
    }
}

/// A client of a server that is a function.
pub(super) fn client(
    asked: Arc<Mutex<Vec<Asked>>>,
    events: Arc<Mutex<Vec<Value>>>,
    answer: impl FnMut(&Asked) -> Reply + Send + 'static,
) -> kube::Client {
    let answer = Arc::new(Mutex::new(answer));
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (asked, events, answer) = (asked.clone(), events.clone(), answer.clone());
        async move {
            let (parts, body) = request.into_parts();
            let header = |name: &str| {
                parts.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned()
            };
            let bytes = body.collect().await.unwrap().to_bytes();
            let request = Asked {
                method: parts.method.to_string(),
                path: parts.uri.path().to_owned(),
                query: parts.uri.query().unwrap_or_default().to_owned(),
                content_type: header("content-type"),
                accept: header("accept"),
                body: serde_json::from_slice(&bytes).unwrap_or_default(),
            };
            // A request takes a moment, so that others can be under way.
            tokio::time::sleep(Duration::from_millis(1)).await;
            let reply = if request.path.ends_with("/events") {
                events.lock().push(request.body.clone());
                ok(request.body)
            } else {
                asked.lock().push(request.clone());
                (answer.lock())(&request)
            };
            let (status, body, wait) = match reply {
                Reply::Answer(status, body) => (status, body, None),
                Reply::Throttle(wait) => {
                    (429, json!({"kind": "Status", "reason": "TooManyRequests", "code": 429}), wait)
                }
                Reply::Lost => return Err(std::io::Error::other("connection reset")),
            };
            let mut response = http::Response::builder().status(status);
            if let Some(wait) = wait {
                response = response.header("retry-after", wait);
            }
            Ok(response.body(Full::new(Bytes::from(body.to_string()))).unwrap())
        }
    });
    kube::Client::new(service, "default")
}

/// A step that stops on failure, all together.
pub(super) fn step(actions: Vec<Action>) -> Step {
    Step { actions, pace: Pace::Together, on_failure: OnFailure::Stop }
}

/// A patch.
pub(super) fn patch(kind: PatchKind, body: Value) -> Verb {
    Verb::Patch(Patch { kind, body: body.to_string(), field_manager: String::new(), force: false })
}

/// A create of a thing with a controller.
pub(super) fn create(metadata: Value) -> Verb {
    let mut body = json!({"metadata": metadata, "spec": {}});
    body["metadata"]["ownerReferences"] = json!([{"uid": "owner", "controller": true}]);
    Verb::Create(body.to_string())
}

/// A plain delete.
pub(super) fn delete() -> Verb {
    Verb::Delete(DeleteOptions { propagation: None, grace_seconds: None })
}

/// The failure of the first result.
pub(super) fn failure(executed: &Executed) -> &Failure {
    match executed.results.first().map(|result| &result.result) {
        Some(ActionOutcome::Failed(failure)) => failure,
        other => panic!("not a failure: {other:?}"),
    }
}
