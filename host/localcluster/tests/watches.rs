//! Watches and lists where transcripts cannot look: compaction, bookmarks in time, shared bytes, seeds.

use std::sync::Arc;
use std::time::Duration;

use coxswain_localcluster::faults::{Action, Rule, Selection};
use coxswain_localcluster::rest::clock::Clock;
use coxswain_localcluster::rest::options::{DeleteOptions, ListOptions};
use coxswain_localcluster::rest::{Body, Request, Rest, RestConfig, admin};
use coxswain_localcluster::storage::{HistoryLimits, Store};
use coxswain_localcluster::{AuthorizationMode, InProcess, Target, WatchEvent};
use futures::StreamExt;
use serde_json::{Value, json};

fn maps() -> Target<'static> {
    Target::new("v1", "configmaps").in_namespace("default")
}

fn api() -> InProcess {
    let rest = Rest::new(RestConfig {
        authorization: AuthorizationMode::default(),
        store: Store::new(HistoryLimits::default()),
        clock: Clock::starting_at("2026-01-01T00:00:00Z".parse().expect("time")),
        seed: Some(42),
        admin_token: String::new(),
        service_account_key: Vec::new(),
        admin_endpoint: false,
    });
    let api = InProcess::new(rest, "test");
    let namespace = json!({"metadata": {"name": "default"}});
    api.create(&Target::new("v1", "namespaces"), &namespace).expect("namespace");
    api
}

fn create(api: &InProcess, name: &str) -> Value {
    api.create(&maps(), &json!({"metadata": {"name": name}})).expect("creates")
}

fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().expect("version").to_owned()
}

async fn get(api: &InProcess, path_and_query: &str) -> (u16, Value) {
    let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
    let request =
        Request { path: path.into(), query: query.into(), identity: Some(admin()), ..Request::default() };
    let response = api.rest().handle(request).await.expect("not cut");
    let code = response.status().as_u16();
    match response.into_body() {
        Body::Full(bytes) => (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null)),
        Body::Stream(mut lines) => {
            let first = lines.next().await.unwrap_or_default();
            (code, serde_json::from_slice(&first).unwrap_or(Value::Null))
        }
    }
}

#[tokio::test]
async fn after_compaction_old_versions_are_gone_and_pages_can_go_on() {
    let api = api();
    for name in ["a", "b", "c"] {
        create(&api, name);
    }
    let list = "/api/v1/namespaces/default/configmaps";
    let (_, page) = get(&api, &format!("{list}?limit=1")).await;
    let token = page["metadata"]["continue"].as_str().expect("token").to_owned();
    let old = page["metadata"]["resourceVersion"].as_str().expect("version").to_owned();
    create(&api, "bb");
    api.rest().store().compact(api.rest().store().version());

    let (code, status) = get(&api, &format!("{list}?limit=1&continue={token}")).await;
    assert_eq!((code, status["reason"].as_str()), (410, Some("Expired")));
    let token = status["metadata"]["continue"].as_str().expect("a token to go on with");
    let (code, rest) = get(&api, &format!("{list}?limit=9&continue={token}")).await;
    assert_eq!(code, 200);
    let names: Vec<_> =
        rest["items"].as_array().expect("items").iter().map(|i| &i["metadata"]["name"]).collect();
    assert_eq!(names, ["b", "bb", "c"], "from where it stopped, as things are now");

    let (code, status) = get(&api, &format!("{list}?resourceVersion={old}&resourceVersionMatch=Exact")).await;
    assert_eq!(code, 410);
    assert_eq!(status["metadata"].get("continue"), None);
    assert_eq!(get(&api, &format!("{list}/a?resourceVersion={old}")).await.0, 200);
    let (code, event) = get(&api, &format!("{list}?watch=1&resourceVersion={old}")).await;
    assert_eq!(code, 200);
    assert_eq!((event["type"].as_str(), event["object"]["code"].as_u64()), (Some("ERROR"), Some(410)));
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_each_minute_and_before_the_end() {
    let api = api();
    let made = create(&api, "a");
    let options = ListOptions {
        watch: true,
        bookmarks: true,
        resource_version: version(&made),
        timeout_seconds: Some(100),
        ..ListOptions::default()
    };
    let start = tokio::time::Instant::now();
    let mut watching = api.watch(&maps(), &options).expect("watch");
    let mut at = Vec::new();
    while let Some(event) = watching.next().await {
        let WatchEvent::Bookmark(_, initial_end) = event else { panic!("{event:?}") };
        assert!(!initial_end);
        at.push(start.elapsed().as_secs());
    }
    assert_eq!(at.len(), 2, "{at:?}");
    assert!((60..=66).contains(&at[0]) && at[1] == 98, "{at:?}");
    assert_eq!(start.elapsed().as_secs(), 100);
}

#[tokio::test]
async fn watchers_of_one_resource_are_sent_the_same_bytes() {
    let api = api();
    let watch = || async {
        let request = Request {
            path: "/api/v1/configmaps".into(),
            query: "watch=1".into(),
            identity: Some(admin()),
            ..Request::default()
        };
        match api.rest().handle(request).await.expect("not cut").into_body() {
            Body::Stream(lines) => lines,
            Body::Full(_) => panic!("not a watch"),
        }
    };
    let (mut one, mut two) = (watch().await, watch().await);
    create(&api, "a");
    let (first, second) = (one.next().await.expect("event"), two.next().await.expect("event"));
    assert_eq!(first.as_ptr(), second.as_ptr(), "one encoding for all");
    assert!(first.starts_with(br#"{"type":"ADDED""#));
}

#[tokio::test]
async fn a_selector_watch_shows_the_last_selected_state_of_what_leaves() {
    let api = api();
    let object = json!({"metadata": {"name": "a", "labels": {"t": "yes"}}, "data": {"k": "1"}});
    let made = api.create(&maps(), &object).expect("creates");
    let options = ListOptions {
        watch: true,
        label_selector: "t=yes".into(),
        resource_version: version(&made),
        ..ListOptions::default()
    };
    let mut watching = api.watch(&maps(), &options).expect("watch");
    let mut changed = made.clone();
    changed["metadata"]["labels"]["t"] = "no".into();
    changed["data"]["k"] = "2".into();
    let changed = api.update(&maps().named("a"), &changed).expect("updates");
    let Some(WatchEvent::Deleted(last)) = watching.next().await else { panic!("no deletion") };
    assert_eq!(last["data"]["k"], "1");
    assert_eq!(version(&last), version(&changed));
}

#[tokio::test]
async fn watches_close_expire_and_lag_on_request() {
    let api = api();
    let faults = api.rest().faults();
    let rule = |action| Rule {
        on: Selection {
            group: Some(String::new()),
            resource: Some("configmaps".into()),
            ..Selection::default()
        },
        probability: 1.0,
        count: None,
        action,
    };
    let made = create(&api, "a");
    let options = ListOptions { watch: true, resource_version: version(&made), ..ListOptions::default() };
    let mut closed = api.watch(&maps(), &options).expect("watch");
    let mut other = api.watch(&Target::new("v1", "secrets"), &options).expect("watch");
    faults.add(rule(Action::CloseWatches));
    assert_eq!(closed.next().await, None);
    let mut expired = api.watch(&maps(), &options).expect("a new watch is not touched");
    faults.add(rule(Action::ExpireWatches));
    let Some(WatchEvent::Error(status)) = expired.next().await else { panic!("no error") };
    assert_eq!(status.code, 410);
    assert_eq!(expired.next().await, None);

    tokio::time::pause();
    faults.add(rule(Action::DelayWatches { milliseconds: 5_000 }));
    let mut late = api.watch(&maps(), &options).expect("watch");
    create(&api, "b");
    let before = tokio::time::Instant::now();
    assert!(matches!(late.next().await, Some(WatchEvent::Added(_))));
    assert!(before.elapsed() >= Duration::from_secs(5));
    let secret = json!({"metadata": {"name": "s"}});
    let before = tokio::time::Instant::now();
    api.create(&Target::new("v1", "secrets").in_namespace("default"), &secret).expect("creates");
    assert!(matches!(other.next().await, Some(WatchEvent::Added(_))));
    assert!(before.elapsed() < Duration::from_secs(1), "other resources do not lag");
}

#[tokio::test(start_paused = true)]
async fn a_seed_and_virtual_time_make_equal_runs_equal() {
    let run = || async {
        let api = api();
        let generated = api.create(&maps(), &json!({"metadata": {"generateName": "x-"}}));
        tokio::time::advance(Duration::from_secs(5)).await;
        let second = create(&api, "b");
        (generated.expect("creates"), second)
    };
    let (one, two) = (run().await, run().await);
    assert_eq!(one, two);
    assert_eq!(one.1["metadata"]["creationTimestamp"], "2026-01-01T00:00:05Z");
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_that_race_lose_no_update() {
    let api = Arc::new(api());
    create(&api, "a");
    let tasks: Vec<_> = (0..8)
        .map(|writer| {
            let api = api.clone();
            tokio::task::spawn_blocking(move || {
                for round in 0..25 {
                    let patch = json!({"data": {format!("k{writer}-{round}"): "v"}});
                    let merge = coxswain_localcluster::patch::PatchType::Merge;
                    api.patch(&maps().named("a"), merge, &patch).expect("patches");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    let object = api.get(&maps().named("a")).expect("is there");
    assert_eq!(object["data"].as_object().map(|data| data.len()), Some(200));
    api.delete(&maps().named("a"), &DeleteOptions::default()).expect("deletes");
}

/// A pod that is deleted without grace is marked before it goes. Whoever sees the mark, as a kubelet does, may remove
/// the pod first; who asked for it is told no less that it is done.
#[test]
fn a_deletion_without_grace_succeeds_although_somebody_else_is_quicker() {
    let api = Arc::new(api());
    let pod = Target::new("v1", "pods").in_namespace("default").named("p");
    let at_once = || DeleteOptions { grace: Some(0), ..DeleteOptions::default() };
    let watching = |api: Arc<InProcess>| {
        let pod = Target::new("v1", "pods").in_namespace("default").named("p");
        std::thread::spawn(move || {
            while let Ok(seen) = api.get(&pod) {
                if !seen["metadata"]["deletionTimestamp"].is_null() {
                    // Gone by now, perhaps.
                    let _ = api.delete(&pod, &DeleteOptions { grace: Some(0), ..DeleteOptions::default() });
                }
            }
        })
    };
    for _ in 0..300 {
        let body = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
        api.create(&Target::new("v1", "pods").in_namespace("default"), &body).expect("pod");
        let kubelet = watching(api.clone());
        api.delete(&pod, &at_once()).expect("it is deleted, whoever did it");
        kubelet.join().expect("it sees the end");
    }
}
