//! Keeping a number of equal pods: what ReplicaSets and ReplicationControllers
//! have in common.
//!
//! In: an owner and the pods around it. Out: a plan that adopts and releases,
//! then creates or deletes towards the number, then writes the status.
//! Invariants: no pod is made or adopted for an owner that is being deleted;
//! nothing is written that changes nothing.
//!
//! There is no bookkeeping of pods expected but not seen: the host does not ask
//! again before the cache shows the last plan's writes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

use crate::claim::{HasMetadata, candidates, claim};
use crate::condition::{self, Condition};
use crate::contract::Failure;
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::manifest::Declaration;
use crate::meta::{ObjectMeta, OwnerReference, is_default};
use crate::plan::{About, Action, Plan, Step};
use crate::pod::{self, Pod, next_available};
use crate::query::Query;
use crate::ranking::sort_for_deletion;
use crate::read::FromJson;
use crate::resource::PODS;
use crate::selector::{Selector, has_all};
use crate::template::PodTemplate;
use crate::time::Time;
use crate::view::Object;

/// At most so many pods are made or deleted by one plan.
pub const BURST: usize = 500;

/// Type of the condition that says that pods cannot be made or deleted.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// What is measured of pods chosen to be deleted. Of ReplicationControllers too, as kube-controller-manager has it.
const AGE_RATIO: &str = "replicaset_controller_sorting_deletion_age_ratio";

/// State kept once the namespace is seen to go: no pod can be made any more.
const NAMESPACE_TERMINATING: &str = "namespace-terminating";

/// Something that keeps a number of equal pods.
pub trait ReplicaOwner: HasMetadata {
    /// How it says which pods are its own.
    type Selects;

    /// Whether the status tells how many pods are terminating.
    const COUNTS_TERMINATING: bool;

    /// The spec.
    fn spec(&self) -> &ReplicaSpec<Self::Selects>;

    /// Which pods are its own.
    fn selector(&self) -> Result<Selector, String>;

    /// The status as it stands.
    fn status(&self) -> &ReplicaStatus;
}

/// Spec of an owner of replicas; how it selects pods is `S`.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSpec<S> {
    /// How many pods are wanted.
    replicas: Option<i32>,
    /// For how long a pod must be ready to be available.
    pub min_ready_seconds: i32,
    /// Which pods are its own.
    pub selector: Option<S>,
    /// What pods are made from.
    pub template: PodTemplate,
}

impl<S> ReplicaSpec<S> {
    /// How many pods are wanted.
    pub fn replicas(&self) -> i32 {
        // The API server fills in 1 as well.
        self.replicas.unwrap_or(1)
    }
}

/// Status of an owner of replicas.
#[derive(Clone, Debug, Default, PartialEq, Serialize, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaStatus {
    /// Pods that are neither ended nor asked to go.
    pub replicas: i32,
    /// Those with all the labels of the template.
    #[serde(skip_serializing_if = "is_default")]
    pub fully_labeled_replicas: i32,
    /// Those that are ready.
    #[serde(skip_serializing_if = "is_default")]
    pub ready_replicas: i32,
    /// Those that have been ready for long enough.
    #[serde(skip_serializing_if = "is_default")]
    pub available_replicas: i32,
    /// Pods asked to go and not ended yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// Generation that the status is about.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Declares what is measured.
pub fn measures(declaration: Declaration) -> Declaration {
    declaration.histogram(
        AGE_RATIO,
        &[],
        &[0.25, 0.5, 1.0, 2.0, 4.0, 8.0],
        "[ALPHA] The ratio of chosen deleted pod's ages to the current youngest pod's age (at the time). Should be <2. The intent of this metric is to measure the rough efficacy of the LogarithmicScaleDown feature gate's effect on the sorting (and deletion) of pods when a replicaset scales down. This only considers Ready pods when calculating and reporting.",
    )
}

/// One reconcile of an owner of replicas, which is the key's object.
pub fn reconcile<O: ReplicaOwner>(ctx: &Ctx<'_>) -> Result<Plan> {
    let Some(owner) = ctx.primary::<O>()? else { return Ok(Plan::new()) };
    let meta = owner.metadata();
    let selector = owner.selector().map_err(|e| {
        Error::Terminal(format!(
            "{} {}/{}: invalid selector: {e}",
            O::RESOURCE.kind,
            meta.namespace,
            meta.name
        ))
    })?;
    let around = candidates::<Pod>(ctx, &meta.namespace, &meta.uid, &selector)?;
    let mut terminating = 0;
    let mut active = Vec::with_capacity(around.len());
    for pod in around.into_iter().filter(|pod| !pod.is_terminal()) {
        if !pod.metadata.is_deleting() {
            active.push(pod);
        } else if pod.metadata.is_controlled_by(&meta.uid) && selector.matches(&pod.metadata.labels) {
            terminating += 1;
        }
    }
    let claims = claim(ctx, &*owner, &selector, active)?;
    let pods = claims.owned;

    let mut plan = Plan::new();
    // A failed adoption leaves it open how many pods there are, so nothing
    // follows until that is known.
    plan.then(claims.writes);

    let trouble = Trouble::of(ctx);
    let about = About::new(O::RESOURCE, meta);
    for failure in &trouble.creations {
        plan.event(about.warning("FailedCreate", format!("Error creating: {}", failure.message)));
    }
    if trouble.namespace_terminating && ctx.state() != Some(NAMESPACE_TERMINATING) {
        plan.keep(NAMESPACE_TERMINATING);
    }
    let mut failure = trouble.condition(ctx.now());
    if !meta.is_deleting() {
        match difference(pods.len(), owner.spec().replicas()) {
            Difference::Create(_) if trouble.namespace_terminating => {}
            Difference::Create(_) if owner.spec().template.metadata.labels.is_empty() => {
                let text = "unable to create pods, no labels";
                failure = Some(Condition::new(REPLICA_FAILURE, "True", "FailedCreate", text, ctx.now()));
            }
            Difference::Create(count) => {
                let step = creations(&*owner, &about, count)?;
                plan.then(step);
            }
            Difference::Delete(count) => {
                let victims = choose_victims(ctx, &*owner, &pods, count)?;
                if victims.len() < pods.len() {
                    for ratio in age_ratios(&victims, &pods, ctx.now()) {
                        plan.measure(AGE_RATIO, &[], ratio);
                    }
                }
                plan.then(deletions(&about, &victims));
            }
            Difference::None => {}
        }
    }

    let status = status_of(&*owner, &selector, &pods, terminating, failure, ctx.now());
    if let Some(at) = next_check(&*owner, &status, &pods, ctx.now()) {
        plan.come_back(at);
    }
    plan.then(status_write(&owner, &status)?);
    Ok(plan)
}

/// What went wrong with the last plan's pods.
struct Trouble<'a> {
    /// Refused creations, but for those that a terminating namespace refused.
    creations: Vec<&'a Failure>,
    /// A refused deletion.
    deletion: Option<&'a Failure>,
    namespace_terminating: bool,
}

impl<'a> Trouble<'a> {
    fn of(ctx: &Ctx<'a>) -> Self {
        let (in_vain, creations): (Vec<_>, Vec<_>) =
            ctx.failures("create").partition(|failure| failure.is_of_terminating_namespace());
        Self {
            creations,
            deletion: ctx.failures("delete").next(),
            namespace_terminating: !in_vain.is_empty() || ctx.state() == Some(NAMESPACE_TERMINATING),
        }
    }

    fn condition(&self, now: Time) -> Option<Condition> {
        let (reason, message) = match (self.creations.first(), self.deletion) {
            (Some(failure), _) => ("FailedCreate", failure.message.clone()),
            (None, Some(failure)) => ("FailedDelete", format!("unable to delete pods: {}", failure.message)),
            (None, None) => return None,
        };
        Some(Condition::new(REPLICA_FAILURE, "True", reason, message, now))
    }
}

#[derive(Debug, PartialEq)]
enum Difference {
    Create(usize),
    Delete(usize),
    None,
}

/// What is missing or too much, up to [`BURST`].
fn difference(present: usize, wanted: i32) -> Difference {
    let wanted = usize::try_from(wanted).unwrap_or(0);
    match present.cmp(&wanted) {
        std::cmp::Ordering::Less => Difference::Create((wanted - present).min(BURST)),
        std::cmp::Ordering::Greater => Difference::Delete((present - wanted).min(BURST)),
        std::cmp::Ordering::Equal => Difference::None,
    }
}

/// Slow start: where one creation fails, the others likely would too.
fn creations<O: ReplicaOwner>(owner: &O, about: &About, count: usize) -> Result<Step> {
    let meta = owner.metadata();
    let reference = OwnerReference::controller(O::RESOURCE, &meta.name, &meta.uid);
    let pod = owner.spec().template.pod(&meta.namespace, reference);
    let create = Action::create(PODS, &meta.namespace, "", &pod)?
        .tag("create")
        .on_success(about.normal("SuccessfulCreate", "Created pod: {name}"));
    Ok(Step::new(std::iter::repeat_n(create, count)).slow_start().or_go_on())
}

fn deletions(about: &About, victims: &[Object<Pod>]) -> Step {
    Step::new(victims.iter().map(|pod| pod::delete(&pod.metadata, about))).or_go_on()
}

fn choose_victims<O: ReplicaOwner>(
    ctx: &Ctx<'_>,
    owner: &O,
    pods: &[Object<Pod>],
    count: usize,
) -> Result<Vec<Object<Pod>>> {
    let mut victims = pods.to_vec();
    // The order is of no account where all go.
    if count < pods.len() {
        let crowds = related_on_nodes(ctx, owner)?;
        let rank = |pod: &Pod| crowds.get(&pod.spec.node_name).copied().unwrap_or(0);
        victims = sort_for_deletion(victims, rank, ctx.now());
    }
    victims.truncate(count);
    Ok(victims)
}

/// How many times as old as the youngest pod each victim is, in whole numbers as kube-controller-manager has it. Only
/// pods that are ready matter.
fn age_ratios(victims: &[Object<Pod>], pods: &[Object<Pod>], now: Time) -> Vec<f64> {
    let age = |pod: &Object<Pod>| {
        let created = pod.metadata.creation_timestamp.filter(|_| pod.is_ready());
        created.and_then(|created| u64::try_from(now.since(created).as_millis()).ok())
    };
    // What is younger than a millisecond has no age to compare with.
    let Some(youngest) = pods.iter().filter_map(age).min().filter(|age| *age > 0) else { return Vec::new() };
    victims.iter().filter_map(age).map(|age| (age / youngest) as f64).collect()
}

/// How many active pods there are on each node, of all the owners that share
/// this one's controller (the ReplicaSets of one Deployment).
fn related_on_nodes<O: ReplicaOwner>(ctx: &Ctx<'_>, owner: &O) -> Result<BTreeMap<String, usize>> {
    let mut crowds = BTreeMap::new();
    let Some(controller) = owner.metadata().controller() else { return Ok(crowds) };
    let mut seen = BTreeSet::new();
    for sibling in ctx.list::<O>(Query::all().controlled_by(&controller.uid))? {
        // One with an invalid selector selects nothing.
        let Ok(selector) = sibling.selector() else { continue };
        if selector.is_nothing() {
            continue;
        }
        let namespace = &sibling.metadata().namespace;
        for pod in ctx.list::<Pod>(Query::all().namespace(namespace).matching(&selector))? {
            if pod.is_active() && seen.insert(pod.metadata.uid.clone()) {
                *crowds.entry(pod.spec.node_name.clone()).or_insert(0) += 1;
            }
        }
    }
    Ok(crowds)
}

fn status_of<O: ReplicaOwner>(
    owner: &O,
    selector: &Selector,
    pods: &[Object<Pod>],
    terminating: usize,
    failure: Option<Condition>,
    now: Time,
) -> ReplicaStatus {
    let template = &owner.spec().template.metadata.labels;
    let min_ready = owner.spec().min_ready_seconds;
    // What is its own matches its selector, which mostly is all that the template's labels ask for.
    let labels_told = selector.is_of_labels(template);
    let (mut labeled, mut ready, mut available) = (0, 0, 0);
    for pod in pods {
        labeled += usize::from(labels_told || has_all(&pod.metadata.labels, template));
        if let Some(condition) = pod::ready(&pod.status.conditions) {
            ready += 1;
            available += usize::from(pod::is_true_for(condition, min_ready, now));
        }
    }
    let mut conditions = owner.status().conditions.clone();
    match failure {
        // The first failure stands until there is none; its text is not chased.
        Some(failure) if condition::find(&conditions, REPLICA_FAILURE).is_none() => conditions.push(failure),
        Some(_) => {}
        None => {
            condition::remove(&mut conditions, REPLICA_FAILURE);
        }
    }
    ReplicaStatus {
        replicas: number(pods.len()),
        fully_labeled_replicas: number(labeled),
        ready_replicas: number(ready),
        available_replicas: number(available),
        terminating_replicas: O::COUNTS_TERMINATING.then(|| number(terminating)),
        observed_generation: owner.metadata().generation,
        conditions,
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// When a pod that is ready now becomes available, if nothing else happens.
fn next_check<O: ReplicaOwner>(
    owner: &O,
    status: &ReplicaStatus,
    pods: &[Object<Pod>],
    now: Time,
) -> Option<Time> {
    let min_ready = owner.spec().min_ready_seconds;
    if min_ready <= 0 || status.ready_replicas == status.available_replicas {
        return None;
    }
    let next = next_available(pods.iter().map(|pod| &**pod), min_ready, now);
    Some(next.unwrap_or_else(|| now + Duration::from_secs(min_ready.unsigned_abs().into())))
}

/// Counts are simply right, so they are written over whatever is there. A list
/// of conditions is replaced whole, so it must be the one that was seen.
fn status_write<O: ReplicaOwner>(owner: &Object<O>, wanted: &ReplicaStatus) -> Result<Option<Action>> {
    let meta: &ObjectMeta<O::Annotations> = owner.metadata();
    let seen = owner.status();
    let write = Action::status(O::RESOURCE, &meta.namespace, &meta.name, seen, wanted)?;
    Ok(write.map(|write| {
        if seen.conditions == wanted.conditions { write.uid(&meta.uid) } else { write.as_seen(owner) }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_makes_or_deletes_no_more_than_a_burst() {
        for (present, wanted, difference_wanted) in [
            (0, 0, Difference::None),
            (0, 3, Difference::Create(3)),
            (0, 501, Difference::Create(500)),
            (3, 1, Difference::Delete(2)),
            (1200, 0, Difference::Delete(500)),
            (2, -1, Difference::Delete(2)),
            (2, i32::MAX, Difference::Create(500)),
        ] {
            assert_eq!(difference(present, wanted), difference_wanted, "{present} of {wanted}");
        }
    }
}
