use serde_json::{Value, json};

use super::*;
use crate::sets::made::{bounds, set_with};

const NOW: &str = "2026-01-01T01:00:00Z";
const BEFORE: &str = "2026-01-01T00:50:00Z";

fn now() -> Time {
    Time::parse(NOW).unwrap()
}

fn deployment(changes: &[Value]) -> Deployment {
    let mut json = json!({
        "metadata": {"name": "web", "namespace": "default", "generation": 3},
        "spec": {"replicas": 3, "progressDeadlineSeconds": 600, "strategy": {"type": "RollingUpdate"}},
        "status": {"observedGeneration": 3},
    });
    changes.iter().for_each(|change| coxswain_sdk::merge::apply(&mut json, change));
    serde_json::from_value(json).unwrap()
}

fn with_progressing(status: &str, reason: &str, updated: &str) -> Value {
    json!({"status": {"conditions": [{
        "type": "Progressing", "status": status, "reason": reason, "message": "as it was",
        "lastUpdateTime": updated, "lastTransitionTime": BEFORE,
    }]}})
}

fn condition_of(status: &DeploymentStatus, kind: &str) -> Option<(String, String, String, String)> {
    let found = condition::find(&status.conditions, kind)?;
    let text = |time: Option<Time>| time.map(|t| t.to_string()).unwrap_or_default();
    let since = text(found.last_transition_time);
    Some((found.status.clone(), found.reason.clone(), text(found.last_update_time), since))
}

fn quad(status: &str, reason: &str, updated: &str, since: &str) -> Option<(String, String, String, String)> {
    Some((status.to_owned(), reason.to_owned(), updated.to_owned(), since.to_owned()))
}

/// New one of size 3 with so many available, old one of size `old`.
fn sets(available: i64, old: i64) -> Sets {
    Sets { new: Some(set_with("new", 3, available, 2)), old: vec![set_with("old", old, old, 1)] }
}

#[test]
fn how_a_rollout_is_doing() {
    let counts = |updated: i64, all: i64, available: i64| {
        json!({"status": {
            "updatedReplicas": updated, "replicas": all, "readyReplicas": available, "availableReplicas": available,
        }})
    };
    let updated_long_ago = "2026-01-01T00:49:59Z";
    for (what, changes, sets, wanted) in [
        (
            "done for the first time",
            vec![counts(3, 3, 2)],
            sets(3, 0),
            quad("True", "NewReplicaSetAvailable", NOW, NOW),
        ),
        (
            "done keeps the time of transition",
            vec![counts(3, 3, 2), with_progressing("True", "ReplicaSetUpdated", BEFORE)],
            sets(3, 0),
            quad("True", "NewReplicaSetAvailable", NOW, BEFORE),
        ),
        (
            "done after being stuck",
            vec![counts(3, 3, 2), with_progressing("False", "ProgressDeadlineExceeded", BEFORE)],
            sets(3, 0),
            quad("True", "NewReplicaSetAvailable", NOW, NOW),
        ),
        (
            "was done: a pod that is lost later is not judged",
            vec![counts(3, 3, 3), with_progressing("True", "NewReplicaSetAvailable", updated_long_ago)],
            sets(2, 0),
            quad("True", "NewReplicaSetAvailable", updated_long_ago, BEFORE),
        ),
        ("new pods", vec![counts(2, 2, 0)], sets(0, 0), quad("True", "ReplicaSetUpdated", NOW, NOW)),
        (
            "new pods again: only the time of update moves",
            vec![counts(2, 3, 1), with_progressing("True", "ReplicaSetUpdated", BEFORE)],
            sets(0, 1),
            quad("True", "ReplicaSetUpdated", NOW, BEFORE),
        ),
        (
            "fewer old ones",
            vec![counts(3, 5, 2), with_progressing("True", "ReplicaSetUpdated", BEFORE)],
            sets(0, 1),
            quad("True", "ReplicaSetUpdated", NOW, BEFORE),
        ),
        (
            "more available, after being stuck",
            vec![counts(3, 4, 1), with_progressing("False", "ProgressDeadlineExceeded", BEFORE)],
            sets(1, 1),
            quad("True", "ReplicaSetUpdated", NOW, NOW),
        ),
        (
            "the deadline to the second",
            vec![counts(3, 4, 2), with_progressing("True", "ReplicaSetUpdated", BEFORE)],
            sets(1, 1),
            quad("True", "ReplicaSetUpdated", BEFORE, BEFORE),
        ),
        (
            "beyond the deadline",
            vec![counts(3, 4, 2), with_progressing("True", "ReplicaSetUpdated", updated_long_ago)],
            sets(1, 1),
            quad("False", "ProgressDeadlineExceeded", NOW, NOW),
        ),
        (
            "beyond it for longer",
            vec![counts(3, 4, 2), with_progressing("False", "ProgressDeadlineExceeded", updated_long_ago)],
            sets(1, 1),
            quad("False", "ProgressDeadlineExceeded", updated_long_ago, BEFORE),
        ),
        (
            "the last rollout is no measure of this one",
            vec![counts(3, 4, 2), with_progressing("True", "NewReplicaSetAvailable", updated_long_ago)],
            sets(1, 1),
            quad("True", "NewReplicaSetAvailable", updated_long_ago, BEFORE),
        ),
        ("nothing to measure by", vec![counts(3, 4, 2)], sets(1, 1), None),
        (
            "no deadline: no word about progress",
            vec![
                json!({"spec": {"progressDeadlineSeconds": null}}),
                counts(2, 2, 0),
                with_progressing("True", "ReplicaSetUpdated", BEFORE),
            ],
            sets(1, 1),
            None,
        ),
        (
            "the largest deadline is none",
            vec![json!({"spec": {"progressDeadlineSeconds": i32::MAX}}), counts(2, 2, 0)],
            sets(1, 1),
            None,
        ),
    ] {
        let deployment = deployment(&changes);
        let wanted_status = of_rollout(&deployment, &deployment.status, &bounds(3, 1, 0), &sets, now());
        assert_eq!(condition_of(&wanted_status, PROGRESSING), wanted, "{what}");
    }
}

#[test]
fn messages_name_the_replica_set() {
    let deployment = deployment(&[]);
    let message = |sets: &Sets| {
        let status = of_rollout(&deployment, &deployment.status, &bounds(3, 1, 0), sets, now());
        condition::find(&status.conditions, PROGRESSING).unwrap().message.clone()
    };
    assert_eq!(message(&sets(3, 0)), "ReplicaSet \"new\" has successfully progressed.");
    assert_eq!(message(&sets(1, 1)), "ReplicaSet \"new\" is progressing.");
    let none = Sets { new: None, old: vec![set_with("old", 1, 1, 1)] };
    assert_eq!(message(&none), "Deployment \"web\" is progressing.");
}

#[test]
fn counts_add_up() {
    let deployment = deployment(&[json!({"status": {"collisionCount": 2}})]);
    let status = counted(&deployment, &deployment.status, &bounds(3, 1, 1), &sets(1, 2), now());
    assert_eq!(
        serde_json::to_value(&status).unwrap(),
        json!({
            "observedGeneration": 3, "replicas": 5, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
            "unavailableReplicas": 2, "terminatingReplicas": 0, "collisionCount": 2,
            "conditions": [{
                "type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
                "message": "Deployment has minimum availability.", "lastUpdateTime": NOW, "lastTransitionTime": NOW,
            }],
        })
    );
    for (available, unavailable, enough) in
        [(2, 0, "True"), (1, 0, "False"), (1, 1, "True"), (0, 1, "False"), (0, 2, "True")]
    {
        let bounds = bounds(2, 1, unavailable);
        let status = counted(&deployment, &deployment.status, &bounds, &sets(available, 0), now());
        let found = condition::find(&status.conditions, AVAILABLE).unwrap();
        assert_eq!(found.status, enough, "{available} of 2, {unavailable} may be missing");
    }
    // Scaled down just now: more are available than wanted.
    let shrunk = Sets { new: Some(set_with("new", 1, 3, 1)), old: vec![] };
    assert_eq!(
        counted(&deployment, &deployment.status, &bounds(1, 1, 0), &shrunk, now()).unavailable_replicas,
        0
    );
}

#[test]
fn when_to_look_again() {
    let stuck = |reason: &str| with_progressing("True", reason, "2026-01-01T00:59:30Z");
    let due = Some("2026-01-01T01:09:31Z");
    for (what, change, wanted) in [
        ("a rollout under way", stuck("ReplicaSetUpdated"), due),
        ("a rollout that was resumed", stuck("DeploymentResumed"), due),
        ("nothing to measure by", json!({}), None),
        ("done", stuck("NewReplicaSetAvailable"), None),
        ("stuck already", stuck("ProgressDeadlineExceeded"), None),
    ] {
        let deployment = deployment(&[change]);
        let at = next_check(&deployment, &deployment.status).map(|at| at.to_string());
        assert_eq!(at.as_deref(), wanted, "{what}");
    }
    for (what, extra) in [
        ("no deadline", json!({"spec": {"progressDeadlineSeconds": null}})),
        ("the largest deadline", json!({"spec": {"progressDeadlineSeconds": i32::MAX}})),
        ("complete", json!({"status": {"replicas": 3, "updatedReplicas": 3, "availableReplicas": 3}})),
    ] {
        let deployment = deployment(&[stuck("ReplicaSetUpdated"), extra]);
        assert_eq!(next_check(&deployment, &deployment.status), None, "{what}");
    }
}

#[test]
fn complete_means_all_new_all_available_and_seen() {
    for (what, status, wanted) in [
        ("complete", json!({}), true),
        ("not all available", json!({"availableReplicas": 2}), false),
        ("not all new", json!({"updatedReplicas": 2}), false),
        ("old ones left", json!({"replicas": 4}), false),
        ("too few", json!({"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}), false),
        ("of another generation", json!({"observedGeneration": 2}), false),
    ] {
        let all = json!({"status": {"replicas": 3, "updatedReplicas": 3, "availableReplicas": 3}});
        let deployment = deployment(&[all, json!({ "status": status })]);
        assert_eq!(is_complete(&deployment, &deployment.status), wanted, "{what}");
    }
}

#[test]
fn a_pause_is_noted_once() {
    let paused = |paused: bool| json!({"spec": {"paused": paused}});
    for (what, change, spec, wanted) in [
        (
            "paused",
            with_progressing("True", "ReplicaSetUpdated", BEFORE),
            paused(true),
            quad("Unknown", "DeploymentPaused", NOW, NOW),
        ),
        ("paused from the start", json!({}), paused(true), quad("Unknown", "DeploymentPaused", NOW, NOW)),
        (
            "still paused",
            with_progressing("Unknown", "DeploymentPaused", BEFORE),
            paused(true),
            quad("Unknown", "DeploymentPaused", BEFORE, BEFORE),
        ),
        (
            "resumed",
            with_progressing("Unknown", "DeploymentPaused", BEFORE),
            paused(false),
            quad("Unknown", "DeploymentResumed", NOW, BEFORE),
        ),
        (
            "stuck before",
            with_progressing("False", "ProgressDeadlineExceeded", BEFORE),
            paused(true),
            quad("False", "ProgressDeadlineExceeded", BEFORE, BEFORE),
        ),
        (
            "never paused",
            with_progressing("True", "ReplicaSetUpdated", BEFORE),
            paused(false),
            quad("True", "ReplicaSetUpdated", BEFORE, BEFORE),
        ),
        ("no deadline", json!({}), json!({"spec": {"paused": true, "progressDeadlineSeconds": null}}), None),
    ] {
        let deployment = deployment(&[change, spec]);
        let mut status = deployment.status.clone();
        pause_or_resume(&deployment, &mut status, now());
        assert_eq!(condition_of(&status, PROGRESSING), wanted, "{what}");
    }
}

#[test]
fn a_replica_sets_failure_is_passed_on() {
    let failing = |name: &str, hour: u32, reason: &str| {
        let mut set = set_with(name, 1, 0, hour);
        let mut view = (**set.seen.as_ref().unwrap()).clone();
        let mut failure =
            Condition::new(REPLICA_FAILURE, "True", reason, "text", Time::parse(BEFORE).unwrap());
        failure.rest.insert("more".to_owned(), json!(1));
        view.status.conditions.push(failure);
        set.seen = Some(coxswain_sdk::Object::new(set.seen.as_ref().unwrap().reference(), view));
        set
    };
    let deployment = deployment(&[]);
    let passed_on = |sets: &Sets, status: &DeploymentStatus| {
        of_rollout(&deployment, status, &bounds(3, 1, 0), sets, now())
    };
    let both =
        Sets { new: Some(failing("new", 2, "FailedCreate")), old: vec![failing("old", 1, "FailedDelete")] };
    let status = passed_on(&both, &deployment.status);
    assert_eq!(condition_of(&status, REPLICA_FAILURE), quad("True", "FailedCreate", BEFORE, BEFORE));
    let old = Sets { new: Some(set_with("new", 1, 0, 2)), old: vec![failing("old", 1, "FailedDelete")] };
    let status = passed_on(&old, &status);
    assert_eq!(condition_of(&status, REPLICA_FAILURE), quad("True", "FailedDelete", BEFORE, BEFORE));
    assert_eq!(condition_of(&passed_on(&sets(1, 1), &status), REPLICA_FAILURE), None);
}
