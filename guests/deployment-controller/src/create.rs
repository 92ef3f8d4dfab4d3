//! The ReplicaSet for a template that has none yet: its name, and what became
//! of the last attempt to create it.
//!
//! Names derive from the template, so a second attempt meets the first. A name
//! that something else has taken counts as a collision, which changes the next
//! name. State kept: the name of a ReplicaSet that the API server has and the
//! cache has not, or that the namespace is going. Lost, it costs one refused
//! write.

use coxswain_sdk::contract::{ActionOutcome, Failure};
use coxswain_sdk::resource::REPLICA_SETS;
use coxswain_sdk::{Ctx, Error, Object, Result, StringMap};

use crate::annotations::{of_current, set_sizes};
use crate::bounds::Bounds;
use crate::sets::Set;
use crate::view::{Deployment, ReplicaSet};

/// Longest name that the API accepts.
const LONGEST_NAME: usize = 253;
/// More collisions than this in one reconcile are no accident.
const MOST_COLLISIONS: usize = 64;
const AWAITING: &str = "awaiting ";

/// A ReplicaSet about to be created.
pub struct Creation<'a, 'b> {
    ctx: &'a Ctx<'b>,
    deployment: &'a Object<Deployment>,
}

/// What its name is, and what that means.
#[derive(Debug, PartialEq)]
pub enum Name {
    /// Nobody is known to have it.
    Free {
        /// The name.
        name: String,
        /// The hash in it.
        hash: String,
        /// How often names have collided, this time included.
        collisions: Option<i64>,
    },
    /// It is there already; only the cache does not know it yet.
    Ours {
        /// The name.
        name: String,
        /// How often names have collided, this time included.
        collisions: Option<i64>,
    },
    /// The namespace is going: nothing can be created any more.
    InVain,
}

impl<'a, 'b> Creation<'a, 'b> {
    /// State once the namespace is seen to go.
    pub const IN_VAIN: &'static str = "namespace-terminating";

    /// For this Deployment's template.
    pub fn of(ctx: &'a Ctx<'b>, deployment: &'a Object<Deployment>) -> Self {
        Self { ctx, deployment }
    }

    /// State while this ReplicaSet has not come to the cache.
    pub fn awaiting(name: &str) -> String {
        format!("{AWAITING}{name}")
    }

    /// Tag of the action that creates a ReplicaSet of this name.
    pub fn tag(name: &str) -> String {
        format!("create {name}")
    }

    fn failures(&self) -> impl Iterator<Item = (&'b str, &'b Failure)> {
        self.ctx.results().iter().filter_map(|result| match &result.result {
            ActionOutcome::Failed(failure) => Some((result.tag.strip_prefix("create ")?, failure)),
            ActionOutcome::Skipped | ActionOutcome::Unknown => None,
        })
    }

    /// Why the last attempt failed, if that must be reported.
    pub fn failure(&self, name: &str) -> Option<&'b Failure> {
        let mut failures = self.failures().filter(|(failed, _)| *failed == name);
        failures.next().map(|(_, failure)| failure).filter(|failure| failure.reason != "AlreadyExists")
    }

    /// The first name that is not taken.
    pub fn name(&self, collisions: Option<i64>) -> Result<Name> {
        let gone = |failure: &Failure| failure.causes.iter().any(|c| c.reason == "NamespaceTerminating");
        if self.ctx.state() == Some(Self::IN_VAIN) || self.failures().any(|(_, failure)| gone(failure)) {
            return Ok(Name::InVain);
        }
        let meta = &self.deployment.metadata;
        let mut collisions = collisions;
        for _ in 0..MOST_COLLISIONS {
            let hash = self.deployment.spec.template.hash(collisions);
            let name = name_with(&meta.name, &hash);
            // Whatever of that name is in the cache was not claimed, so it is
            // not this Deployment's.
            let taken = match self.ctx.get::<ReplicaSet>(&meta.namespace, &name)? {
                Some(_) => Some(false),
                None => self.is_taken(&name)?,
            };
            match taken {
                None => return Ok(Name::Free { name, hash, collisions }),
                Some(true) => return Ok(Name::Ours { name, collisions }),
                Some(false) => collisions = Some(collisions.unwrap_or(0).saturating_add(1)),
            }
        }
        Err(Error::retry(format!(
            "deployment {}/{}: no free name for a replica set",
            meta.namespace, meta.name
        )))
    }

    /// Of a name that the API server refused as taken, and that the cache does
    /// not know: whether it is this Deployment's own. None if it is not taken.
    fn is_taken(&self, name: &str) -> Result<Option<bool>> {
        let refused = self.failures().any(|(failed, f)| failed == name && f.reason == "AlreadyExists");
        let awaited = self.ctx.state().and_then(|state| state.strip_prefix(AWAITING)) == Some(name);
        if !refused && !awaited {
            return Ok(None);
        }
        let meta = &self.deployment.metadata;
        match self.ctx.get_live::<ReplicaSet>(&meta.namespace, name)? {
            Ok(live) => Ok(Some(
                live.metadata.is_controlled_by(&meta.uid)
                    && live.spec.template == self.deployment.spec.template,
            )),
            Err(failure) if failure.status == 404 => Ok(None),
            Err(failure) => Err(Error::retry(format!(
                "cannot read {REPLICA_SETS} {}/{name}: {}",
                meta.namespace, failure.message
            ))),
        }
    }

    /// The ReplicaSet, without pods yet.
    pub fn set(&self, name: String, revision: i64, bounds: &Bounds) -> Set {
        let deployment = &self.deployment.metadata.annotations;
        let mut annotations = of_current(deployment, &StringMap::new(), revision);
        set_sizes(&mut annotations, bounds);
        let min_ready_seconds = self.deployment.spec.min_ready_seconds;
        Set { seen: None, name, replicas: 0, annotations, min_ready_seconds }
    }
}

/// The Deployment's name and the hash; the name gives way if both are too long.
fn name_with(deployment: &str, hash: &str) -> String {
    let room = LONGEST_NAME.saturating_sub(hash.len() + 1);
    // Names are ASCII; what is not stays whole and is refused by the server.
    match deployment.get(..room) {
        Some(short) if room > 0 => format!("{short}-{hash}"),
        _ => format!("{deployment}-{hash}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_stays_whole() {
        for (deployment, hash, wanted) in [
            ("web".to_owned(), "abc", "web-abc".to_owned()),
            ("a".repeat(249), "abc", format!("{}-abc", "a".repeat(249))),
            ("a".repeat(250), "abc", format!("{}-abc", "a".repeat(249))),
            ("a".repeat(253), "bcdfghjklm", format!("{}-bcdfghjklm", "a".repeat(242))),
        ] {
            let name = name_with(&deployment, hash);
            assert_eq!(name, wanted);
            assert!(name.len() <= LONGEST_NAME);
        }
    }
}
