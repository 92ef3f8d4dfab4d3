//! What is read of pods.

use coxswain_sdk::condition::{self, HasStatus, ReasonedCondition};
use coxswain_sdk::meta::null_is_default;
use coxswain_sdk::resource::PODS;
use coxswain_sdk::taints::Toleration;
use coxswain_sdk::{ObjectMeta, Resource, Time, View};
use serde::Deserialize;

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    pub metadata: ObjectMeta,
    pub spec: PodSpec,
    pub status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    pub node_name: String,
    #[serde(deserialize_with = "null_is_default")]
    pub tolerations: Vec<Toleration>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodStatus {
    #[serde(deserialize_with = "null_is_default")]
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
