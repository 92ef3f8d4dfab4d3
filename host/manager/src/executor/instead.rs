//! An update in place of a patch that is forbidden.
//!
//! Kubernetes' own roles for its controllers (`system:controller:…`) let most of
//! them update what modules here patch. In: a patch that was refused for want of
//! that verb alone. Out: what became of it, made on the live object and sent as
//! an update. Invariants: what the patch would have refused, another uid or
//! another version, is refused; what others wrote meanwhile is not undone, since
//! the update names the version it was made from.

use std::collections::HashSet;

use http::Method;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::sleep;

use super::{
    WriteGate,
    answer::Head,
    conflict, is_conflict, refused,
    request::{WriteRequest, segment, type_meta},
    send::{Reply, pause},
    settle::Settled,
    write::{Ending, Write},
};
use crate::{
    api::{ApiError, collection_path, is_unauthorized, query_escape},
    contract::{Failure, PatchKind, Verb},
};

/// How often an update is made anew because another writer was quicker.
const TRIES: u32 = 3;

/// Subresources that are objects of a kind of their own; all others show parts of
/// the object itself, which more roles may read.
const OF_THEIR_OWN: [&str; 1] = ["scale"];

/// What this controller may update, but not patch: resources with subresources.
#[derive(Default)]
pub(super) struct Unpatchable(Mutex<HashSet<(u32, String)>>);

impl Write<'_> {
    fn place(&self) -> (u32, String) {
        (self.action.resource, self.action.subresource.clone())
    }

    /// Whether the action is a patch that can be made here.
    fn is_patch(&self) -> bool {
        matches!(&self.action.verb, Verb::Patch(patch) if matches!(patch.kind, PatchKind::Merge | PatchKind::Json))
    }

    /// Whether an earlier patch of the same was forbidden, and its update not.
    pub(super) fn is_unpatchable(&self) -> bool {
        self.is_patch() && self.executor.shared.unpatchable.0.lock().contains(&self.place())
    }

    /// Whether a patch was refused for want of the verb.
    pub(super) fn lacks_verb(&self, failure: &Failure) -> bool {
        self.is_patch() && is_unauthorized(failure) && failure.message.contains(" cannot patch resource ")
    }

    /// Makes the patch as an update. `forbidden` is how the patch was refused, if
    /// it was tried: that is what is told if the update is forbidden as well.
    pub(super) async fn update_instead(
        &mut self,
        forbidden: Option<Failure>,
        gate: &dyn WriteGate,
    ) -> Ending {
        let mut attempt = 1;
        let mut lost: Option<Failure> = None;
        loop {
            let request = match self.request() {
                Ok(request) => request,
                Err(failure) => return Ending::Failed(failure),
            };
            let live = match self.current().await {
                Ok(Some(live)) => live,
                Ok(None) => return Ending::Failed(not_found(&self.name)),
                Err(error) => return Ending::Failed(forbidden.unwrap_or(error.failure)),
            };
            let head = Head::parse(live.to_string().as_bytes());
            if !self.still_holds(&head) {
                self.hold();
                return Ending::Failed(conflict("the object has changed since it was read"));
            }
            let after = match self.patched(&request, &live) {
                Ok(after) => after,
                Err(error) => {
                    return Ending::Failed(refused("Invalid", format!("cannot be patched: {error}")));
                }
            };
            if after == live {
                return ended(Ending::Done(Box::new(head)), lost);
            }
            let update = WriteRequest {
                method: Method::PUT,
                content_type: "application/json",
                body: after.to_string().into(),
                ..request
            };
            match self.executor.send_write(&update, gate).await {
                Reply::Done(response) => {
                    self.remember();
                    return Ending::Done(Box::new(Head::parse(&response.body)));
                }
                Reply::Halted if lost.is_some() => {
                    return Ending::Unknown("the answer was lost, and this process may write no more".into());
                }
                Reply::Halted => return Ending::Halted,
                Reply::Refused(error) if error.failure.status == 403 => {
                    self.executor.shared.unpatchable.0.lock().remove(&self.place());
                    return Ending::Failed(forbidden.unwrap_or(error.failure));
                }
                Reply::Refused(error) => {
                    let quicker = is_conflict(&error.failure) && self.precondition.resource_version.is_none();
                    if !quicker || attempt >= TRIES {
                        let ending = self.refused(error, lost.is_some()).await;
                        return ended(ending, lost);
                    }
                }
                Reply::Broken(error) => return self.broken(error).await,
                Reply::Lost(error) => {
                    match self.settle(attempt >= TRIES).await {
                        Settled::Done(head) => return Ending::Unheard(head, error.failure),
                        Settled::Repeat if attempt < TRIES => {}
                        Settled::Repeat | Settled::Unknown => return Ending::Unknown(error.to_string()),
                    }
                    lost = Some(error.failure);
                    sleep(pause(attempt)).await;
                }
            }
            attempt += 1;
        }
    }

    fn remember(&self) {
        if self.executor.shared.unpatchable.0.lock().insert(self.place()) {
            let (_, subresource) = self.place();
            let controller = &self.executor.shared.config.controller;
            tracing::info!(controller, resource = %self.executor.cache.show(self.action.resource), subresource,
                "may not patch, but update: updates from now on");
        }
    }

    /// The live object that the patch is of. Roles that let a controller write an
    /// object do not always let it get one by name; all let it list them.
    async fn current(&self) -> Result<Option<Value>, ApiError> {
        let parse = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap_or_default();
        let own = OF_THEIR_OWN.contains(&self.action.subresource.as_str());
        let path =
            if own { format!("{}/{}", self.path(), segment(&self.action.subresource)) } else { self.path() };
        match self.executor.live(&path, "application/json").await {
            Err(error) if error.failure.status == 403 && !own => {
                let all = collection_path(self.resource(), &segment(&self.action.namespace));
                let selector = query_escape(&format!("metadata.name={}", self.name));
                let list = self
                    .executor
                    .live(&format!("{all}?fieldSelector={selector}"), "application/json")
                    .await?;
                let mut found = list.and_then(|list| parse(&list.body).pointer("/items/0").cloned());
                if let Some(found) = &mut found {
                    type_meta(found, self.executor.shared.registry.kind_of(self.action.resource));
                }
                Ok(found)
            }
            answer => Ok(answer?.map(|response| parse(&response.body))),
        }
    }

    /// The object after the patch of a request, preconditions included.
    fn patched(&self, request: &WriteRequest, live: &Value) -> Result<Value, String> {
        let patch: Value = serde_json::from_slice(&request.body).map_err(|error| error.to_string())?;
        let mut after = live.clone();
        if patch.is_array() {
            let patch: json_patch::Patch =
                serde_json::from_value(patch).map_err(|error| error.to_string())?;
            json_patch::patch(&mut after, &patch).map_err(|error| error.to_string())?;
        } else {
            json_patch::merge(&mut after, &patch);
        }
        Ok(after)
    }
}

/// What took effect although an answer was lost is a failure to the module.
pub(super) fn ended(ending: Ending, lost: Option<Failure>) -> Ending {
    match (ending, lost) {
        (Ending::Done(head), Some(failure)) => Ending::Unheard(head, failure),
        (ending, _) => ending,
    }
}

fn not_found(name: &str) -> Failure {
    Failure {
        status: 404,
        reason: "NotFound".to_owned(),
        message: format!("{name:?} not found"),
        causes: Vec::new(),
    }
}
