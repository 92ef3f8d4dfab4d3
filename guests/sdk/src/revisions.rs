//! ControllerRevisions: the history of templates that StatefulSets and
//! DaemonSets keep.
//!
//! A revision holds a template as bytes, [`TemplatePatch`]; which revision is
//! the current one is found by comparing those, never by hash. Names, hashes
//! and bytes are those of kube-controller-manager, so that taking a cluster over
//! from it, or giving it back, makes nobody roll a pod.
//!
//! ```
//! use coxswain_sdk::revisions::TemplatePatch;
//! use serde_json::json;
//!
//! let template = json!({"metadata": {"labels": {"app": "web"}, "creationTimestamp": null}, "spec": {}});
//! let patch = TemplatePatch::of(&template);
//! assert_eq!(
//!     patch.text(),
//!     r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"spec":{}}}}"#
//! );
//! ```

mod canonical;
mod defaults;
mod meaning;
mod patch;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

pub use patch::TemplatePatch;

use crate::claim::{self, HasMetadata};
use crate::contract::Failure;
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::meta::{NoAnnotations, ObjectMeta, OwnerReference, StringMap};
use crate::plan::Action;
use crate::read::FromJson;
use crate::resource::{CONTROLLER_REVISIONS, Resource};
use crate::selector::Selector;
use crate::sort::sorted_by;
use crate::view::{Object, View};

/// Label of a revision that holds its hash, where a StatefulSet made it.
pub const HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// Label of pods (and of the revisions of DaemonSets) that says which revision
/// they are of.
pub const REVISION_HASH_LABEL: &str = "controller-revision-hash";

/// Tag of actions that make a revision.
pub const CREATE: &str = "create-revision";

/// Tag of actions that give a revision another number.
const RENUMBER: &str = "renumber-revision";

/// A ControllerRevision.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Revision {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Number: the higher, the later.
    pub revision: i64,
    /// What it keeps.
    pub data: TemplatePatch,
}

impl View for Revision {
    const RESOURCE: Resource = CONTROLLER_REVISIONS;
}

impl HasMetadata for Revision {
    type Annotations = NoAnnotations;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl Revision {
    /// By number, then age, then name.
    pub fn compare(&self, other: &Self) -> Ordering {
        let key = |it: &Self| (it.revision, it.metadata.creation_timestamp);
        key(self).cmp(&key(other)).then_with(|| self.metadata.name.cmp(&other.metadata.name))
    }
}

/// The revisions of an owner.
#[derive(Debug, Default)]
pub struct History {
    revisions: Vec<Object<Revision>>,
}

/// Where a template stands in a history.
#[derive(Debug)]
pub enum Place<'a> {
    /// It is the latest.
    Latest(&'a Object<Revision>),
    /// It is an earlier one, which is to get the next number: a rollback.
    Earlier(&'a Object<Revision>),
    /// There is none of it yet.
    Nowhere,
}

impl History {
    /// A history of these revisions, in any order.
    pub fn new(revisions: Vec<Object<Revision>>) -> Self {
        Self { revisions: sorted_by(revisions, |a, b| a.compare(b)) }
    }

    /// The history of an owner: what it controls and nobody controls of the
    /// revisions that match its selector; and the adoptions that this takes.
    /// While the owner is being deleted nothing is adopted.
    pub fn claim<O: HasMetadata>(
        ctx: &Ctx<'_>,
        owner: &O,
        selector: &Selector,
    ) -> Result<(Self, Vec<Action>)> {
        let me = owner.metadata();
        let mut candidates = claim::candidates::<Revision>(ctx, &me.namespace, &me.uid, selector)?;
        // What no longer matches is left alone, neither used nor released.
        candidates.retain(|revision| selector.matches(&revision.metadata.labels));
        let claims = claim::claim(ctx, owner, selector, candidates)?;
        Ok((Self::new(claims.owned), claims.writes))
    }

    /// The revisions, from first to last.
    pub fn revisions(&self) -> &[Object<Revision>] {
        &self.revisions
    }

    /// The latest one.
    pub fn latest(&self) -> Option<&Object<Revision>> {
        self.revisions.last()
    }

    /// The one of this name.
    pub fn find(&self, name: &str) -> Option<&Object<Revision>> {
        self.revisions.iter().find(|revision| revision.metadata.name == name)
    }

    /// The number that a new revision gets.
    pub fn next_number(&self) -> i64 {
        self.latest().map_or(1, |latest| latest.revision.saturating_add(1))
    }

    /// Where a template stands. The latest revision need only mean the same:
    /// other releases may have written the same template in other bytes.
    pub fn place_of(&self, wanted: &TemplatePatch) -> Place<'_> {
        let Some(latest) = self.latest() else { return Place::Nowhere };
        match self.revisions.iter().rfind(|revision| revision.data == *wanted) {
            Some(same) if latest.data == same.data => Place::Latest(latest),
            Some(earlier) => Place::Earlier(earlier),
            None if latest.data.means_the_same(wanted) => Place::Latest(latest),
            None => Place::Nowhere,
        }
    }

    /// The revisions that exceed a limit: the earliest of those that nothing
    /// lives by any more. A negative limit is none.
    pub fn surplus(&self, limit: i32, is_live: impl Fn(&Revision) -> bool) -> Vec<&Object<Revision>> {
        let Ok(limit) = usize::try_from(limit) else { return Vec::new() };
        let mut past: Vec<_> = self.revisions.iter().filter(|revision| !is_live(revision)).collect();
        past.truncate(past.len().saturating_sub(limit));
        past
    }
}

/// A name for a new revision.
#[derive(Debug)]
pub struct Named {
    /// The name.
    pub name: String,
    /// How often names have collided, this time included.
    pub collisions: i32,
    /// A revision that has the name, and keeps the same.
    pub existing: Option<Revision>,
}

/// Finds a name that nothing else has. The cache is asked; where it knows of
/// nothing, but the last plan's creation met something, the API server is.
pub fn name_for(
    ctx: &Ctx<'_>,
    namespace: &str,
    owner: &str,
    data: &TemplatePatch,
    collisions: i32,
) -> Result<Named> {
    let refused = ctx.failures(CREATE).any(already_exists);
    let mut collisions = collisions;
    // Each round takes a revision that exists, so this ends; the bound is for
    // counts that have run to their end.
    loop {
        let name = name_of(owner, &data.hash(Some(collisions)));
        let existing = match ctx.get::<Revision>(namespace, &name)? {
            Some(cached) => Some((*cached).clone()),
            None if refused => live(ctx, namespace, &name)?,
            None => None,
        };
        match existing {
            Some(other) if other.data != *data => match collisions.checked_add(1) {
                Some(next) => collisions = next,
                None => return Err(Error::terminal("names of revisions have collided too often")),
            },
            existing => return Ok(Named { name, collisions, existing }),
        }
    }
}

fn already_exists(failure: &Failure) -> bool {
    failure.reason == "AlreadyExists"
}

fn live(ctx: &Ctx<'_>, namespace: &str, name: &str) -> Result<Option<Revision>> {
    match ctx.get_live::<Revision>(namespace, name)? {
        Ok(revision) => Ok(Some(revision)),
        Err(failure) if failure.status == 404 => Ok(None),
        Err(failure) => {
            Err(Error::Retry(format!("cannot read revision {namespace}/{name}: {}", failure.message)))
        }
    }
}

/// The name of a revision of this owner. Where the owner's is too long, its
/// beginning.
pub fn name_of(owner: &str, hash: &str) -> String {
    const LONGEST: usize = 223;
    // Names are ASCII; of another text as much as is whole.
    let end = (0..=owner.len().min(LONGEST)).rfind(|&at| owner.is_char_boundary(at)).unwrap_or(0);
    [&owner[..end], "-", hash].concat()
}

/// A revision about to be made.
#[derive(Debug)]
pub struct NewRevision<'a> {
    /// Kind of its owner.
    pub owner: Resource,
    /// Its namespace, which is also that of its owner.
    pub namespace: &'a str,
    /// Name of its owner.
    pub owner_name: &'a str,
    /// Uid of its owner.
    pub owner_uid: &'a str,
    /// Name.
    pub name: &'a str,
    /// Labels.
    pub labels: StringMap,
    /// Annotations.
    pub annotations: &'a StringMap,
    /// Number.
    pub revision: i64,
    /// What it keeps.
    pub data: &'a TemplatePatch,
}

impl NewRevision<'_> {
    /// The write that makes it.
    pub fn create(&self) -> Result<Action> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Body<'a> {
            api_version: String,
            kind: &'static str,
            metadata: Meta<'a>,
            data: Box<RawValue>,
            revision: i64,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Meta<'a> {
            name: &'a str,
            namespace: &'a str,
            labels: &'a StringMap,
            #[serde(skip_serializing_if = "StringMap::is_empty")]
            annotations: &'a StringMap,
            owner_references: [OwnerReference; 1],
        }
        let body = Body {
            api_version: CONTROLLER_REVISIONS.api_version(),
            kind: CONTROLLER_REVISIONS.kind,
            metadata: Meta {
                name: self.name,
                namespace: self.namespace,
                labels: &self.labels,
                annotations: self.annotations,
                owner_references: [OwnerReference::controller(self.owner, self.owner_name, self.owner_uid)],
            },
            data: self.data.to_raw()?,
            revision: self.revision,
        };
        Ok(Action::create(CONTROLLER_REVISIONS, self.namespace, self.name, &body)?.tag(CREATE))
    }
}

/// Gives a revision another number; None if it has it.
pub fn renumber(revision: &Object<Revision>, number: i64) -> Option<Action> {
    let meta = &revision.metadata;
    (revision.revision != number).then(|| {
        Action::merge(CONTROLLER_REVISIONS, &meta.namespace, &meta.name, &json!({ "revision": number }))
            .as_seen(revision)
            .tag(RENUMBER)
    })
}

/// Whether the API server refused the number that the last plan gave a
/// revision. It does where somebody has written the revision's data with blanks
/// or in another order: what is changed of it is written anew, and so is the
/// data, which may not change. Such a revision is of no use.
pub fn renumber_refused(ctx: &Ctx<'_>) -> bool {
    ctx.failures(RENUMBER).any(|failure| failure.status == 422)
}

/// Deletes a revision.
pub fn delete(revision: &Revision) -> Action {
    let meta = &revision.metadata;
    Action::delete(CONTROLLER_REVISIONS, &meta.namespace, &meta.name).uid(&meta.uid).tag("delete-revision")
}
