//! The copy on its own: what it does to the cluster is nothing.

use std::sync::Arc;

use coxswain_localcluster::{
    AuthorizationMode, InProcess, Target,
    rest::{Rest, RestConfig, clock::Clock},
    storage::{HistoryLimits, Store},
};
use http_body_util::BodyExt;

use super::*;
use crate::clock::SystemClock;

/// A cluster, and what it was asked.
struct Cluster {
    rest: Arc<Rest>,
    api: InProcess,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Cluster {
    fn new() -> Self {
        let rest = Rest::new(RestConfig {
            store: Store::new(HistoryLimits::default()),
            clock: Clock::system(),
            seed: Some(1),
            admin_token: String::new(),
            service_account_key: Vec::new(),
            admin_endpoint: false,
            authorization: AuthorizationMode::AlwaysAllow,
        });
        let api = InProcess::new(rest.clone(), "test");
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
        api.create(&Target::new("v1", "namespaces"), &namespace).unwrap();
        Self { rest, api, asked: Arc::default() }
    }

    fn sandbox(&self) -> Arc<Sandbox> {
        let (rest, asked) = (self.rest.clone(), self.asked.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (rest, asked) = (rest.clone(), asked.clone());
            async move {
                let (head, body) = request.into_parts();
                asked.lock().push(format!("{} {}", head.method, head.uri.path()));
                let request = rest::Request {
                    method: head.method,
                    path: head.uri.path().to_owned(),
                    query: head.uri.query().unwrap_or_default().to_owned(),
                    headers: head.headers,
                    body: body.collect().await?.to_bytes(),
                    identity: Some(rest::admin()),
                };
                let response = rest.handle(request).await.map_err(|_| "cut")?;
                Ok::<_, BoxError>(response.map(|body| match body {
                    rest::Body::Full(bytes) => whole(bytes),
                    rest::Body::Stream(_) => whole(Bytes::new()),
                }))
            }
        });
        let client = ApiClient::new(kube::Client::new(service, "default"), "test");
        let clock: SharedClock = Arc::new(SystemClock);
        Sandbox::new(client, &clock)
    }

    fn config_map(&self, name: &str) -> Result<Value, String> {
        let target = Target::new("v1", "configmaps").in_namespace("default").named(name);
        self.api.get(&target).map_err(|status| status.message)
    }
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

const PATH: &str = "/api/v1/namespaces/default/configmaps";

async fn send(
    api: &ApiClient,
    method: Method,
    path: &str,
    kind: &str,
    body: &Value,
) -> Result<Value, ApiError> {
    let headers = [(header::CONTENT_TYPE, kind), (header::ACCEPT, "application/json")];
    let answer = api.send(method, path, &headers, body.to_string().into(), PASSED_ON).await?;
    Ok(serde_json::from_slice(&answer.body).unwrap())
}

#[tokio::test]
async fn writes_are_seen_in_the_copy_and_reach_nobody_else() {
    let cluster = Cluster::new();
    let collection = Target::new("v1", "configmaps").in_namespace("default");
    let theirs = cluster.api.create(&collection, &config_map("theirs")).unwrap();
    let sandbox = cluster.sandbox();
    let api = ApiClient::new(sandbox.client(), "test");

    let patch = json!({"data": {"a": "2"}});
    let path = format!("{PATH}/theirs");
    let patched = send(&api, Method::PATCH, &path, "application/merge-patch+json", &patch).await.unwrap();
    assert_eq!(patched["data"]["a"], "2");
    assert_eq!(patched["metadata"]["uid"], theirs["metadata"]["uid"], "it is the same object");
    let version = patched["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let before = sandbox.with_written(version, |written| written.before.clone()).unwrap().unwrap();
    assert_eq!(before["data"]["a"], "1");
    send(&api, Method::POST, PATH, "application/json", &config_map("ours")).await.unwrap();
    send(&api, Method::DELETE, &path, "application/json", &json!({})).await.unwrap();
    let listed = send(&api, Method::GET, PATH, "", &Value::Null).await.unwrap();
    let names: Vec<_> =
        listed["items"].as_array().unwrap().iter().map(|one| &one["metadata"]["name"]).collect();
    assert_eq!(names, ["ours"]);

    assert_eq!(cluster.config_map("theirs").unwrap(), theirs);
    assert!(cluster.config_map("ours").is_err());
    let asked = cluster.asked.lock().clone();
    assert!(asked.iter().all(|request| request.starts_with("GET ")), "{asked:?}");
    assert_eq!(asked.iter().filter(|request| *request == "GET /api/v1/configmaps").count(), 1, "{asked:?}");
}

#[tokio::test]
async fn what_is_no_part_of_the_copy_is_read_and_never_written() {
    let cluster = Cluster::new();
    let sandbox = cluster.sandbox();
    let api = ApiClient::new(sandbox.client(), "test");
    let version = send(&api, Method::GET, "/version", "", &Value::Null).await.unwrap();
    assert!(version["gitVersion"].is_string(), "{version}");
    let path = "/apis/metrics.example/v1/namespaces/default/numbers";
    let refused = send(&api, Method::POST, path, "application/json", &json!({})).await.unwrap_err();
    assert_eq!(refused.failure.status, 405, "{refused}");
    assert!(refused.failure.message.contains("a plan cannot play this"), "{refused}");
    let missing = send(&api, Method::GET, path, "", &Value::Null).await.unwrap_err();
    assert_eq!(missing.failure.status, 404, "the cluster says so: {missing}");
    let asked = cluster.asked.lock().clone();
    assert!(asked.iter().all(|request| request.starts_with("GET ")), "{asked:?}");
    assert!(asked.contains(&format!("GET {path}")), "{asked:?}");
}

#[tokio::test]
async fn what_cannot_be_read_is_an_error_and_not_an_empty_list() {
    let cluster = Cluster::new();
    let rule = json!({"on": {"verbs": ["list"], "group": "", "resource": "configmaps"}, "count": 1,
        "action": {"type": "forbidden"}});
    let rule = coxswain_localcluster::faults::Rule::parse(rule.to_string().as_bytes()).unwrap();
    cluster.rest.faults().add(rule);
    let api = ApiClient::new(cluster.sandbox().client(), "test");
    let refused = send(&api, Method::GET, PATH, "", &Value::Null).await.unwrap_err();
    assert_eq!(refused.failure.status, 403, "{refused}");
    let listed = send(&api, Method::GET, PATH, "", &Value::Null).await.unwrap();
    assert_eq!(listed["kind"], "ConfigMapList", "it is asked again");
}
