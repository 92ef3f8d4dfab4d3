//! Pods as controllers that keep them see them: phase, readiness, availability.

use std::time::Duration;

use crate::claim::HasMetadata;
use crate::condition::{self, DatedCondition, HasStatus as _};
use crate::meta::{ObjectMeta, StringMap};
use crate::plan::{About, Action};
use crate::read::FromJson;
use crate::resource::{PODS, Resource};
use crate::time::Time;
use crate::view::View;

/// A pod.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Pod {
    /// Metadata.
    pub metadata: ObjectMeta<DeletionCost>,
    /// Spec.
    pub spec: PodSpec,
    /// Status.
    pub status: PodStatus,
}

impl View for Pod {
    const RESOURCE: Resource = PODS;
}

impl HasMetadata for Pod {
    type Annotations = DeletionCost;

    fn metadata(&self) -> &ObjectMeta<DeletionCost> {
        &self.metadata
    }
}

/// The annotation by which a user says which pods are dear.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct DeletionCost {
    #[serde(rename = "controller.kubernetes.io/pod-deletion-cost")]
    cost: Option<String>,
}

impl DeletionCost {
    /// The cost; 0 where there is none or it is no number, as the API server
    /// would have refused it.
    pub fn value(&self) -> i32 {
        let Some(text) = &self.cost else { return 0 };
        let plain = match text.strip_prefix('-').unwrap_or(text).as_bytes() {
            [b'0'] => !text.starts_with('-'),
            [first, ..] => (b'1'..=b'9').contains(first),
            [] => false,
        };
        if plain { text.parse().unwrap_or(0) } else { 0 }
    }
}

/// What is read of a pod's spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node it is bound to; empty while it is not.
    pub node_name: String,
    /// Init containers, of which some are sidecars.
    pub init_containers: Vec<InitContainer>,
}

/// What is read of an init container.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct InitContainer {
    /// Name.
    pub name: String,
    /// `Always` for a sidecar.
    pub restart_policy: Option<String>,
}

/// What is read of a pod's status.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: String,
    /// Conditions.
    pub conditions: Vec<PodCondition>,
    /// States of its containers.
    pub container_statuses: Vec<Restarts>,
    /// States of its init containers.
    pub init_container_statuses: Vec<InitContainerStatus>,
}

/// What is read of a pod's condition.
pub type PodCondition = DatedCondition;

/// What is read of a container's state.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Restarts {
    /// How often it was restarted.
    pub restart_count: i32,
}

/// What is read of an init container's state.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct InitContainerStatus {
    /// Name of the container.
    pub name: String,
    /// How often it was restarted.
    pub restart_count: i32,
}

impl PodSpec {
    /// Whether the init container of this name is a sidecar.
    pub fn has_sidecar(&self, name: &str) -> bool {
        let mut containers = self.init_containers.iter();
        containers.any(|c| c.name == name && c.restart_policy.as_deref() == Some("Always"))
    }
}

impl Pod {
    /// Whether it has ended for good.
    pub fn is_terminal(&self) -> bool {
        has_ended(&self.status.phase)
    }

    /// Whether it neither ended nor was asked to go.
    pub fn is_active(&self) -> bool {
        !self.is_terminal() && !self.metadata.is_deleting()
    }

    /// Whether it was asked to go and has not ended yet.
    pub fn is_terminating(&self) -> bool {
        !self.is_terminal() && self.metadata.is_deleting()
    }

    /// Whether it is ready.
    pub fn is_ready(&self) -> bool {
        ready(&self.status.conditions).is_some()
    }

    /// Since when it has been ready, if it says so.
    pub fn ready_since(&self) -> Option<Time> {
        ready(&self.status.conditions)?.last_transition_time
    }

    /// When it is, or was, ready for so many seconds. None unless it is ready
    /// and says since when.
    pub fn available_from(&self, min_ready_seconds: i32) -> Option<Time> {
        available_from(&self.status.conditions, min_ready_seconds)
    }

    /// Whether it has been ready for so many seconds.
    pub fn is_available(&self, min_ready_seconds: i32, now: Time) -> bool {
        is_available(&self.status.conditions, min_ready_seconds, now)
    }

    /// The highest restart count among its containers, and among its sidecars.
    pub fn restarts(&self) -> (i32, i32) {
        let sidecars = self.status.init_container_statuses.iter();
        let sidecars = sidecars.filter(|status| self.spec.has_sidecar(&status.name));
        (
            self.status
                .container_statuses
                .iter()
                .map(|status| status.restart_count)
                .max()
                .unwrap_or(0)
                .max(0),
            sidecars.map(|status| status.restart_count).max().unwrap_or(0).max(0),
        )
    }
}

/// Whether a pod in this phase has ended for good.
pub fn has_ended(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed")
}

/// Deletes a pod; whoever keeps it is told.
pub fn delete<A>(pod: &ObjectMeta<A>, keeper: &About) -> Action {
    Action::delete(PODS, &pod.namespace, &pod.name)
        .uid(&pod.uid)
        .tag("delete")
        .on_success(keeper.normal("SuccessfulDelete", "Deleted pod: {name}"))
        .on_failure(keeper.warning("FailedDelete", "Error deleting: {message}"))
}

/// Of a pod's conditions the one that says that it is ready; None if it is not.
pub fn ready(conditions: &[PodCondition]) -> Option<&PodCondition> {
    condition::find(conditions, "Ready").filter(|ready| ready.is_true())
}

/// When a pod with these conditions is, or was, ready for so many seconds. None
/// unless it is ready and says since when.
pub fn available_from(conditions: &[PodCondition], min_ready_seconds: i32) -> Option<Time> {
    let wait = Duration::from_secs(min_ready_seconds.max(0).unsigned_abs().into());
    Some(ready(conditions)?.last_transition_time? + wait)
}

/// Whether a pod with these conditions has been ready for so many seconds.
pub fn is_available(conditions: &[PodCondition], min_ready_seconds: i32, now: Time) -> bool {
    ready(conditions).is_some_and(|ready| is_true_for(ready, min_ready_seconds, now))
}

/// Whether a condition that is true has been so for that many seconds.
pub fn is_true_for(condition: &PodCondition, seconds: i32, now: Time) -> bool {
    let wait = Duration::from_secs(seconds.max(0).unsigned_abs().into());
    seconds == 0 || condition.last_transition_time.is_some_and(|since| since + wait <= now)
}

/// The earliest time after `now` at which one of these pods has been ready for
/// so many seconds.
pub fn next_available<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    min_ready_seconds: i32,
    now: Time,
) -> Option<Time> {
    let times = pods.into_iter().filter_map(|pod| pod.available_from(min_ready_seconds));
    times.filter(|at| *at > now).min()
}

/// Labels of a pod, for selectors.
pub fn labels(pod: &Pod) -> &StringMap {
    &pod.metadata.labels
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(ready: &str, since: Option<&str>) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "a"},
            "status": {"phase": "Running", "conditions": [
                {"type": "Initialized", "status": "True"},
                {"type": "Ready", "status": ready, "lastTransitionTime": since},
            ]},
        }))
        .unwrap()
    }

    #[test]
    fn availability_waits_for_the_whole_time() {
        let now = Time::parse("2026-01-01T00:00:10Z").unwrap();
        for (ready, since, min, available) in [
            ("True", Some("2026-01-01T00:00:00Z"), 0, true),
            ("True", Some("2026-01-01T00:00:00Z"), 10, true),
            ("True", Some("2026-01-01T00:00:00Z"), 11, false),
            ("True", None, 0, true),
            ("True", None, 1, false),
            ("False", Some("2026-01-01T00:00:00Z"), 0, false),
        ] {
            let pod = pod(ready, since);
            assert_eq!(pod.is_available(min, now), available, "{ready} {since:?} {min}");
            let next = next_available([&pod], min, now);
            assert_eq!(next.is_some(), min == 11, "{ready} {since:?} {min}");
        }
    }

    #[test]
    fn costs_are_read_as_the_api_server_accepts_them() {
        for (text, cost) in [
            ("5", 5),
            ("-10", -10),
            ("0", 0),
            ("+5", 0),
            ("05", 0),
            ("-0", 0),
            ("", 0),
            ("x", 0),
            ("2147483648", 0),
            ("-2147483648", i32::MIN),
        ] {
            assert_eq!(DeletionCost { cost: Some(text.to_owned()) }.value(), cost, "{text}");
        }
    }

    #[test]
    fn only_sidecars_count_among_init_containers() {
        let pod: Pod = serde_json::from_value(json!({
            "spec": {"initContainers": [{"name": "init"}, {"name": "side", "restartPolicy": "Always"}]},
            "status": {
                "containerStatuses": [{"name": "a", "restartCount": 2}, {"name": "b", "restartCount": 1}],
                "initContainerStatuses": [{"name": "init", "restartCount": 9}, {"name": "side", "restartCount": 3}],
            },
        }))
        .unwrap();
        assert_eq!(pod.restarts(), (2, 3));
    }
}
