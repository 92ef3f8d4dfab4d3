//! Tokens against a server that makes them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use parking_lot::Mutex;

use super::*;
use crate::{
    clock::Clock,
    contract::{OptionKind, OptionSpec},
};

struct Now(Mutex<Timestamp>);

impl Clock for Now {
    fn now(&self) -> Timestamp {
        *self.0.lock()
    }
}

/// What a server has seen, and how it behaves.
struct Server {
    seen: Mutex<Vec<(String, String)>>,
    tokens: AtomicUsize,
    exists: Mutex<bool>,
    fails: Mutex<bool>,
    refuses: Mutex<Option<String>>,
    clock: Arc<Now>,
}

impl Server {
    fn new() -> Arc<Self> {
        let start = "2026-01-01T00:00:00Z".parse().unwrap();
        Arc::new(Self {
            seen: Mutex::default(),
            tokens: AtomicUsize::new(0),
            exists: Mutex::new(true),
            fails: Mutex::new(false),
            refuses: Mutex::default(),
            clock: Arc::new(Now(Mutex::new(start))),
        })
    }

    fn client(self: &Arc<Self>) -> ApiClient {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, std::convert::Infallible>(server.answer(request).await) }
        });
        ApiClient::new(kube::Client::new(service, "default"), "test")
    }

    async fn answer(&self, request: Request<Body>) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_owned();
        let bearer =
            request.headers().get(header::AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
        self.seen.lock().push((format!("{} {path}", request.method()), bearer.clone().unwrap_or_default()));
        let is_post = request.method() == Method::POST;
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let (code, answer) = if is_post && *self.fails.lock() {
            (503, "{}".to_owned())
        } else if path.ends_with("/token") {
            let asked: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(asked["spec"]["expirationSeconds"], 3600);
            if *self.exists.lock() {
                let number = self.tokens.fetch_add(1, Ordering::SeqCst);
                let end = self.clock.now() + SignedDuration::from_hours(1);
                let spec = r#""spec":{"audiences":[]}"#;
                (
                    201,
                    format!(
                        r#"{{"metadata":{{}},{spec},"status":{{"token":"t{number}","expirationTimestamp":"{end}"}}}}"#
                    ),
                )
            } else {
                (404, r#"{"code":404,"reason":"NotFound"}"#.to_owned())
            }
        } else if is_post {
            *self.exists.lock() = true;
            (201, "{}".to_owned())
        } else if bearer.is_none() || bearer == *self.refuses.lock() {
            (401, r#"{"code":401,"reason":"Unauthorized"}"#.to_owned())
        } else {
            (200, "{}".to_owned())
        };
        Response::builder().status(code).body(Full::new(Bytes::from(answer))).unwrap()
    }

    fn accounts(self: &Arc<Self>) -> ServiceAccounts {
        ServiceAccounts::new(self.client(), self.client(), self.clock.clone())
    }

    fn after(&self, minutes: i64) {
        let mut now = self.clock.0.lock();
        *now += SignedDuration::from_mins(minutes);
    }

    fn bearers(&self) -> Vec<String> {
        let seen = self.seen.lock();
        seen.iter().filter(|(what, _)| what == "GET /api/x").map(|(_, bearer)| bearer.clone()).collect()
    }
}

async fn get(client: &ApiClient) -> Result<(), u32> {
    let asked = client.get("/api/x", Duration::from_secs(5)).await;
    asked.map(|_| ()).map_err(|error| error.failure.status)
}

#[tokio::test]
async fn an_account_is_created_and_its_token_is_kept_and_renewed_in_time() {
    let server = Server::new();
    *server.exists.lock() = false;
    let accounts = server.accounts();
    let (one, other) = (accounts.client("web", "ours"), accounts.client("web", "ours"));
    get(&one).await.unwrap();
    get(&other).await.unwrap();
    server.after(47);
    get(&one).await.unwrap();
    server.after(2);
    get(&one).await.unwrap();
    assert_eq!(server.bearers(), ["Bearer t0", "Bearer t0", "Bearer t0", "Bearer t1"]);
    let path = "POST /api/v1/namespaces/kube-system/serviceaccounts".to_owned();
    let posts: Vec<String> = server.seen.lock().iter().map(|(what, _)| what.clone()).collect();
    let posts: Vec<_> = posts.iter().filter(|what| what.starts_with("POST")).collect();
    let token = format!("{path}/web/token");
    assert_eq!(posts, [&token, &path, &token, &token]);
}

#[tokio::test]
async fn while_none_is_given_the_old_token_goes_on_until_its_end() {
    let server = Server::new();
    let client = server.accounts().client("web", "ours");
    get(&client).await.unwrap();
    *server.fails.lock() = true;
    server.after(50);
    get(&client).await.unwrap();
    get(&client).await.unwrap();
    // The second does not ask again at once.
    assert_eq!(server.seen.lock().iter().filter(|(what, _)| what.ends_with("/token")).count(), 2);
    server.after(11);
    assert_eq!(get(&client).await, Err(503));
    *server.fails.lock() = false;
    get(&client).await.unwrap();
    assert_eq!(server.bearers(), ["Bearer t0", "Bearer t0", "Bearer t0", "Bearer t1"]);
}

#[tokio::test]
async fn a_token_that_is_refused_is_replaced() {
    let server = Server::new();
    let client = server.accounts().client("web", "ours");
    get(&client).await.unwrap();
    *server.refuses.lock() = Some("Bearer t0".into());
    assert_eq!(get(&client).await, Err(401));
    get(&client).await.unwrap();
    assert_eq!(server.bearers(), ["Bearer t0", "Bearer t0", "Bearer t1"]);
}

#[test]
fn a_module_says_which_account_is_its_own() {
    let mut manifest = Manifest::blank("web-controller");
    assert_eq!(account(&manifest), Some("web-controller"));
    manifest.options.push(OptionSpec {
        name: FLAG.into(),
        kind: OptionKind::Text,
        default: "web".into(),
        help: String::new(),
    });
    assert_eq!(account(&manifest), Some("web"));
    manifest.options[0].default = String::new();
    assert_eq!(account(&manifest), None);
}
