use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;

use super::*;
use crate::{
    clock::VirtualClock,
    events::{EventRecorder, Involved},
};

type Sent = Arc<Mutex<Vec<(String, String, Value)>>>;

/// A recorder whose server answers the n-th request with `answer(n)`; 0 is no
/// answer.
fn recorder(
    answer: impl Fn(usize) -> (u16, Value) + Send + Sync + 'static,
) -> (EventRecorder, CancellationToken, tokio::task::JoinHandle<()>, Sent) {
    let sent = Sent::default();
    let (log, answer) = (sent.clone(), Arc::new(answer));
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (log, answer) = (log.clone(), answer.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let (status, reply) = {
                let mut log = log.lock();
                log.push((
                    parts.method.to_string(),
                    parts.uri.path().to_owned(),
                    serde_json::from_slice(&body).unwrap(),
                ));
                answer(log.len())
            };
            if status == 0 {
                return Err(std::io::Error::other("connection reset"));
            }
            Ok(http::Response::builder()
                .status(status)
                .body(Full::new(Bytes::from(reply.to_string())))
                .unwrap())
        }
    });
    let api = ApiClient::new(kube::Client::new(service, "default"), "test");
    let clock = Arc::new(VirtualClock::starting_at(Timestamp::from_second(1_700_000_000).unwrap()));
    let cancel = CancellationToken::new();
    let (recorder, task) = EventRecorder::start(api, clock, Entropy::from_seed(1), cancel.clone());
    (recorder, cancel, task, sent)
}

fn occurrence(namespace: &str, message: &str) -> Occurrence {
    Occurrence {
        component: "test-controller".into(),
        controller: "test".into(),
        involved: Involved {
            api_version: "v1".into(),
            kind: "Thing".into(),
            namespace: namespace.into(),
            name: "a".into(),
            ..Involved::default()
        },
        kind: EventKind::Normal,
        reason: "R".into(),
        message: message.into(),
    }
}

fn status(code: u16, reason: &str) -> (u16, Value) {
    (code, json!({"kind": "Status", "code": code, "reason": reason}))
}

/// What was sent once the recorder is gone and its writer done.
async fn finish(
    recorder: EventRecorder,
    task: tokio::task::JoinHandle<()>,
    sent: Sent,
) -> Vec<(String, String, Value)> {
    drop(recorder);
    task.await.unwrap();
    let sent = sent.lock();
    sent.clone()
}

#[tokio::test(start_paused = true)]
async fn the_same_again_is_patched() {
    let (recorder, _cancel, task, sent) = recorder(|_| (201, json!({})));
    recorder.record(occurrence("ns", "m"));
    recorder.record(occurrence("ns", "m"));
    let sent = finish(recorder, task, sent).await;
    assert_eq!((sent[0].0.as_str(), sent[0].1.as_str()), ("POST", "/api/v1/namespaces/ns/events"));
    let name = sent[0].2["metadata"]["name"].as_str().unwrap();
    assert_eq!((sent[1].0.as_str(), &sent[1].1), ("PATCH", &format!("/api/v1/namespaces/ns/events/{name}")));
    assert_eq!(sent[1].2, json!({"count": 2, "lastTimestamp": "2023-11-14T22:13:20Z", "message": "m"}));
}

#[tokio::test(start_paused = true)]
async fn one_that_expired_is_written_anew() {
    let (recorder, _cancel, task, sent) =
        recorder(|n| if n == 2 { status(404, "NotFound") } else { (201, json!({})) });
    recorder.record(occurrence("", "m"));
    recorder.record(occurrence("", "m"));
    let sent = finish(recorder, task, sent).await;
    let methods: Vec<_> = sent.iter().map(|(method, ..)| method.as_str()).collect();
    assert_eq!(methods, ["POST", "PATCH", "POST"]);
    assert_eq!((sent[2].1.as_str(), &sent[2].2["count"]), ("/api/v1/namespaces/default/events", &json!(2)));
}

#[tokio::test(start_paused = true)]
async fn only_what_got_no_answer_is_tried_again() {
    let (recorder, _cancel, task, sent) = recorder(|n| if n < 4 { (0, json!({})) } else { (201, json!({})) });
    recorder.record(occurrence("ns", "m"));
    assert_eq!(finish(recorder, task, sent).await.len(), 4);

    let terminating = json!({"kind": "Status", "code": 403, "reason": "Forbidden", "details": {"causes": [{"reason": "NamespaceTerminating"}]}});
    let (recorder, _cancel, task, sent) =
        self::recorder(move |n| if n == 1 { (403, terminating.clone()) } else { status(422, "Invalid") });
    recorder.record(occurrence("ns", "m"));
    recorder.record(occurrence("ns", "n"));
    assert_eq!(finish(recorder, task, sent).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn no_controller_waits_for_another_ones_events() {
    let (recorder, _cancel, task, sent) =
        recorder(|n| if n == 1 { (0, json!({})) } else { (201, json!({})) });
    let by = |controller: &str, message: &str| Occurrence {
        controller: controller.into(),
        ..occurrence("ns", message)
    };
    recorder.record(by("stuck", "first"));
    recorder.record(by("stuck", "second"));
    recorder.record(by("other", "third"));
    let sent = finish(recorder, task, sent).await;
    let told: Vec<_> = sent.iter().map(|(_, _, event)| event["message"].as_str().unwrap()).collect();
    assert_eq!(told, ["first", "third", "first", "second"]);
    let names: std::collections::BTreeSet<_> =
        sent.iter().map(|(_, _, event)| event["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_event_is_given_up_in_the_end() {
    let (recorder, _cancel, task, sent) = recorder(|_| (0, json!({})));
    recorder.record(occurrence("ns", "m"));
    assert_eq!(finish(recorder, task, sent).await.len(), ATTEMPTS as usize);
}

#[tokio::test(start_paused = true)]
async fn too_many_are_dropped_without_waiting() {
    let (recorder, cancel, task, sent) = recorder(|_| (201, json!({})));
    for n in 0..1005 {
        recorder.record(occurrence("ns", &n.to_string()));
    }
    assert_eq!(recorder.dropped(), 5);
    // What waits is still tried: 25 are heard.
    cancel.cancel();
    task.await.unwrap();
    assert_eq!(sent.lock().len(), 25);
}
