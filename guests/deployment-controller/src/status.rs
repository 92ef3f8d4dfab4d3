//! The status of a Deployment.
//!
//! In: the status as it is, the ReplicaSets, the time. Out: the status as it is
//! to be. Progress is judged by comparing the two; when it last was is kept in
//! the condition's `lastUpdateTime`, so nothing else must be remembered.

use std::time::Duration;

use coxswain_sdk::Time;
use coxswain_sdk::condition::{self, Condition};

use crate::bounds::Bounds;
use crate::sets::{Set, Sets};
use crate::view::{Deployment, DeploymentSpec, DeploymentStatus};

/// Type of the condition that tells how a rollout is doing.
pub const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Reason of a rollout that is done.
const DONE: &str = "NewReplicaSetAvailable";
/// Reason of a rollout that got nowhere for too long.
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";
const RESUMED: &str = "DeploymentResumed";

/// The condition `Progressing`, changed just now.
pub fn progressing(status: &str, reason: &str, message: String, now: Time) -> Condition {
    condition(PROGRESSING, status, reason, message, now)
}

fn condition(kind: &str, status: &str, reason: &str, message: String, now: Time) -> Condition {
    let mut condition = Condition::new(kind, status, reason, message, now);
    condition.last_update_time = condition.last_transition_time;
    condition
}

/// After how long without progress a rollout is reported, if ever.
pub fn deadline(spec: &DeploymentSpec) -> Option<Duration> {
    let seconds = spec.progress_deadline_seconds.filter(|seconds| *seconds != i32::MAX)?;
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// Notes that the Deployment was paused or resumed: no progress is expected in
/// between. What was reported as stuck before stays so.
pub fn pause_or_resume(deployment: &Deployment, status: &mut DeploymentStatus, now: Time) {
    if deadline(&deployment.spec).is_none() {
        return;
    }
    let reason = condition::find(&status.conditions, PROGRESSING).map(|c| c.reason.as_str());
    let noted = reason == Some(PAUSED);
    let (reason, message) = match (reason, deployment.spec.paused) {
        (Some(TIMED_OUT), _) => return,
        (_, true) if !noted => (PAUSED, "Deployment is paused"),
        (_, false) if noted => (RESUMED, "Deployment is resumed"),
        _ => return,
    };
    condition::set(&mut status.conditions, progressing("Unknown", reason, message.to_owned(), now));
}

/// The counts, and whether enough pods are available. Progress is not judged.
pub fn counted(
    deployment: &Deployment,
    status: &DeploymentStatus,
    bounds: &Bounds,
    sets: &Sets,
    now: Time,
) -> DeploymentStatus {
    let sum = |of: fn(&Set) -> i64| sets.all().map(of).sum::<i64>();
    let available = sum(Set::available);
    let mut conditions = status.conditions.clone();
    let (status_word, reason, message) = if available >= bounds.min_available() {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    condition::set(&mut conditions, condition(AVAILABLE, status_word, reason, message.to_owned(), now));
    DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: sum(Set::actual),
        updated_replicas: sets.new.as_ref().map_or(0, Set::actual),
        ready_replicas: sum(Set::ready),
        available_replicas: available,
        // More are available than wanted for a moment after a scale down. What
        // is scaled just now counts once it is seen.
        unavailable_replicas: (sum(Set::seen_size) - available).max(0),
        terminating_replicas: sets.all().map(Set::terminating).sum(),
        collision_count: status.collision_count,
        conditions,
    }
}

/// The status in a rollout: the counts, and how it is doing.
pub fn of_rollout(
    deployment: &Deployment,
    status: &DeploymentStatus,
    bounds: &Bounds,
    sets: &Sets,
    now: Time,
) -> DeploymentStatus {
    let mut wanted = counted(deployment, status, bounds, sets, now);
    match deadline(&deployment.spec) {
        None => {
            condition::remove(&mut wanted.conditions, PROGRESSING);
        }
        Some(deadline) => judge(deployment, status, &mut wanted, sets, deadline, now),
    }
    match replica_failure(sets) {
        Some(failure) => {
            condition::set(&mut wanted.conditions, failure);
        }
        None => {
            condition::remove(&mut wanted.conditions, REPLICA_FAILURE);
        }
    }
    wanted
}

/// Says how the rollout is doing.
fn judge(
    deployment: &Deployment,
    status: &DeploymentStatus,
    wanted: &mut DeploymentStatus,
    sets: &Sets,
    deadline: Duration,
    now: Time,
) {
    let current = condition::find(&status.conditions, PROGRESSING);
    let is_done = current.is_some_and(|current| current.reason == DONE);
    // A rollout that is done is not judged again: pods that come and go later
    // are no rollout.
    if is_done && wanted.replicas == wanted.updated_replicas {
        return;
    }
    let what = match &sets.new {
        Some(new) => format!("ReplicaSet {:?}", new.name),
        None => format!("Deployment {:?}", deployment.metadata.name),
    };
    if is_complete(deployment, wanted) {
        let message = format!("{what} has successfully progressed.");
        condition::set(&mut wanted.conditions, progressing("True", DONE, message, now));
    } else if has_progressed(status, wanted) {
        let mut next = progressing("True", "ReplicaSetUpdated", format!("{what} is progressing."), now);
        // Its time of update moves with each bit of progress, which setting a
        // condition to what it is would not do.
        if let Some(current) = current {
            if current.is_true() {
                next.last_transition_time = current.last_transition_time;
            }
            condition::remove(&mut wanted.conditions, PROGRESSING);
        }
        condition::set(&mut wanted.conditions, next);
    } else if current.is_some_and(|current| has_timed_out(current, deadline, now)) {
        let message = format!("{what} has timed out progressing.");
        condition::set(&mut wanted.conditions, progressing("False", TIMED_OUT, message, now));
    }
}

/// Whether all pods are of the current template and available, and no old ones
/// are left.
pub fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let replicas = i64::from(deployment.spec.replicas.unwrap_or(1));
    status.updated_replicas == replicas
        && status.replicas == replicas
        && status.available_replicas == replicas
        && status.observed_generation >= deployment.metadata.generation
}

/// Whether there are more new pods, fewer old ones, or more that are ready or
/// available.
fn has_progressed(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let old = |status: &DeploymentStatus| status.replicas - status.updated_replicas;
    after.updated_replicas > before.updated_replicas
        || old(after) < old(before)
        || after.ready_replicas > before.ready_replicas
        || after.available_replicas > before.available_replicas
}

fn has_timed_out(current: &Condition, deadline: Duration, now: Time) -> bool {
    match current.reason.as_str() {
        // A new rollout that was not noted yet must not be measured by the last.
        DONE => false,
        TIMED_OUT => true,
        _ => current.last_update_time.is_some_and(|since| since + deadline < now),
    }
}

/// When to look again whether the rollout got anywhere.
pub fn next_check(deployment: &Deployment, status: &DeploymentStatus) -> Option<Time> {
    let deadline = deadline(&deployment.spec)?;
    let current = condition::find(&status.conditions, PROGRESSING)?;
    if is_complete(deployment, status) || matches!(current.reason.as_str(), TIMED_OUT | DONE) {
        return None;
    }
    // Times are kept in whole seconds: after one more the deadline has passed.
    Some(current.last_update_time? + deadline + Duration::from_secs(1))
}

/// The failure of one of the ReplicaSets, the current one first.
fn replica_failure(sets: &Sets) -> Option<Condition> {
    let mut sets = sets.new.iter().chain(&sets.old);
    let failure = sets.find_map(|set| set.condition(REPLICA_FAILURE))?;
    Some(Condition {
        kind: REPLICA_FAILURE.to_owned(),
        status: failure.status.clone(),
        last_transition_time: failure.last_transition_time,
        last_update_time: failure.last_transition_time,
        reason: failure.reason.clone(),
        message: failure.message.clone(),
        ..Condition::default()
    })
}

#[cfg(test)]
mod tests;
