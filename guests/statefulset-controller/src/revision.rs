//! Which revisions a StatefulSet is between: the current one, that pods had
//! before, and the wanted one, that its template says.

use coxswain_sdk::resource::STATEFUL_SETS;
use coxswain_sdk::revisions::{
    HASH_LABEL, History, NewRevision, Place, delete, name_for, renumber, renumber_refused,
};
use coxswain_sdk::template::PodTemplate;
use coxswain_sdk::{Action, Ctx, Object, Result};

use crate::view::{Pod, StatefulSet};

/// The two revisions, and the write that one of them takes.
#[derive(Debug)]
pub struct Revisions {
    /// Name of the revision that pods had before the update under way.
    pub current: String,
    /// Name of the revision that pods are to have.
    pub update: String,
    /// How often names of revisions have collided.
    pub collisions: i32,
    /// A new revision, or another number for one.
    pub write: Option<Action>,
}

impl Revisions {
    /// Finds them.
    pub fn of(ctx: &Ctx<'_>, set: &StatefulSet, history: &History) -> Result<Self> {
        let mut collisions = set.status.collision_count.unwrap_or(0);
        let wanted = &set.spec.template.patch;
        let (update, write) = match history.place_of(wanted) {
            Place::Latest(revision) => (revision.metadata.name.clone(), None),
            Place::Earlier(revision) if !renumber_refused(ctx) => {
                (revision.metadata.name.clone(), renumber(revision, history.next_number()))
            }
            // No pod will be made any more that could be of it.
            _ if set.metadata.is_deleting() => (set.status.update_revision.clone(), None),
            _ => {
                let named = name_for(ctx, &set.metadata.namespace, &set.metadata.name, wanted, collisions)?;
                let first = collisions;
                collisions = named.collisions;
                let number = history.next_number();
                let write = match (named.existing, history.find(&named.name)) {
                    // Another than the one whose number was refused may stand here too.
                    (Some(_), Some(ours)) => renumber(ours, number),
                    (Some(_), None) => None,
                    (None, _) => Some(new_revision(set, &named.name, number, first)?),
                };
                (named.name, write)
            }
        };
        let current = &set.status.current_revision;
        let current = if history.find(current).is_some() { current.clone() } else { update.clone() };
        Ok(Self { current, update, collisions, write })
    }

    /// The template of the current revision. That of the wanted one is the
    /// set's own.
    pub fn current_template(&self, set: &StatefulSet, history: &History) -> Result<PodTemplate> {
        match history.find(&self.current) {
            Some(revision) if self.current != self.update => revision.data.template(),
            _ => Ok(set.spec.template.pods.clone()),
        }
    }

    /// Deletions of revisions that no pod is of, beyond the limit.
    pub fn truncate(&self, set: &StatefulSet, history: &History, pods: &[Object<Pod>]) -> Vec<Action> {
        let lives = |name: &str| {
            name == self.current || name == self.update || pods.iter().any(|pod| pod.revision() == name)
        };
        let surplus = history.surplus(set.history_limit(), |revision| lives(&revision.metadata.name));
        surplus.into_iter().map(|revision| delete(revision)).collect()
    }
}

fn new_revision(set: &StatefulSet, name: &str, number: i64, collisions: i32) -> Result<Action> {
    let meta = &set.metadata;
    let data = &set.spec.template.patch;
    let mut labels = set.spec.template.pods.metadata.labels.clone();
    // The hash before any collision; it is the name that must differ.
    labels.insert(HASH_LABEL.to_owned(), data.hash(Some(collisions)));
    NewRevision {
        owner: STATEFUL_SETS,
        namespace: &meta.namespace,
        owner_name: &meta.name,
        owner_uid: &meta.uid,
        name,
        labels,
        annotations: &meta.annotations,
        revision: number,
        data,
    }
    .create()
}
