//! One reconcile of a StatefulSet.
//!
//! Invariants: nothing is made, deleted or adopted for a set that is being
//! deleted; a pod is made only after the revision and the claims that it names.

use std::time::Duration;

use coxswain_sdk::claim::{candidates, claim_if};
use coxswain_sdk::contract::ActionOutcome;
use coxswain_sdk::pod::available_from;
use coxswain_sdk::resource::STATEFUL_SETS;
use coxswain_sdk::revisions::History;
use coxswain_sdk::{Action, Ctx, Error, Event, Object, Plan, Result, Time};

use crate::members::{Members, ordinal_of};
use crate::pods::PodEvents;
use crate::revision::Revisions;
use crate::status::Status;
use crate::update::Update;
use crate::view::{Pod, StatefulSet};
use crate::work::{Situation, Work};
use crate::{claims, measures, pods, several_unavailable};

/// One reconcile of a StatefulSet, which is the key's object.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let Some(set) = ctx.primary::<StatefulSet>()? else { return Ok(plan) };
    let meta = &set.metadata;
    let selector = set.selector().map_err(|e| {
        Error::Terminal(format!("StatefulSet {}/{}: invalid selector: {e}", meta.namespace, meta.name))
    })?;

    let (history, mut adoptions) = History::claim(ctx, &*set, &selector)?;
    let around = candidates::<Pod>(ctx, &meta.namespace, &meta.uid, &selector)?;
    let claimed = claim_if(ctx, &*set, around, |pod: &Pod| {
        selector.matches(&pod.metadata.labels) && ordinal_of(&meta.name, &pod.metadata.name).is_some()
    })?;
    let pods = claimed.owned;
    adoptions.extend(claimed.writes);
    plan.then(adoptions);

    let revisions = Revisions::of(ctx, &set, &history)?;
    plan.then(revisions.write.clone());
    for event in troubles(ctx, &set) {
        plan.event(event);
    }

    let members = Members::of(&set, &pods);
    let mut work = Work::default();
    let update =
        Update { set: &set, revision: &revisions.update, current: &revisions.current, now: ctx.now() };
    if several_unavailable(ctx)? {
        measures::tell(&mut plan, &update, &members);
    }
    if !meta.is_deleting() {
        let current_template = revisions.current_template(&set, &history)?;
        work = Work::of(ctx, &Situation { set: &set, members: &members, update, current_template })?;
    }
    work.before_status(&mut plan);
    let status = status_of(&set, &revisions, &pods, work.outdated, ctx.now());
    if let Some(at) = next_check(&set, &status, &pods, ctx.now()) {
        plan.come_back(at);
    }
    // Counts are simply right, so they are written over whatever is there.
    let write = Action::status(STATEFUL_SETS, &meta.namespace, &meta.name, &set.status, &status)?;
    plan.then(write.map(|write| write.uid(&meta.uid)));
    plan.then(revisions.truncate(&set, &history, &pods));
    work.after_status(&mut plan);
    Ok(plan)
}

/// Events for what of the last plan could not be made. (A name that was taken
/// meanwhile is no news: the cache will tell by whom.)
fn troubles(ctx: &Ctx<'_>, set: &StatefulSet) -> Vec<Event> {
    let events = PodEvents::of(set);
    let mut troubles = Vec::new();
    for result in ctx.results() {
        let ActionOutcome::Failed(failure) = &result.result else { continue };
        if failure.reason == "AlreadyExists" {
            continue;
        }
        let error = failure.message.as_str();
        if let Some(pod) = result.tag.strip_prefix(pods::CREATE) {
            troubles.push(events.failure("Create", pod, error));
        } else if let Some((claim, pod)) = names_in(&result.tag, claims::CREATE) {
            troubles.push(events.claim_failed(claim, pod, error));
            let error = format!("failed to create PVC {claim}: {error}");
            troubles.push(events.failure("Create", pod, &error));
        } else if let Some((claim, pod)) = names_in(&result.tag, claims::CREATE_MISSING) {
            troubles.push(events.claim_failed(claim, pod, error));
        }
    }
    troubles
}

/// The claim's and the pod's name in a tag.
fn names_in<'a>(tag: &'a str, prefix: &str) -> Option<(&'a str, &'a str)> {
    tag.strip_prefix(prefix)?.split_once(' ')
}

fn status_of(
    set: &StatefulSet,
    revisions: &Revisions,
    pods: &[Object<Pod>],
    outdated: i32,
    now: Time,
) -> Status {
    let mut status = Status {
        observed_generation: set.metadata.generation,
        current_revision: revisions.current.clone(),
        update_revision: revisions.update.clone(),
        collision_count: Some(revisions.collisions),
        ..Status::default()
    };
    status.count(pods.iter().map(|pod| &**pod), set.spec.min_ready_seconds, now);
    status.current_replicas = status.current_replicas.saturating_sub(outdated);
    if !set.updates_on_delete() {
        status.complete(set.replicas());
    }
    status.over(&set.status)
}

/// When a pod that is ready now becomes available, if nothing else happens.
fn next_check(set: &StatefulSet, status: &Status, pods: &[Object<Pod>], now: Time) -> Option<Time> {
    let min_ready = set.spec.min_ready_seconds;
    if min_ready <= 0 || status.ready_replicas == status.available_replicas {
        return None;
    }
    let times = pods
        .iter()
        .filter_map(|pod| available_from(&pod.status.conditions, min_ready))
        .filter(|at| *at > now);
    Some(times.min().unwrap_or_else(|| now + Duration::from_secs(min_ready.unsigned_abs().into())))
}
