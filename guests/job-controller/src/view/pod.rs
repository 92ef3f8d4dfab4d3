//! What is read of a pod.

use std::cmp::Reverse;

use coxswain_sdk::claim::HasMetadata;
use coxswain_sdk::condition::{self, DatedCondition};
use coxswain_sdk::pod::{PodSpec, has_ended, ready};
use coxswain_sdk::ranking::progress;
use coxswain_sdk::resource::PODS;
use coxswain_sdk::{FromJson, ObjectMeta, Resource, Time, View};

use super::{Job, TRACKING};

/// A pod.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Pod {
    /// Metadata.
    pub metadata: ObjectMeta<Annotations>,
    spec: PodSpec,
    /// Status.
    pub status: PodStatus,
}

impl View for Pod {
    const RESOURCE: Resource = PODS;
}

impl HasMetadata for Pod {
    type Annotations = Annotations;

    fn metadata(&self) -> &ObjectMeta<Annotations> {
        &self.metadata
    }
}

/// What is read of a pod's annotations.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Annotations {
    #[serde(rename = "batch.kubernetes.io/job-completion-index")]
    index: Option<String>,
    #[serde(rename = "batch.kubernetes.io/job-index-failure-count")]
    failures: Option<String>,
    #[serde(rename = "batch.kubernetes.io/job-index-ignored-failure-count")]
    ignored_failures: Option<String>,
}

/// What is read of a pod's status.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: String,
    /// Conditions.
    pub conditions: Vec<DatedCondition>,
    /// States of its containers.
    pub container_statuses: Vec<ContainerStatus>,
    /// States of its init containers.
    pub init_container_statuses: Vec<ContainerStatus>,
}

/// What is read of a container's state.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Name of the container.
    pub name: String,
    /// How often it was restarted.
    pub restart_count: i32,
    state: ContainerState,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
struct ContainerState {
    terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    exit_code: i32,
    finished_at: Option<Time>,
}

impl ContainerStatus {
    /// With what code it ended, if it has.
    pub fn exit_code(&self) -> Option<i32> {
        self.state.terminated.as_ref().map(|terminated| terminated.exit_code)
    }
}

/// Where a pod stands among those to go; the least goes first.
pub type Rank = (bool, u8, bool, Option<Reverse<Time>>, Reverse<(i32, i32)>, Option<Reverse<Time>>);

impl Pod {
    /// Whether it is still to be counted.
    pub fn is_tracked(&self) -> bool {
        self.metadata.finalizers.iter().any(|finalizer| finalizer == TRACKING)
    }

    /// Whether it succeeded.
    pub fn has_succeeded(&self) -> bool {
        self.status.phase == "Succeeded"
    }

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

    /// Whether it counts as failed: also when it was asked to go, since it may
    /// never get to say how it ended; unless the Job waits for that.
    pub fn has_failed(&self, job: &Job) -> bool {
        self.status.phase == "Failed"
            || (self.metadata.is_deleting() && !self.has_succeeded() && !job.replaces_only_failed())
    }

    /// Whether it is ready.
    pub fn is_ready(&self) -> bool {
        ready(&self.status.conditions).is_some()
    }

    /// Its completion index.
    pub fn index(&self) -> Option<i64> {
        let index = self.metadata.annotations.index.as_ref()?.parse().ok()?;
        (0..=i64::MAX).contains(&index).then_some(index)
    }

    /// Its completion index, if it is one of the Job's.
    pub fn valid_index(&self, job: &Job) -> Option<i64> {
        self.index().filter(|index| *index < job.completions())
    }

    /// How many pods of its index failed before it.
    pub fn index_failures(&self) -> i64 {
        count_of(self.metadata.annotations.failures.as_deref())
    }

    /// How many failures of its index before it were ignored.
    pub fn ignored_index_failures(&self) -> i64 {
        count_of(self.metadata.annotations.ignored_failures.as_deref())
    }

    /// When it ended: when its last container did, or it ceased to be ready, or
    /// was asked to go; or, for want of better, when it was made.
    pub fn finished_at(&self) -> Time {
        let unready = || {
            condition::find(&self.status.conditions, "Ready")
                .filter(|ready| ready.status == "False")
                .and_then(|ready| ready.last_transition_time)
        };
        self.containers_finished_at()
            .or_else(unready)
            .or_else(|| self.metadata.asked_to_go())
            .or(self.metadata.creation_timestamp)
            .unwrap_or(Time::from_unix(0))
    }

    fn sidecars(&self) -> impl Iterator<Item = &ContainerStatus> {
        let statuses = self.status.init_container_statuses.iter();
        statuses.filter(|status| self.spec.has_sidecar(&status.name))
    }

    /// None unless all of them have ended and say when. Sidecars end last.
    fn containers_finished_at(&self) -> Option<Time> {
        let mut latest = None;
        for status in self.status.container_statuses.iter().chain(self.sidecars()) {
            latest = latest.max(Some(status.state.terminated.as_ref()?.finished_at?));
        }
        latest
    }

    /// Restarts of all its containers.
    pub fn restarts(&self) -> i64 {
        let statuses = self.status.init_container_statuses.iter().chain(&self.status.container_statuses);
        statuses.map(|status| i64::from(status.restart_count)).fold(0, i64::saturating_add)
    }

    /// Unassigned go first, then pending, not ready, ready for a shorter time,
    /// restarted more often, younger.
    pub fn removal_rank(&self) -> Rank {
        let most = |statuses: &mut dyn Iterator<Item = &ContainerStatus>| {
            statuses.map(|status| status.restart_count).max().unwrap_or(0).max(0)
        };
        let restarts = (most(&mut self.status.container_statuses.iter()), most(&mut self.sidecars()));
        (
            !self.spec.node_name.is_empty(),
            progress(&self.status.phase),
            self.is_ready(),
            ready(&self.status.conditions).and_then(|ready| ready.last_transition_time).map(Reverse),
            Reverse(restarts),
            self.metadata.creation_timestamp.map(Reverse),
        )
    }
}

/// A count as pods carry it; 0 where there is none or it is none.
fn count_of(text: Option<&str>) -> i64 {
    let count = text.and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
    if (0..=i64::from(i32::MAX)).contains(&count) { count } else { 0 }
}
