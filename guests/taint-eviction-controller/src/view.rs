//! What is read of pods.

use coxswain_sdk::condition::{self, HasStatus, ReasonedCondition};
use coxswain_sdk::resource::PODS;
use coxswain_sdk::taints::Toleration;
use coxswain_sdk::{FromJson, ObjectMeta, Resource, Time, View};

/// A pod.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Pod {
    pub metadata: ObjectMeta,
    pub spec: PodSpec,
    pub status: PodStatus,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    pub node_name: String,
    pub tolerations: Vec<Toleration>,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct PodStatus {
    pub conditions: Vec<ReasonedCondition>,
}

impl View for Pod {
    const RESOURCE: Resource = PODS;
}

impl Pod {
    /// The condition of this type, if it is true.
    pub fn condition(&self, kind: &str) -> Option<&ReasonedCondition> {
        condition::find(&self.status.conditions, kind).filter(|condition| condition.is_true())
    }

    /// When it came to its node, as far as that is known.
    pub fn bound_at(&self) -> Option<Time> {
        let scheduled = self.condition("PodScheduled").and_then(|condition| condition.last_transition_time);
        scheduled.max(self.metadata.creation_timestamp)
    }
}
