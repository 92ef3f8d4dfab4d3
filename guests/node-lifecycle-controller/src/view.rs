//! What is read of nodes, their leases and their pods.

use coxswain_sdk::condition::BriefCondition;
use coxswain_sdk::resource::{LEASES, NODES, PODS};
use coxswain_sdk::taints::Taint;
use coxswain_sdk::{FromJson, ObjectMeta, Resource, Time, View};

/// Type of the condition that says that a node, or a pod, is ready.
pub const READY: &str = "Ready";
/// Status of a condition that nobody tells about.
pub const UNKNOWN: &str = "Unknown";

/// A node.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Node {
    pub metadata: ObjectMeta,
    pub spec: NodeSpec,
    pub status: NodeStatus,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct NodeSpec {
    pub taints: Vec<Taint>,
    pub unschedulable: bool,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct NodeStatus {
    pub conditions: Vec<NodeCondition>,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeCondition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub last_heartbeat_time: Option<Time>,
    pub last_transition_time: Option<Time>,
}

impl View for Node {
    const RESOURCE: Resource = NODES;
}

impl Node {
    /// The condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        self.status.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// The condition that says whether it is ready.
    pub fn ready(&self) -> Option<&NodeCondition> {
        self.condition(READY)
    }

    /// Whether its readiness is unknown: its kubelet tells nothing.
    pub fn is_unknown(&self) -> bool {
        self.ready().is_some_and(|ready| ready.status == UNKNOWN)
    }
}

/// The lease by which a kubelet says that it lives.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Lease {
    pub metadata: ObjectMeta,
    pub spec: LeaseSpec,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseSpec {
    pub renew_time: Option<Time>,
}

impl View for Lease {
    const RESOURCE: Resource = LEASES;
}

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
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct PodStatus {
    pub conditions: Vec<BriefCondition>,
}

impl View for Pod {
    const RESOURCE: Resource = PODS;
}

impl Pod {
    /// Whether it says that it is ready, or at least not that it is not.
    pub fn may_be_ready(&self) -> bool {
        self.status.conditions.iter().any(|condition| condition.kind == READY && condition.status != "False")
    }
}
