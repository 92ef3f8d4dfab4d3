//! What is read of nodes and slices.

use coxswain_sdk::endpoints::slice::{EndpointSlice, Trigger};
use coxswain_sdk::resource::NODES;
use coxswain_sdk::{FromJson, ObjectMeta, Resource, View};

/// A slice, with the one annotation that the controller writes.
pub type Slice = EndpointSlice<Trigger>;

/// A node.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Node {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Status.
    pub status: NodeStatus,
}

impl View for Node {
    const RESOURCE: Resource = NODES;
}

/// What is read of a node's status.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct NodeStatus {
    /// What there is for pods.
    pub allocatable: Allocatable,
    /// Conditions.
    pub conditions: Vec<NodeCondition>,
}

/// What is read of what a node has for pods.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Allocatable {
    /// Processors.
    pub cpu: Option<String>,
}

/// What is read of a node's condition.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct NodeCondition {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
}

impl Node {
    /// The zone it is in; None where it does not say.
    pub fn zone(&self) -> Option<&str> {
        let zone = self.metadata.labels.get("topology.kubernetes.io/zone")?;
        (!zone.is_empty()).then_some(zone)
    }

    /// Whether it is ready.
    pub fn is_ready(&self) -> bool {
        let ready = self.status.conditions.iter().find(|condition| condition.kind == "Ready");
        ready.is_some_and(|ready| ready.status == "True")
    }

    /// Whether it is of the control plane, which serves no endpoints.
    pub fn is_control_plane(&self) -> bool {
        let roles = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];
        roles.iter().any(|role| self.metadata.labels.contains_key(*role))
    }
}
