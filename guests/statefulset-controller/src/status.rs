//! Status of a StatefulSet: counts of its pods, and the two revisions.

use coxswain_sdk::{FromJson, Time};
use serde::Serialize;

use crate::view::Pod;

/// Status of a StatefulSet. Conditions belong to others and are left alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// Generation that the status is about.
    pub observed_generation: i64,
    /// Pods, those asked to go included.
    pub replicas: i32,
    /// Those that run and are ready.
    pub ready_replicas: i32,
    /// Those that have been ready for long enough.
    pub available_replicas: i32,
    /// Pods of the current revision that are to stay.
    pub current_replicas: i32,
    /// Pods of the wanted revision that are to stay.
    pub updated_replicas: i32,
    /// Name of the revision that pods had before the update under way.
    pub current_revision: String,
    /// Name of the revision that pods are to have.
    pub update_revision: String,
    /// How often names of revisions have collided.
    pub collision_count: Option<i32>,
}

impl Status {
    /// Counts pods.
    pub fn count<'a>(&mut self, pods: impl IntoIterator<Item = &'a Pod>, min_ready_seconds: i32, now: Time) {
        for pod in pods {
            add(&mut self.replicas, true);
            let ready = pod.runs_ready();
            add(&mut self.ready_replicas, ready);
            add(&mut self.available_replicas, ready && pod.is_available(min_ready_seconds, now));
            let stays = !pod.metadata.is_deleting();
            add(&mut self.current_replicas, stays && pod.revision() == self.current_revision);
            add(&mut self.updated_replicas, stays && pod.revision() == self.update_revision);
        }
    }

    /// Ends a rolling update once every pod wanted is ready and of the wanted
    /// revision.
    pub fn complete(&mut self, replicas: i64) {
        let all = |count: i32| i64::from(count) == replicas;
        if all(self.updated_replicas) && all(self.ready_replicas) && all(self.replicas) {
            self.current_replicas = self.updated_replicas;
            self.current_revision.clone_from(&self.update_revision);
        }
    }

    /// The status to write over the one seen. A generation that was observed
    /// stays so, and collisions alone are no reason to write.
    pub fn over(mut self, seen: &Self) -> Self {
        self.observed_generation = self.observed_generation.max(seen.observed_generation);
        let alike = Self { collision_count: seen.collision_count, ..self.clone() };
        if alike == *seen { alike } else { self }
    }
}

fn add(count: &mut i32, counts: bool) {
    *count = count.saturating_add(counts.into());
}
