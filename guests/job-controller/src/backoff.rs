//! How long a Job waits with a further pod after some have failed.
//!
//! Pure: pods and what is remembered of others in, failures in a row and a time
//! out. The wait counts from the end of the last pod that failed, so a restart
//! of the manager neither forgets nor prolongs it.

use std::time::Duration;

use coxswain_sdk::{FromJson, Time};
use serde::Serialize;

use crate::tally::number;
use crate::view::{Job, Pod};

/// The wait after one failure.
pub const FIRST: Duration = Duration::from_secs(10);
/// The longest wait.
pub const LONGEST: Duration = Duration::from_secs(600);

/// Failures since the last success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, FromJson)]
#[serde(default)]
pub struct Failures {
    /// How many.
    pub count: i64,
    /// When the last pod failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Time>,
}

impl Failures {
    /// Whether there are none.
    pub fn are_none(&self) -> bool {
        *self == Self::default()
    }

    /// Failures since the last success, by the pods that are there and what is
    /// remembered of those that are gone.
    pub fn of<'a>(job: &Job, pods: impl IntoIterator<Item = &'a Pod>, remembered: Self) -> Self {
        let mut succeeded: Option<Time> = None;
        let mut failed = Vec::new();
        for pod in pods {
            if job.is_indexed() && pod.valid_index(job).is_none() {
                continue;
            }
            if pod.has_succeeded() {
                succeeded = succeeded.max(Some(pod.finished_at()));
            } else if has_failed_by_itself(job, pod) {
                failed.push(pod.finished_at());
            }
        }
        let after_success = |at: &Time| succeeded.is_none_or(|succeeded| *at > succeeded);
        failed.retain(after_success);
        let old =
            if remembered.last.as_ref().is_some_and(after_success) { remembered } else { Self::default() };
        let new = failed.iter().filter(|at| old.last.is_none_or(|last| **at > last)).count();
        Self {
            // Of pods that ended in the same second it cannot be told which are remembered.
            count: old.count.saturating_add(number(new)).max(number(failed.len())),
            last: failed.iter().copied().max().max(old.last),
        }
    }

    /// When a further pod may be made; None: now.
    pub fn ready_at(&self, now: Time) -> Option<Time> {
        self.last.and_then(|last| ready_at(self.count, last, now))
    }
}

/// A pod that we asked to go ourselves lost its finalizer before; one that was
/// counted keeps its phase.
fn has_failed_by_itself(job: &Job, pod: &Pod) -> bool {
    pod.has_failed(job) && (pod.is_tracked() || !pod.metadata.is_deleting())
}

/// The wait after so many failures in a row.
fn wait_after(failures: i64) -> Duration {
    let doublings = failures.saturating_sub(1).clamp(0, 30);
    FIRST.saturating_mul(1 << doublings).min(LONGEST)
}

/// When a further pod may be made, so many failures after a success; None: now.
pub fn ready_at(failures: i64, last: Time, now: Time) -> Option<Time> {
    if failures <= 0 {
        return None;
    }
    // A clock ahead of ours must not lengthen the wait.
    let at = last.min(now) + wait_after(failures);
    (at > now).then_some(at)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tests::{at, ended, indexed, indexed_pod, job, pod};

    fn failures(count: i64, last: Option<i64>) -> Failures {
        Failures { count, last: last.map(at) }
    }

    fn of(pods: &[coxswain_sdk::Object<Pod>], remembered: Failures) -> Failures {
        Failures::of(&job(json!({})), pods.iter().map(|pod| &**pod), remembered)
    }

    #[test]
    fn failures_since_the_last_success_count() {
        let (ok, bad) = (|s| ended("ok", "Succeeded", s), |s| ended("bad", "Failed", s));
        for (pods, expected) in [
            (vec![], failures(0, None)),
            (vec![ok(1)], failures(0, None)),
            (vec![bad(1)], failures(1, Some(1))),
            (vec![bad(3), bad(1), bad(2)], failures(3, Some(3))),
            (vec![bad(1), ok(2)], failures(0, None)),
            (vec![bad(2), ok(2)], failures(0, None)),
            (vec![bad(1), ok(2), bad(3), bad(4)], failures(2, Some(4))),
            (vec![pod("runs", json!({}))], failures(0, None)),
        ] {
            assert_eq!(of(&pods, Failures::default()), expected);
        }
    }

    #[test]
    fn pods_that_are_gone_are_remembered() {
        let (ok, bad) = (|s| ended("ok", "Succeeded", s), |s| ended("bad", "Failed", s));
        for (pods, remembered, expected) in [
            (vec![], failures(2, Some(5)), failures(2, Some(5))),
            (vec![bad(9)], failures(2, Some(5)), failures(3, Some(9))),
            // The same pods again are not counted again.
            (vec![bad(4), bad(5)], failures(2, Some(5)), failures(2, Some(5))),
            (vec![bad(4), bad(5), bad(9)], failures(2, Some(5)), failures(3, Some(9))),
            // Three that ended together, of which one was seen first.
            (vec![bad(5), bad(5), bad(5)], failures(1, Some(5)), failures(3, Some(5))),
            (vec![ok(6)], failures(2, Some(5)), failures(0, None)),
            (vec![ok(6), bad(7)], failures(2, Some(5)), failures(1, Some(7))),
            (vec![ok(3)], failures(2, Some(5)), failures(2, Some(5))),
        ] {
            assert_eq!(of(&pods, remembered), expected, "{remembered:?}");
        }
    }

    #[test]
    fn what_we_deleted_ourselves_did_not_fail() {
        let deleted =
            json!({"metadata": {"deletionTimestamp": at(9).to_string(), "deletionGracePeriodSeconds": 4}});
        let mut untracked = deleted.clone();
        untracked["metadata"]["finalizers"] = json!(null);
        // Somebody else's deletion: when that was asked for is the end.
        assert_eq!(of(&[pod("a", deleted.clone())], Failures::default()), failures(1, Some(5)));
        assert_eq!(of(&[pod("a", untracked.clone())], Failures::default()), failures(0, None));
        untracked["status"]["phase"] = json!("Failed");
        assert_eq!(of(&[pod("a", untracked)], Failures::default()), failures(0, None));
        // Counted before, and still there.
        let counted = pod("a", json!({"metadata": {"finalizers": null}, "status": {"phase": "Failed"}}));
        assert_eq!(of(&[counted], Failures::default()), failures(1, Some(0)));
        // While only ended pods are replaced, one that is going has not failed yet.
        let patient = job(json!({"spec": {"podReplacementPolicy": "Failed"}}));
        let going = pod("a", deleted);
        assert_eq!(Failures::of(&patient, [&*going], Failures::default()), failures(0, None));
    }

    #[test]
    fn pods_without_a_valid_index_do_not_count() {
        let pods = [
            indexed_pod("a", "3", "Failed"),
            indexed_pod("b", "x", "Failed"),
            indexed_pod("c", "2", "Failed"),
        ];
        let counted = Failures::of(&indexed(json!({})), pods.iter().map(|pod| &**pod), Failures::default());
        assert_eq!(counted.count, 1);
    }

    #[test]
    fn the_wait_doubles_from_ten_seconds_to_ten_minutes() {
        for (count, seconds) in
            [(1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (8, 600), (40, 600), (i64::MAX, 600)]
        {
            let waits = ready_at(count, at(0), at(0));
            assert_eq!(waits, Some(at(seconds)), "{count} failures");
            assert_eq!(ready_at(count, at(0), at(seconds)), None, "{count} failures");
            assert_eq!(ready_at(count, at(0), at(seconds - 1)), Some(at(seconds)), "{count} failures");
        }
        assert_eq!(ready_at(0, at(0), at(0)), None);
        assert_eq!(ready_at(-1, at(0), at(0)), None);
        // The node's clock is an hour ahead.
        assert_eq!(ready_at(1, at(3600), at(0)), Some(at(10)));
        assert_eq!(Failures::default().ready_at(at(0)), None);
    }

    #[test]
    fn a_pod_ended_when_its_last_container_did() {
        let terminated = |s: i64| json!({"terminated": {"finishedAt": at(s).to_string()}});
        let containers = |states: &[serde_json::Value]| {
            let of =
                |(i, state): (usize, &serde_json::Value)| json!({"name": format!("c{i}"), "state": state});
            json!(states.iter().enumerate().map(of).collect::<Vec<_>>())
        };
        let unready = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at(7).to_string()}]);
        let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": at(7).to_string()}]);
        let deletion = json!({"deletionTimestamp": at(40).to_string(), "deletionGracePeriodSeconds": 30});
        let sidecar = json!([{"name": "s", "restartPolicy": "Always"}, {"name": "i"}]);
        let sidecar_ended = |s: i64| {
            json!([
                {"name": "s", "state": terminated(s)},
                {"name": "i", "state": {"running": {}}},
            ])
        };
        for (change, second) in [
            (json!({"status": {"containerStatuses": containers(&[terminated(3), terminated(5)])}}), 5),
            (
                json!({"spec": {"initContainers": sidecar}, "status": {
                    "containerStatuses": containers(&[terminated(3)]), "initContainerStatuses": sidecar_ended(9),
                }}),
                9,
            ),
            (
                json!({"status": {
                    "containerStatuses": containers(&[terminated(3), json!({"running": {}})]), "conditions": unready,
                }}),
                7,
            ),
            (json!({"status": {"conditions": unready}, "metadata": deletion}), 7),
            (json!({"status": {"conditions": ready}, "metadata": deletion}), 10),
            (json!({"status": {"containerStatuses": containers(&[json!({"terminated": {}})])}}), 0),
            (json!({}), 0),
        ] {
            assert_eq!(pod("a", change.clone()).finished_at(), at(second), "{change}");
        }
    }
}
