//! Discovery against a scripted API server, in paused time.

use std::{
    convert::Infallible,
    sync::atomic::{AtomicUsize, Ordering},
};

use http::{Request, Response, header};
use http_body_util::Full;
use kube::client::Body;
use parking_lot::Mutex;

use super::*;
use crate::contract::{GroupResource, Scope, SyncState};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

type Answer = Response<Full<bytes::Bytes>>;
type Script = Box<dyn FnMut(&Request<Body>) -> Answer + Send>;

struct Rig {
    registry: Arc<Registry>,
    status: watch::Receiver<DiscoveryStatus>,
    script: Arc<Mutex<Script>>,
    rounds: Arc<AtomicUsize>,
    cancel: CancellationToken,
}

impl Rig {
    fn new(script: impl FnMut(&Request<Body>) -> Answer + Send + 'static) -> Self {
        let script: Arc<Mutex<Script>> = Arc::new(Mutex::new(Box::new(script)));
        let rounds = Arc::new(AtomicUsize::new(0));
        let service = tower::service_fn({
            let (script, rounds) = (script.clone(), rounds.clone());
            move |request: Request<Body>| {
                if request.uri().path() == "/api" {
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
                let answer = (script.lock())(&request);
                async move { Ok::<_, Infallible>(answer) }
            }
        });
        let api = ApiClient::new(kube::Client::new(service, "default"), "test");
        let registry = Registry::new();
        let (sender, status) = watch::channel(DiscoveryStatus::default());
        let cancel = CancellationToken::new();
        tokio::spawn(run(api, registry.clone(), DEFAULT_INTERVAL, sender, cancel.clone()));
        Self { registry, status, script, rounds, cancel }
    }

    fn now_answers(&self, script: impl FnMut(&Request<Body>) -> Answer + Send + 'static) {
        *self.script.lock() = Box::new(script);
    }

    /// Lets two more rounds go by, so that one of them is complete.
    async fn rounds(&self) {
        sleep(2 * DEFAULT_INTERVAL).await;
    }

    fn names(&self) -> Vec<String> {
        let all = self.registry.all();
        let mut names: Vec<_> =
            all.iter().map(|r| format!("{}/{}/{}/{}", r.group, r.version, r.resource, r.kind)).collect();
        names.sort();
        names
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

fn answer(status: u16, content_type: &str, body: serde_json::Value) -> Answer {
    let body = Full::from(body.to_string());
    Response::builder().status(status).header(header::CONTENT_TYPE, content_type).body(body).unwrap()
}

fn refusal(status: u16, reason: &str, message: &str) -> Answer {
    answer(
        status,
        "application/json",
        serde_json::json!({"kind": "Status", "code": status, "reason": reason, "message": message}),
    )
}

fn group(name: &str, versions: serde_json::Value) -> serde_json::Value {
    serde_json::json!({"metadata": {"name": name}, "versions": versions})
}

fn version(version: &str, freshness: &str, resources: &[(&str, &str, &str)]) -> serde_json::Value {
    let resources: Vec<_> = resources
        .iter()
        .map(|(resource, kind, scope)| {
            serde_json::json!({"resource": resource, "responseKind": {"group": "", "version": "", "kind": kind},
                "scope": scope, "verbs": ["get", "list", "watch"],
                "subresources": [{"subresource": "status", "verbs": ["get"]}]})
        })
        .collect();
    serde_json::json!({"version": version, "freshness": freshness, "resources": resources})
}

fn core() -> serde_json::Value {
    serde_json::json!([{"versions": [version("v1", "Current", &[("pods", "Pod", "Namespaced"), ("nodes", "Node", "Cluster")])]}])
}

/// Aggregated discovery with these groups besides the core one.
fn aggregated(groups: serde_json::Value) -> impl FnMut(&Request<Body>) -> Answer + Send {
    move |request| {
        let accept = request.headers()[header::ACCEPT].to_str().unwrap();
        assert!(accept.starts_with(AGGREGATED), "{accept}");
        let items = if request.uri().path() == "/api" { core() } else { groups.clone() };
        let mut answer = answer(200, AGGREGATED, serde_json::json!({"items": items}));
        // As the real ones are: a hash of the content, in quotes.
        let etag = format!("\"{}\"", items.to_string().len());
        if request.headers().get(header::IF_NONE_MATCH).is_some_and(|v| *v == *etag) {
            return Response::builder().status(304).body(Full::default()).unwrap();
        }
        answer.headers_mut().insert(header::ETAG, etag.parse().unwrap());
        answer
    }
}

fn name(group: &str, version: &str, resource: &str) -> GroupResource {
    GroupResource { group: group.into(), version: version.into(), resource: resource.into() }
}

#[tokio::test(start_paused = true)]
async fn aggregated_discovery_tells_resources_and_preferred_versions() {
    let groups = serde_json::json!([group(
        "x.io",
        serde_json::json!([
            version("v1", "Current", &[("things", "Thing", "Namespaced")]),
            version("v1beta1", "Current", &[("things", "Thing", "Namespaced"), ("olds", "Old", "Cluster")]),
        ])
    )]);
    let rig = Rig::new(aggregated(groups));
    rig.rounds().await;
    // A resource that only an older version has is read in that.
    assert_eq!(
        rig.names(),
        ["/v1/nodes/Node", "/v1/pods/Pod", "x.io/v1/things/Thing", "x.io/v1beta1/olds/Old"]
    );
    let nodes = rig.registry.resolve(&name("", "v1", "nodes")).unwrap();
    assert_eq!(rig.registry.info(nodes).unwrap().scope, Scope::Cluster);
    assert!(rig.registry.watchable(nodes));
    assert!(rig.status.borrow().complete);
    // The other version is served all the same.
    rig.registry.declare(&name("x.io", "v1beta1", "things"));
    assert!(rig.registry.resolve(&name("x.io", "v1beta1", "things")).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_change_is_found_at_the_next_round_or_when_asked_for() {
    let rig = Rig::new(aggregated(serde_json::json!([])));
    rig.rounds().await;
    let version_before = rig.registry.version();
    rig.rounds().await;
    assert_eq!(rig.registry.version(), version_before, "nothing has changed");

    let groups = || {
        serde_json::json!([group(
            "x.io",
            serde_json::json!([version("v1", "Current", &[("things", "Thing", "Namespaced")])])
        )])
    };
    rig.now_answers(aggregated(groups()));
    rig.registry.request_discovery();
    sleep(Duration::from_millis(600)).await;
    let things = rig.registry.resolve(&name("x.io", "v1", "things")).expect("found when asked for");
    rig.now_answers(aggregated(serde_json::json!([])));
    rig.rounds().await;
    assert_eq!(rig.registry.state(things), SyncState::Absent);
}

#[tokio::test(start_paused = true)]
async fn asking_again_and_again_does_not_flood_the_server() {
    let rig = Rig::new(aggregated(serde_json::json!([])));
    rig.rounds().await;
    let before = rig.rounds.load(Ordering::Relaxed);
    for _ in 0..1000 {
        rig.registry.request_discovery();
        sleep(Duration::from_millis(10)).await;
    }
    let rounds = rig.rounds.load(Ordering::Relaxed) - before;
    assert!((15..=21).contains(&rounds), "{rounds} rounds in ten seconds");
}

#[tokio::test(start_paused = true)]
async fn a_stale_group_version_keeps_its_resources_and_is_reported() {
    let groups = |freshness: &str, resources: &[(&str, &str, &str)]| {
        serde_json::json!([group("x.io", serde_json::json!([version("v1", freshness, resources)]))])
    };
    let rig = Rig::new(aggregated(groups("Current", &[("things", "Thing", "Namespaced")])));
    rig.rounds().await;
    rig.now_answers(aggregated(groups("Stale", &[])));
    rig.rounds().await;
    assert!(rig.registry.resolve(&name("x.io", "v1", "things")).is_some());
    assert_eq!(rig.status.borrow().unanswered, ["x.io/v1"]);
    rig.now_answers(aggregated(groups("Current", &[])));
    rig.rounds().await;
    assert!(rig.registry.resolve(&name("x.io", "v1", "things")).is_none());
    assert!(rig.status.borrow().unanswered.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_null_in_somebodys_discovery_costs_nobody_anything() {
    let odd = serde_json::json!([
        {"metadata": null, "versions": null},
        {"metadata": {"name": "metrics.x.io"}, "versions": [
            {"version": "v1", "resources": null, "freshness": null},
            {"version": "v2", "resources": [{"resource": "pods", "responseKind": null, "scope": null, "verbs": null}]}]},
        group("x.io", serde_json::json!([version("v1", "Current", &[("things", "Thing", "Namespaced")])])),
    ]);
    let rig = Rig::new(aggregated(odd));
    rig.rounds().await;
    assert_eq!(rig.status.borrow().error, None);
    assert!(rig.registry.resolve(&name("x.io", "v1", "things")).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_failed_half_of_a_round_loses_no_change() {
    let rig = Rig::new(aggregated(serde_json::json!([])));
    rig.rounds().await;
    // The core group changes, and is read; the other document fails meanwhile.
    let mut half = changed_core();
    rig.now_answers(move |request| {
        if request.uri().path() == "/api" { half(request) } else { refusal(500, "InternalError", "no") }
    });
    rig.rounds().await;
    assert!(rig.status.borrow().error.is_some());
    rig.now_answers(changed_core());
    rig.rounds().await;
    assert_eq!(rig.status.borrow().error, None);
    assert_eq!(rig.names(), ["/v1/pods/Pod"]);
}

/// The core group without nodes.
fn changed_core() -> impl FnMut(&Request<Body>) -> Answer + Send {
    let mut rest = aggregated(serde_json::json!([]));
    move |request| {
        if request.uri().path() != "/api" {
            return rest(request);
        }
        if request.headers().get(header::IF_NONE_MATCH).is_some_and(|v| v == "\"changed\"") {
            return Response::builder().status(304).body(Full::default()).unwrap();
        }
        let items =
            serde_json::json!([{"versions": [version("v1", "Current", &[("pods", "Pod", "Namespaced")])]}]);
        let mut answer = answer(200, AGGREGATED, serde_json::json!({"items": items}));
        answer.headers_mut().insert(header::ETAG, "\"changed\"".parse().unwrap());
        answer
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_not_up_yet_is_waited_for() {
    let rig = Rig::new(|_| refusal(503, "ServiceUnavailable", "not yet"));
    rig.rounds().await;
    assert!(!rig.status.borrow().complete);
    assert!(rig.status.borrow().error.as_deref().is_some_and(|e| e.contains("503")));
    rig.now_answers(aggregated(serde_json::json!([])));
    rig.rounds().await;
    assert!(rig.status.borrow().complete);
    assert_eq!(rig.names().len(), 2);
    // It goes away again, and what it served is not forgotten.
    rig.now_answers(|_| refusal(503, "ServiceUnavailable", "no more"));
    rig.rounds().await;
    assert!(rig.status.borrow().complete && rig.status.borrow().error.is_some());
    assert_eq!(rig.names().len(), 2);
}

/// A server that knows no aggregated discovery.
fn plain(x_answers: bool) -> impl FnMut(&Request<Body>) -> Answer + Send {
    move |request| {
        let body = match request.uri().path() {
            "/api" => serde_json::json!({"kind": "APIVersions", "versions": ["v1"]}),
            "/apis" => serde_json::json!({"kind": "APIGroupList", "groups": [{
                "name": "x.io",
                "versions": [{"groupVersion": "x.io/v1beta1", "version": "v1beta1"}, {"groupVersion": "x.io/v1", "version": "v1"}],
                "preferredVersion": {"groupVersion": "x.io/v1", "version": "v1"},
            }]}),
            "/api/v1" => serde_json::json!({"resources": [
                {"name": "pods", "kind": "Pod", "namespaced": true, "verbs": ["list", "watch"]},
                {"name": "pods/status", "kind": "Pod", "namespaced": true, "verbs": ["get"]},
            ]}),
            "/apis/x.io/v1" if x_answers => serde_json::json!({"resources": [
                {"name": "things", "kind": "Thing", "namespaced": false, "verbs": ["list", "watch"]},
            ]}),
            "/apis/x.io/v1beta1" => serde_json::json!({"resources": [
                {"name": "things", "kind": "Thing", "namespaced": false, "verbs": ["list", "watch"]},
            ]}),
            _ => return refusal(503, "ServiceUnavailable", "no"),
        };
        answer(200, "application/json", body)
    }
}

#[tokio::test(start_paused = true)]
async fn plain_discovery_serves_where_aggregated_is_unknown() {
    let rig = Rig::new(plain(true));
    rig.rounds().await;
    assert_eq!(rig.names(), ["/v1/pods/Pod", "x.io/v1/things/Thing"]);
    rig.now_answers(plain(false));
    rig.rounds().await;
    assert_eq!(
        rig.names(),
        ["/v1/pods/Pod", "x.io/v1/things/Thing"],
        "a group version that fails keeps what it had"
    );
    assert_eq!(rig.status.borrow().unanswered, ["x.io/v1"]);
}

#[test]
fn only_a_change_of_state_is_worth_a_line() {
    let refused = |message: &str| ApiError {
        failure: crate::contract::Failure {
            status: 503,
            reason: "ServiceUnavailable".into(),
            message: message.into(),
            causes: Vec::new(),
        },
        retry_after: None,
    };
    let before = DiscoveryStatus { error: Some(refused("request 1").to_string()), ..Default::default() };
    assert!(same_kind(&before, &refused("request 2")));
    assert!(!same_kind(&before, &ApiError::no_answer("connection refused")));
}
