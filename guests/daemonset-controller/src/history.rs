//! The revisions of a DaemonSet: which is the current one, and which are not
//! needed any more.

use coxswain_sdk::claim::{candidates, claim};
use coxswain_sdk::resource::{CONTROLLER_REVISIONS, DAEMON_SETS, PODS};
use coxswain_sdk::revisions::{self, NewRevision, REVISION_HASH_LABEL, Revision, TemplatePatch};
use coxswain_sdk::selector::Selector;
use coxswain_sdk::sort::{set_of, sorted_by};
use coxswain_sdk::{Action, Ctx, Object, Result, Step};
use serde_json::json;

use crate::view::{DaemonSet, Pod};

/// How many old revisions are kept if nobody says so.
const LIMIT: i32 = 10;

/// The history of a DaemonSet.
#[derive(Debug, Default)]
pub struct History {
    /// Hash of the current revision.
    pub hash: String,
    /// What has to be written before pods are looked at.
    pub steps: Vec<Step>,
    /// Number of collisions, if it is another now.
    pub collisions: Option<i32>,
    /// Further revisions that keep the same as the current one.
    duplicates: Vec<Object<Revision>>,
    /// The others, the earliest first.
    old: Vec<Object<Revision>>,
}

fn hash_of(revision: &Revision) -> String {
    // The name stands for a hash that is missing.
    revision.metadata.labels.get(REVISION_HASH_LABEL).unwrap_or(&revision.metadata.name).clone()
}

impl History {
    /// Reads the history, and finds the current revision or makes it.
    pub fn of(ctx: &Ctx<'_>, set: &Object<DaemonSet>, selector: &Selector) -> Result<Self> {
        let meta = &set.metadata;
        let around = candidates::<Revision>(ctx, &meta.namespace, &meta.uid, selector)?;
        let claims = claim(ctx, &**set, selector, around)?;
        let all = sorted_by(claims.owned, |a, b| a.compare(b));
        let wanted = TemplatePatch::of(&set.spec.template.to_json());
        let labelled: Vec<Action> = all.iter().filter_map(label).collect();
        let mut history = Self { steps: vec![claims.writes.into(), labelled.into()], ..Self::default() };

        let (mut current, mut old): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|revision| revision.data == wanted);
        if current.is_empty()
            && let Some(latest) = old.pop_if(|latest| latest.data.means_the_same(&wanted))
        {
            // Written by another release, which writes the same otherwise.
            current.push(latest);
        }
        let number = old.iter().map(|revision| revision.revision).max().unwrap_or(0).saturating_add(1);
        history.old = old;
        if revisions::renumber_refused(ctx) {
            // Another that keeps the same stands in for it.
            history.duplicates.extend(current.pop());
        }
        match current.pop() {
            Some(latest) => {
                history.hash = hash_of(&latest);
                history.duplicates.extend(current);
                if latest.revision < number {
                    history.steps.push(revisions::renumber(&latest, number).into());
                }
            }
            None => history.make(ctx, set, &wanted, number)?,
        }
        Ok(history)
    }

    fn make(&mut self, ctx: &Ctx<'_>, set: &DaemonSet, data: &TemplatePatch, number: i64) -> Result<()> {
        let meta = &set.metadata;
        let before = set.status.collision_count.unwrap_or(0);
        let named = revisions::name_for(ctx, &meta.namespace, &meta.name, data, before)?;
        if let Some(existing) = named.existing {
            self.hash = hash_of(&existing);
            return Ok(());
        }
        self.hash = data.hash(Some(named.collisions));
        if named.collisions != before {
            self.collisions = Some(named.collisions);
        }
        let mut labels = set.spec.template.labels().clone();
        labels.insert(REVISION_HASH_LABEL.to_owned(), self.hash.clone());
        let revision = NewRevision {
            owner: DAEMON_SETS,
            namespace: &meta.namespace,
            owner_name: &meta.name,
            owner_uid: &meta.uid,
            name: &named.name,
            labels,
            annotations: &meta.annotations,
            revision: number,
            data,
        };
        self.steps.push(revision.create()?.into());
        Ok(())
    }

    /// Whether several revisions keep the same.
    pub fn has_duplicates(&self) -> bool {
        !self.duplicates.is_empty()
    }

    /// Leaves one of several revisions that keep the same. Pods that bear the
    /// label of another are given that of the one that stays first.
    pub fn deduplicate(&self, pods: &[Object<Pod>]) -> Vec<Step> {
        if self.duplicates.is_empty() {
            return Vec::new();
        }
        let gone = set_of(self.duplicates.iter().map(|revision| hash_of(revision)));
        let others = pods.iter().filter(|pod| {
            let label = pod.metadata.labels.get(REVISION_HASH_LABEL);
            label.is_some_and(|hash| gone.contains(hash) && *hash != self.hash)
        });
        let relabelled = others.map(|pod| {
            let meta = &pod.metadata;
            let body = json!({ "metadata": { "labels": { REVISION_HASH_LABEL: self.hash } } });
            Action::merge(PODS, &meta.namespace, &meta.name, &body).uid(&meta.uid).tag("relabel")
        });
        let deleted = self.duplicates.iter().map(|revision| revisions::delete(revision));
        vec![Step::new(relabelled), Step::new(deleted)]
    }

    /// Old revisions that exceed the limit and that no pod is of, the earliest
    /// first.
    pub fn surplus(&self, set: &DaemonSet, pods: &[Object<Pod>]) -> Step {
        let limit = set.spec.revision_history_limit.unwrap_or(LIMIT);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let live = set_of(pods.iter().filter_map(|pod| pod.metadata.labels.get(REVISION_HASH_LABEL)));
        let dead = self.old.iter().filter(|revision| !live.contains(&hash_of(revision)));
        let surplus = dead.take(self.old.len().saturating_sub(limit));
        Step::new(surplus.map(|revision| revisions::delete(revision)))
    }
}

/// Gives a revision the label with its hash, if it has none.
fn label(revision: &Object<Revision>) -> Option<Action> {
    let meta = &revision.metadata;
    let body = json!({ "metadata": { "labels": { REVISION_HASH_LABEL: meta.name } } });
    (!meta.labels.contains_key(REVISION_HASH_LABEL)).then(|| {
        Action::merge(CONTROLLER_REVISIONS, &meta.namespace, &meta.name, &body)
            .uid(&meta.uid)
            .tag("label-revision")
    })
}
