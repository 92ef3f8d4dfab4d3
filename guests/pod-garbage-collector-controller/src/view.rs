//! What is read of pods and nodes.

use coxswain_sdk::condition::{self, BriefCondition};
use coxswain_sdk::pod::has_ended;
use coxswain_sdk::resource::{NODES, PODS};
use coxswain_sdk::{FromJson, ObjectMeta, Resource, View};

/// A pod.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Pod {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: PodSpec,
    /// Status.
    pub status: PodStatus,
}

/// What is read of a pod's spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node it is bound to; empty while it is not.
    pub node_name: String,
}

/// What is read of a pod's status.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: String,
    /// Why it is in that phase, such as `Evicted`.
    pub reason: String,
    /// Conditions.
    pub conditions: Vec<BriefCondition>,
}

impl View for Pod {
    const RESOURCE: Resource = PODS;
}

impl Pod {
    /// Whether it has ended for good.
    pub fn has_ended(&self) -> bool {
        has_ended(&self.status.phase)
    }

    /// Whether a kubelet evicted it.
    pub fn was_evicted(&self) -> bool {
        self.status.phase == "Failed" && self.status.reason == "Evicted"
    }

    /// Whether only finalizers keep it: deleting it again would do nothing.
    pub fn is_held(&self) -> bool {
        let meta = &self.metadata;
        meta.is_deleting() && meta.deletion_grace_period_seconds == Some(0) && !meta.finalizers.is_empty()
    }
}

/// A node.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Node {
    spec: NodeSpec,
    status: NodeStatus,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
struct NodeSpec {
    taints: Vec<Taint>,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
struct Taint {
    key: String,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
struct NodeStatus {
    conditions: Vec<BriefCondition>,
}

impl View for Node {
    const RESOURCE: Resource = NODES;
}

impl Node {
    /// Whether an administrator says that it is shut down, and it does not say
    /// otherwise itself.
    pub fn is_out_of_service(&self) -> bool {
        !condition::is_true(&self.status.conditions, "Ready")
            && self.spec.taints.iter().any(|taint| taint.key == "node.kubernetes.io/out-of-service")
    }
}
