//! One action: sent, and settled whatever comes back.
//!
//! In: a checked action. Out: done, failed, unknown or not sent, and what the
//! cache must show because of it. Invariant: a write whose answer was lost is
//! repeated only where it cannot take effect twice.

use serde::Deserialize;
use tokio::time::sleep;

use super::{
    Executor, WriteGate,
    answer::{Head, HeadOwner},
    barrier::Barrier,
    dead::Identity,
    instead::ended,
    request::{Maker, Precondition, WriteRequest, expand_name, segment},
    send::{Reply, pause},
    settle::Settled,
};
use crate::{
    api::object_path,
    contract::{Action, Failure, GroupResource, Verb},
};

/// How often a write without an answer is sent in all.
const ATTEMPTS: u32 = 3;

/// How often another end is drawn for a generated name that is taken.
const DRAWS: u32 = 8;

/// What became of an action.
#[derive(Debug)]
pub(super) enum Ending {
    /// It took effect; what the answer (or a later look) said of the object.
    Done(Box<Head>),
    /// It took effect, as a look shows, but its answer was lost: to the module
    /// that is a failure, as it is to any client, and the cache will show it what
    /// has become of it.
    Unheard(Box<Head>, Failure),
    /// It did not.
    Failed(Failure),
    /// Nobody can tell.
    Unknown(String),
    /// It was not sent.
    Halted,
}

impl Ending {
    /// In a word, for metrics.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Done(_) | Self::Unheard(..) => "done",
            Self::Failed(_) => "failed",
            Self::Unknown(_) => "unknown",
            Self::Halted => "halted",
        }
    }
}

/// An action on its way.
pub(super) struct Write<'a> {
    pub(super) executor: &'a Executor,
    pub(super) action: &'a Action,
    resource: GroupResource,
    pub(super) precondition: Precondition,
    /// Name of the object, drawn if the action leaves that to us.
    pub(super) name: String,
    pub(super) prefix: Option<String>,
    pub(super) owners: Vec<HeadOwner>,
    /// Uid of the object in question, if known.
    pub(super) uid: Option<String>,
    /// Barriers that the way here left.
    pub(super) barriers: Vec<Barrier>,
}

impl<'a> Write<'a> {
    /// Prepares an action. `cached_uid` is the uid that the cache has for it.
    pub(super) fn new(
        executor: &'a Executor,
        action: &'a Action,
        resource: GroupResource,
        precondition: Precondition,
        cached_uid: Option<String>,
    ) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Named {
            generate_name: String,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Body {
            metadata: Named,
        }
        let mut write = Self {
            executor,
            action,
            resource,
            uid: precondition.uid.clone().or(cached_uid),
            precondition,
            name: action.name.clone(),
            prefix: None,
            owners: Vec::new(),
            barriers: Vec::new(),
        };
        if let Verb::Create(body) = &action.verb
            && action.subresource.is_empty()
        {
            let head = Head::parse(body.as_bytes());
            write.owners = head.metadata.owner_references;
            if write.name.is_empty() {
                write.name = head.metadata.name;
            }
            if write.name.is_empty() {
                write.prefix =
                    Some(serde_json::from_str::<Body>(body).unwrap_or_default().metadata.generate_name);
                write.draw();
            }
        }
        write
    }

    fn draw(&mut self) {
        if let Some(prefix) = &self.prefix {
            self.name = expand_name(prefix, &self.executor.entropy.name_suffix());
        }
    }

    pub(super) fn resource(&self) -> &GroupResource {
        &self.resource
    }

    pub(super) fn request(&self) -> Result<WriteRequest, Failure> {
        let config = &self.executor.shared.config;
        Maker { field_manager: &config.field_manager }
            .make(
                self.action,
                &self.resource,
                self.executor.shared.registry.kind_of(self.action.resource),
                &self.name,
                &self.precondition,
            )
            .map_err(|error| super::refused("BadRequest", format!("cannot be sent: {error}")))
    }

    /// The object meant, if it has this uid.
    pub(super) fn identity(&self, uid: &str) -> Identity {
        Identity {
            resource: self.action.resource,
            namespace: self.action.namespace.clone(),
            name: self.name.clone(),
            uid: uid.to_owned(),
        }
    }

    /// Path of the object itself.
    pub(super) fn path(&self) -> String {
        object_path(&self.resource, &segment(&self.action.namespace), &segment(&self.name), "")
    }

    /// Sends it, until it is settled.
    pub(super) async fn run(&mut self, gate: &dyn WriteGate) -> Ending {
        if matches!(self.action.verb, Verb::Delete(_))
            && self
                .precondition
                .uid
                .as_deref()
                .is_some_and(|uid| self.executor.shared.dead.contains(&self.identity(uid)))
        {
            return Ending::Done(Box::default());
        }
        if self.is_unpatchable() {
            return self.update_instead(None, gate).await;
        }
        let (mut attempt, mut draws) = (1, 1);
        let mut lost: Option<Failure> = None;
        loop {
            let request = match self.request() {
                Ok(request) => request,
                Err(failure) => return Ending::Failed(failure),
            };
            match self.executor.send_write(&request, gate).await {
                Reply::Done(response) => return Ending::Done(Box::new(Head::parse(&response.body))),
                Reply::Halted if lost.is_some() => {
                    return Ending::Unknown("the answer was lost, and this process may write no more".into());
                }
                Reply::Halted => return Ending::Halted,
                Reply::Refused(error) => {
                    let taken = error.failure.reason == "AlreadyExists";
                    if taken && lost.is_none() && self.prefix.is_some() && draws < DRAWS {
                        draws += 1;
                        self.draw();
                        continue;
                    }
                    if self.lacks_verb(&error.failure) {
                        return self.update_instead(Some(error.failure), gate).await;
                    }
                    let ending = self.refused(error, lost.is_some()).await;
                    return ended(ending, lost);
                }
                Reply::Broken(error) => return self.broken(error).await,
                Reply::Lost(error) => {
                    let last = attempt >= ATTEMPTS;
                    match self.settle(last).await {
                        Settled::Done(head) => return Ending::Unheard(head, error.failure),
                        Settled::Repeat if !last => {}
                        Settled::Repeat | Settled::Unknown => return Ending::Unknown(error.to_string()),
                    }
                    lost = Some(error.failure);
                    sleep(pause(attempt)).await;
                    attempt += 1;
                }
            }
        }
    }

    /// Holds the key until the cache shows something else than what was sent.
    pub(super) fn hold(&mut self) {
        if let Some(sent) = &self.precondition.resource_version {
            self.barriers.push(Barrier::Moved {
                resource: self.action.resource,
                namespace: self.action.namespace.clone(),
                name: self.name.clone(),
                sent: sent.clone(),
            });
        }
    }

    /// What the cache must show after a success.
    pub(super) async fn succeeded(&mut self, head: &Head) {
        let (resource, namespace) = (self.action.resource, self.action.namespace.as_str());
        let gone = |namespace: &str, name: &str, uid: &str, or_deleting: bool| Barrier::Gone {
            resource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            or_deleting,
        };
        let mut version = head.metadata.resource_version.parse().ok();
        match &self.action.verb {
            Verb::DeleteCollection(_) => {
                // The version of the list is none that the informer need see.
                version = None;
                let items = head.items.iter().map(|item| &item.metadata).filter(|meta| !meta.uid.is_empty());
                self.barriers.extend(items.map(|meta| gone(&meta.namespace, &meta.name, &meta.uid, true)));
            }
            Verb::Delete(_) if self.action.subresource.is_empty() => {
                if let Some(uid) = head.uid().or(self.uid.as_deref()) {
                    self.barriers.push(gone(namespace, &self.name, uid, true));
                }
            }
            // Such as an eviction or a binding: the answer does not say what
            // became of the object.
            Verb::Create(_) if !self.action.subresource.is_empty() && head.kind == "Status" => {
                match self.executor.live_head(&self.path()).await {
                    Ok(Some(live)) => version = live.metadata.resource_version.parse().ok(),
                    Ok(None) => self
                        .barriers
                        .extend(self.uid.as_deref().map(|uid| gone(namespace, &self.name, uid, true))),
                    Err(error) => {
                        tracing::warn!(path = self.path(), %error, "cannot tell what a write to a subresource did to its object");
                    }
                }
            }
            _ if head.vanishing() => {
                self.barriers.push(gone(namespace, &self.name, &head.metadata.uid, false))
            }
            _ => {}
        }
        if let Some(version) = version {
            self.barriers.push(Barrier::Version { resource, version });
        }
    }
}
