//! The status of a DaemonSet.

use std::time::Duration;

use coxswain_sdk::meta::is_default;
use coxswain_sdk::pod::available_from;
use coxswain_sdk::{FromJson, Object, Time};
use serde::Serialize;

use crate::manage::Rules;
use crate::placement::Placement;
use crate::pods::{ByNode, oldest_first};
use crate::view::Pod;

/// Status of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// Nodes that a pod is wanted on and that have one.
    pub current_number_scheduled: i32,
    /// Nodes that have a pod although none is wanted.
    pub number_misscheduled: i32,
    /// Nodes that a pod is wanted on.
    pub desired_number_scheduled: i32,
    /// Those of them whose pod is ready.
    pub number_ready: i32,
    /// Generation that was dealt with.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Nodes whose pod is of the current revision.
    #[serde(skip_serializing_if = "is_default")]
    pub updated_number_scheduled: i32,
    /// Nodes whose pod has been ready for long enough.
    #[serde(skip_serializing_if = "is_default")]
    pub number_available: i32,
    /// Nodes that lack such a pod.
    #[serde(skip_serializing_if = "is_default")]
    pub number_unavailable: i32,
    /// How often names of revisions collided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
}

/// The counts. Of several pods on a node the oldest stands for all.
pub fn count(rules: &Rules<'_>, places: &[(&str, Placement)], pods: &ByNode<'_>) -> Status {
    let set = rules.set;
    let generation = set.template_generation();
    let mut status = Status {
        observed_generation: set.metadata.generation.max(set.status.observed_generation),
        collision_count: set.status.collision_count,
        ..Status::default()
    };
    let mut unavailable: i32 = 0;
    for (node, placement) in places {
        let oldest = pods.get(node).and_then(|here| oldest_first(here.iter().copied()).into_iter().next());
        if *placement != Placement::Wanted {
            status.number_misscheduled += i32::from(oldest.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let available = oldest.is_some_and(|pod| pod.is_available(set.spec.min_ready_seconds, rules.now));
        unavailable += i32::from(!available);
        status.number_available += i32::from(available);
        if let Some(pod) = oldest {
            status.current_number_scheduled += 1;
            status.number_ready += i32::from(pod.is_ready());
            status.updated_number_scheduled += i32::from(pod.is_of(rules.hash, generation));
        }
    }
    status.number_unavailable = unavailable;
    status
}

/// When a pod that is ready now becomes available, if nothing else happens.
pub fn next_check(rules: &Rules<'_>, status: &Status, pods: &[Object<Pod>]) -> Option<Time> {
    let seconds = rules.set.spec.min_ready_seconds;
    if seconds <= 0 {
        return None;
    }
    let times = pods.iter().filter_map(|pod| available_from(&pod.status.conditions, seconds));
    let next = times.filter(|at| *at > rules.now).min();
    // One that is ready and does not say since when.
    let fallback = (status.number_ready != status.number_available)
        .then(|| rules.now + Duration::from_secs(seconds.unsigned_abs().into()));
    next.or(fallback)
}
