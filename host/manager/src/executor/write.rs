//! One action: sent, and settled whatever comes back.
//!
//! In: a checked action. Out: done, failed, unknown or not sent, and what the
//! cache must show because of it. Invariant: a write whose answer was lost is
//! repeated only where it cannot take effect twice.

use serde::Deserialize;
use tokio::time::sleep;

use super::{
    Executor, WriteGate,
    answer::{Head, HeadOwner, is_ours},
    barrier::Barrier,
    effect,
    request::{Maker, Precondition, WriteRequest, expand_name, segment},
    send::{Reply, pause},
};
use crate::{
    api::{ApiError, object_path},
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
    Done(Head),
    /// It did not.
    Failed(Failure),
    /// Nobody can tell.
    Unknown(String),
    /// It was not sent.
    Halted,
}

/// An action on its way.
pub(super) struct Write<'a> {
    executor: &'a Executor,
    action: &'a Action,
    resource: GroupResource,
    precondition: Precondition,
    /// Name of the object, drawn if the action leaves that to us.
    pub(super) name: String,
    prefix: Option<String>,
    owners: Vec<HeadOwner>,
    /// Uid of the object in question, if known.
    pub(super) uid: Option<String>,
    /// Barriers that the way here left.
    pub(super) barriers: Vec<Barrier>,
}

/// What settles a write without an answer.
enum Settled {
    Done(Head),
    Repeat,
    Unknown,
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

    fn request(&self) -> Result<WriteRequest, Failure> {
        let config = &self.executor.shared.config;
        Maker { controller: &config.controller, timeout: config.request_timeout }
            .make(
                self.action,
                &self.resource,
                self.executor.shared.registry.kind_of(self.action.resource),
                &self.name,
                &self.precondition,
            )
            .map_err(|error| super::refused("BadRequest", format!("cannot be sent: {error}")))
    }

    /// Path of the object itself.
    fn path(&self) -> String {
        object_path(&self.resource, &segment(&self.action.namespace), &segment(&self.name), "")
    }

    /// Sends it, until it is settled.
    pub(super) async fn run(&mut self, gate: &dyn WriteGate) -> Ending {
        if matches!(self.action.verb, Verb::Delete(_))
            && self.precondition.uid.as_deref().is_some_and(|uid| self.executor.dead.contains(uid))
        {
            return Ending::Done(Head::default());
        }
        let (mut attempt, mut draws, mut lost) = (1, 1, false);
        loop {
            let request = match self.request() {
                Ok(request) => request,
                Err(failure) => return Ending::Failed(failure),
            };
            match self.executor.send_write(&request, gate).await {
                Reply::Done(response) => return Ending::Done(Head::parse(&response.body)),
                Reply::Halted if lost => {
                    return Ending::Unknown("the answer was lost, and this process may write no more".into());
                }
                Reply::Halted => return Ending::Halted,
                Reply::Refused(error) => {
                    let taken = error.failure.reason == "AlreadyExists";
                    if taken && !lost && self.prefix.is_some() && draws < DRAWS {
                        draws += 1;
                        self.draw();
                        continue;
                    }
                    return self.refused(error, lost).await;
                }
                Reply::Broken(error) => {
                    // Most likely nothing was done. Saying so is only safe after a look.
                    return match self.settle(true).await {
                        Settled::Done(head) => Ending::Done(head),
                        Settled::Repeat => Ending::Failed(error.failure),
                        Settled::Unknown => Ending::Unknown(error.to_string()),
                    };
                }
                Reply::Lost(error) => {
                    lost = true;
                    let last = attempt >= ATTEMPTS;
                    match self.settle(last).await {
                        Settled::Done(head) => return Ending::Done(head),
                        Settled::Repeat if !last => {}
                        Settled::Repeat | Settled::Unknown => return Ending::Unknown(error.to_string()),
                    }
                    sleep(pause(attempt)).await;
                    attempt += 1;
                }
            }
        }
    }

    /// Looks whether a write without an answer took effect. `look` makes it look
    /// also where repeating would tell as well.
    async fn settle(&mut self, look: bool) -> Settled {
        match &self.action.verb {
            // Names are unique, so the repeat tells.
            Verb::Create(_) if !look || !self.action.subresource.is_empty() => Settled::Repeat,
            Verb::Create(_) => match self.executor.live_head(&self.path()).await {
                Ok(Some(head)) if self.made(&head) => Settled::Done(head),
                Ok(_) => Settled::Repeat,
                Err(_) => Settled::Unknown,
            },
            Verb::DeleteCollection(_) => Settled::Repeat,
            Verb::Delete(options) => match self.executor.live_head(&self.path()).await {
                Ok(None) => Settled::Done(Head::default()),
                Ok(Some(head)) if self.is_other(&head) => Settled::Done(Head::default()),
                Ok(Some(head)) if head.deleting() => {
                    let left = head.metadata.deletion_grace_period_seconds.unwrap_or(0);
                    let enough = options.grace_seconds.is_none_or(|grace| left <= i64::from(grace));
                    if enough { Settled::Done(head) } else { Settled::Repeat }
                }
                Ok(Some(_)) => Settled::Repeat,
                Err(_) => Settled::Unknown,
            },
            Verb::Patch(_) | Verb::Replace(_) => self.settle_change().await,
        }
    }

    async fn settle_change(&self) -> Settled {
        let object = self.path();
        let mut answer = Ok(None);
        if !self.action.subresource.is_empty() {
            answer = self
                .executor
                .live(&format!("{object}/{}", segment(&self.action.subresource)), "application/json")
                .await;
        }
        // Not every subresource can be read; most are part of the object.
        if !matches!(&answer, Ok(Some(_))) {
            answer = self.executor.live(&object, "application/json").await;
        }
        match answer {
            Ok(Some(response)) => {
                let live = serde_json::from_slice(&response.body).unwrap_or_default();
                let head = Head::parse(&response.body);
                if effect::shows(&self.action.verb, &live) && !self.is_other(&head) {
                    Settled::Done(head)
                } else if self.still_holds(&head) {
                    Settled::Repeat
                } else {
                    Settled::Unknown
                }
            }
            // The repeat is told so as well, and reports it.
            Ok(None) => Settled::Repeat,
            Err(_) => Settled::Unknown,
        }
    }

    /// Whether an object is the one a create made.
    fn made(&self, live: &Head) -> bool {
        is_ours(&self.owners, &live.metadata.owner_references, self.prefix.is_some())
    }

    /// Whether an object is certainly not the one that was meant.
    fn is_other(&self, live: &Head) -> bool {
        self.precondition.uid.as_ref().or(self.uid.as_ref()).is_some_and(|uid| *uid != live.metadata.uid)
    }

    fn still_holds(&self, live: &Head) -> bool {
        let holds = |wanted: &Option<String>, live: &str| wanted.as_ref().is_none_or(|wanted| wanted == live);
        holds(&self.precondition.uid, &live.metadata.uid)
            && holds(&self.precondition.resource_version, &live.metadata.resource_version)
    }

    /// What a refusal means; `lost` if an earlier attempt had no answer.
    async fn refused(&mut self, error: ApiError, lost: bool) -> Ending {
        let failure = error.failure;
        let conflict = failure.status == 409 && failure.reason == "Conflict";
        match &self.action.verb {
            Verb::Delete(_) if failure.status == 404 => {
                if let Some(uid) = &self.uid {
                    self.executor.dead.insert(uid);
                }
                return Ending::Done(Head::default());
            }
            // Of the two things that were asked for, only the uid settles it.
            Verb::Delete(_) if conflict && self.precondition.uid.is_some() => {
                match self.executor.live_head(&self.path()).await {
                    Ok(None) => return Ending::Done(Head::default()),
                    Ok(Some(head)) if self.is_other(&head) => {
                        self.precondition.uid.iter().for_each(|uid| self.executor.dead.insert(uid));
                        return Ending::Done(Head::default());
                    }
                    Ok(Some(head)) if lost && head.deleting() => return Ending::Done(head),
                    _ => {}
                }
            }
            Verb::Create(_) if lost && failure.reason == "AlreadyExists" => {
                match self.executor.live_head(&self.path()).await {
                    Ok(Some(head)) if self.made(&head) => return Ending::Done(head),
                    Err(error) => return Ending::Unknown(error.to_string()),
                    Ok(_) => {}
                }
            }
            Verb::Patch(_) | Verb::Replace(_) if lost => {
                if let Settled::Done(head) = self.settle_change().await {
                    return Ending::Done(head);
                }
            }
            // A failed test of a JSON patch is refused like any invalid body.
            Verb::Patch(_) if failure.status == 422 && self.precondition != Precondition::default() => {
                if let Ok(Some(head)) = self.executor.live_head(&self.path()).await
                    && !self.still_holds(&head)
                {
                    self.hold();
                    return Ending::Failed(super::conflict("the object has changed since it was read"));
                }
            }
            _ => {}
        }
        if conflict {
            self.hold();
        }
        Ending::Failed(failure)
    }

    /// Holds the key until the cache shows something else than what was sent.
    fn hold(&mut self) {
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
