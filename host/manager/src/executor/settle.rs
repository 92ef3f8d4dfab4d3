//! What a lost answer, or a refusal, comes to.
//!
//! In: a write that was sent. Out: whether it took effect, after a look where
//! one is needed. Invariant: in doubt it is unknown, never done.

use super::{
    answer::{Head, is_ours},
    dead::says_gone,
    effect, is_conflict,
    request::{Precondition, segment},
    write::{Ending, Write},
};
use crate::{api::ApiError, contract::Verb};

/// What settles a write without an answer.
pub(super) enum Settled {
    /// It took effect.
    Done(Box<Head>),
    /// It can be sent again without taking effect twice.
    Repeat,
    /// Nobody can tell.
    Unknown,
}

impl Write<'_> {
    /// Looks whether a write without an answer took effect. `look` makes it look
    /// also where repeating would tell as well.
    pub(super) async fn settle(&mut self, look: bool) -> Settled {
        match &self.action.verb {
            // Names are unique, so the repeat tells.
            Verb::Create(_) if !look || !self.action.subresource.is_empty() => Settled::Repeat,
            Verb::Create(_) => match self.executor.live_head(&self.path()).await {
                Ok(Some(head)) if self.made(&head) => Settled::Done(Box::new(head)),
                Ok(_) => Settled::Repeat,
                Err(_) => Settled::Unknown,
            },
            Verb::DeleteCollection(_) => Settled::Repeat,
            Verb::Delete(options) => match self.executor.live_head(&self.path()).await {
                Ok(None) => Settled::Done(Box::default()),
                Ok(Some(head)) if self.is_other(&head) => Settled::Done(Box::default()),
                Ok(Some(head)) if head.deleting() => {
                    let left = head.metadata.deletion_grace_period_seconds.unwrap_or(0);
                    let enough = options.grace_seconds.is_none_or(|grace| left <= i64::from(grace));
                    if enough { Settled::Done(Box::new(head)) } else { Settled::Repeat }
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
                    Settled::Done(Box::new(head))
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

    pub(super) fn still_holds(&self, live: &Head) -> bool {
        let holds = |wanted: &Option<String>, live: &str| wanted.as_ref().is_none_or(|wanted| wanted == live);
        holds(&self.precondition.uid, &live.metadata.uid)
            && holds(&self.precondition.resource_version, &live.metadata.resource_version)
    }

    /// What came of a write that the server broke off. Most likely nothing was
    /// done; saying so is only safe after a look.
    pub(super) async fn broken(&mut self, error: ApiError) -> Ending {
        match self.settle(true).await {
            Settled::Done(head) => Ending::Unheard(head, error.failure),
            Settled::Repeat => Ending::Failed(error.failure),
            Settled::Unknown => Ending::Unknown(error.to_string()),
        }
    }

    /// What a refusal means; `lost` if an earlier attempt had no answer.
    pub(super) async fn refused(&mut self, error: ApiError, lost: bool) -> Ending {
        let failure = error.failure;
        let conflict = is_conflict(&failure);
        match &self.action.verb {
            // Another 404 tells of the resource or of somebody in between: the object may well be there.
            Verb::Delete(_) if says_gone(&failure, &self.name) => {
                self.uid.iter().for_each(|uid| self.executor.shared.dead.insert(self.identity(uid)));
                return Ending::Done(Box::default());
            }
            // Of the two things that were asked for, only the uid settles it.
            Verb::Delete(_) if conflict && self.precondition.uid.is_some() => {
                match self.executor.live_head(&self.path()).await {
                    Ok(None) => return Ending::Done(Box::default()),
                    Ok(Some(head)) if self.is_other(&head) => {
                        self.precondition
                            .uid
                            .iter()
                            .for_each(|uid| self.executor.shared.dead.insert(self.identity(uid)));
                        return Ending::Done(Box::default());
                    }
                    Ok(Some(head)) if lost && head.deleting() => return Ending::Done(Box::new(head)),
                    _ => {}
                }
            }
            // Whatever the reason: our own object may be it, or may have used a quota up.
            Verb::Create(_) if lost && self.action.subresource.is_empty() => {
                match self.executor.live_head(&self.path()).await {
                    Ok(Some(head)) if self.made(&head) => return Ending::Done(Box::new(head)),
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
}
