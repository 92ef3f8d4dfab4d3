//! Lookups: reads past the cache, answered as data.
//!
//! In: what a round of a reconcile asks. Out: an answer to each. Invariant: an
//! answer comes from a request that was sent after the asking began, so only a
//! request that still waits to be sent is ever shared.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::stream::{FuturesUnordered, StreamExt};
use http::Method;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{
    Shared,
    answer::Head,
    dead::{Identity, says_gone},
    request::segment,
    rules::{check_segment, grants_ask, may_ask},
    send::{METADATA, METADATA_LIST, Turn},
};
use crate::{
    api::{collection_path, object_path, query_escape},
    contract::{Answer, Ask, Failure, Lookup, SignLookup},
};

/// An answer that several may wait for.
type Waiting = watch::Receiver<Option<Result<String, Failure>>>;

/// A request of a lookup; what is equal may be shared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ReadRequest {
    method: Method,
    path: String,
    accept: &'static str,
    body: Bytes,
}

/// Lookups that wait to be sent.
#[derive(Default)]
pub(super) struct Unsent(Mutex<HashMap<ReadRequest, Waiting>>);

impl Shared {
    /// Answers lookups, in the order asked, and says how long each took.
    pub(super) async fn look_up(self: &Arc<Self>, asks: Vec<Lookup>) -> Vec<(Answer, Duration)> {
        let mut waiting = asks.into_iter().enumerate();
        let mut running = FuturesUnordered::new();
        let mut answers = Vec::new();
        loop {
            while running.len() < self.config.together.max(1) {
                let Some((index, ask)) = waiting.next() else { break };
                running.push(async move {
                    let began = tokio::time::Instant::now();
                    let result = self.answer(&ask.ask).await;
                    (index, (Answer { id: ask.id, result }, began.elapsed()))
                });
            }
            match running.next().await {
                Some(answer) => answers.push(answer),
                None => break,
            }
        }
        answers.sort_by_key(|(index, _)| *index);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// Files are read, and a signature takes milliseconds: not on these threads.
    async fn sign(&self, sign: SignLookup) -> Result<String, Failure> {
        let keys = self.config.signing.clone();
        let signed = tokio::task::spawn_blocking(move || keys.sign(&sign.key, &sign.what)).await;
        signed.unwrap_or_else(|error| Err(super::refused("InternalError", format!("cannot sign: {error}"))))
    }

    async fn answer(self: &Arc<Self>, ask: &Ask) -> Result<String, Failure> {
        let grants = &self.config.grants;
        may_ask(&self.config.manifest.lookups, ask, &self.registry)
            .and_then(|()| grants_ask(grants, ask, &self.registry))
            .map_err(|reason| {
                grants.refuse("a lookup was", &grants.refusals.lookups, &reason);
                super::refused("Forbidden", reason)
            })?;
        if let Ask::Sign(sign) = ask {
            return self.sign(sign.clone()).await;
        }
        let request = self.lookup_request(ask).map_err(|reason| super::refused("BadRequest", reason))?;
        let Ask::Get(get) = ask else { return self.fetch(request).await };
        if get.uid.is_empty() {
            return self.fetch(request).await;
        }
        let wanted = Identity {
            resource: get.resource,
            namespace: get.namespace.clone(),
            name: get.name.clone(),
            uid: get.uid.clone(),
        };
        if self.dead.contains(&wanted) {
            return Err(gone(&wanted));
        }
        match self.fetch(request).await {
            Ok(body) => match Head::parse(body.as_bytes()).uid() {
                Some(uid) if uid != wanted.uid => {
                    let failure = gone(&wanted);
                    self.dead.insert(wanted);
                    Err(failure)
                }
                _ => Ok(body),
            },
            Err(failure) => {
                if says_gone(&failure, &wanted.name) {
                    self.dead.insert(wanted);
                }
                Err(failure)
            }
        }
    }

    async fn fetch(self: &Arc<Self>, request: ReadRequest) -> Result<String, Failure> {
        let mut answer = self.join(request);
        let answer = answer.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone());
        answer.unwrap_or_else(|| Err(super::refused("", "the lookup was given up")))
    }

    /// Waits along with an equal request that is not sent yet, or starts one.
    fn join(self: &Arc<Self>, request: ReadRequest) -> Waiting {
        let mut unsent = self.unsent.0.lock();
        if let Some(waiting) = unsent.get(&request) {
            return waiting.clone();
        }
        let (sender, receiver) = watch::channel(None);
        unsent.insert(request.clone(), receiver.clone());
        drop(unsent);
        let shared = self.clone();
        // A task of its own: whoever asked first may lose interest before the
        // others do.
        tokio::spawn(async move {
            shared.limited(&request.method, shared.limiter.lookup()).await;
            shared.unsent.0.lock().remove(&request);
            let answer =
                shared.read(request.method, &request.path, request.accept, request.body, Turn::Taken).await;
            let answer = answer.map_err(|error| error.failure).and_then(|response| {
                String::from_utf8(response.body.into())
                    .map_err(|_| super::refused("InternalError", "the server's answer is not valid UTF-8"))
            });
            sender.send_replace(Some(answer));
        });
        receiver
    }

    fn lookup_request(&self, ask: &Ask) -> Result<ReadRequest, String> {
        let name =
            |number: u32| self.registry.name(number).ok_or(format!("there is no resource number {number}"));
        let get = |path: String, accept: &'static str| ReadRequest {
            method: Method::GET,
            path,
            accept,
            body: Bytes::new(),
        };
        const JSON: &str = "application/json";
        match ask {
            Ask::Get(ask) => {
                for (what, value) in
                    [("namespace", &ask.namespace), ("name", &ask.name), ("subresource", &ask.subresource)]
                {
                    check_segment(what, value)?;
                }
                if ask.name.is_empty() {
                    return Err("a get lookup needs a name".into());
                }
                let path = object_path(
                    &name(ask.resource)?,
                    &segment(&ask.namespace),
                    &segment(&ask.name),
                    &segment(&ask.subresource),
                );
                Ok(get(path, if ask.metadata_only { METADATA } else { JSON }))
            }
            Ask::List(ask) => {
                check_segment("namespace", &ask.namespace)?;
                let mut query = Vec::new();
                for (key, value) in [
                    ("labelSelector", &ask.labels),
                    ("fieldSelector", &ask.fields),
                    ("continue", &ask.continue_from),
                ] {
                    if !value.is_empty() {
                        query.push(format!("{key}={}", query_escape(value)));
                    }
                }
                if ask.limit > 0 {
                    query.push(format!("limit={}", ask.limit));
                }
                let mut path = collection_path(&name(ask.resource)?, &segment(&ask.namespace));
                if !query.is_empty() {
                    path = format!("{path}?{}", query.join("&"));
                }
                Ok(get(path, if ask.metadata_only { METADATA_LIST } else { JSON }))
            }
            Ask::Raw(path) => Ok(get(path.clone(), JSON)),
            Ask::Review(ask) => {
                check_segment("namespace", &ask.namespace)?;
                serde_json::from_str::<serde::de::IgnoredAny>(&ask.body)
                    .map_err(|error| format!("the review is not valid JSON: {error}"))?;
                Ok(ReadRequest {
                    method: Method::POST,
                    path: collection_path(&ask.resource, &segment(&ask.namespace)),
                    accept: JSON,
                    body: ask.body.clone().into(),
                })
            }
            Ask::Sign(_) => Err("a signature is not a request".into()),
        }
    }
}

/// What a get of an object answers once another has taken its name, or none.
fn gone(identity: &Identity) -> Failure {
    Failure {
        status: 404,
        reason: "NotFound".to_owned(),
        message: format!("\"{}\" of uid {} not found", identity.name, identity.uid),
        causes: Vec::new(),
    }
}
