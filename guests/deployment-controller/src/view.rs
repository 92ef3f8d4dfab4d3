//! What is read of Deployments, ReplicaSets and pods.

use coxswain_sdk::claim::HasMetadata;
use coxswain_sdk::condition::Condition;
use coxswain_sdk::intstr::IntOrString;
use coxswain_sdk::meta::is_default;
use coxswain_sdk::read::{Failed, Reader};
use coxswain_sdk::resource::{DEPLOYMENTS, PODS, REPLICA_SETS};
use coxswain_sdk::selector::LabelSelector;
use coxswain_sdk::{FromJson, ObjectMeta, Resource, StringMap, View, from_json};
use serde::Serialize;
use serde_json::Value;

use crate::template::Template;

/// A Deployment.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Deployment {
    /// Metadata.
    pub metadata: ObjectMeta<StringMap>,
    /// Spec.
    pub spec: DeploymentSpec,
    /// Status.
    pub status: DeploymentStatus,
}

impl View for Deployment {
    const RESOURCE: Resource = DEPLOYMENTS;
}

impl HasMetadata for Deployment {
    type Annotations = StringMap;

    fn metadata(&self) -> &ObjectMeta<StringMap> {
        &self.metadata
    }
}

/// What is wanted of a Deployment.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentSpec {
    /// How many pods; the API server fills in 1.
    pub replicas: Option<i32>,
    /// Which ReplicaSets and pods are its own.
    pub selector: Option<RawSelector>,
    /// What pods are made from.
    pub template: Template,
    /// How one template is replaced by another.
    pub strategy: Strategy,
    /// For how long a pod must be ready to be available.
    pub min_ready_seconds: i64,
    /// How many old ReplicaSets are kept; the largest number means all.
    pub revision_history_limit: Option<i32>,
    /// Whether nothing is rolled out for the time being.
    pub paused: bool,
    /// Seconds without progress until that is reported; the largest number
    /// means never.
    pub progress_deadline_seconds: Option<i32>,
}

/// How one template is replaced by another.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Strategy {
    /// `RollingUpdate` or `Recreate`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Bounds of a rolling update.
    pub rolling_update: RollingUpdate,
}

/// Bounds of a rolling update.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// How many pods more than wanted there may be.
    pub max_surge: Option<IntOrString>,
    /// How many pods fewer than wanted may be available.
    pub max_unavailable: Option<IntOrString>,
}

/// A label selector, to match with and to copy.
#[derive(Clone, Debug, Default)]
pub struct RawSelector {
    /// To match with.
    pub parsed: LabelSelector,
    /// As it came.
    pub raw: Value,
}

impl FromJson for RawSelector {
    fn blank() -> Self {
        Self::default()
    }

    fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
        let raw = reader.raw()?.get();
        let parsed: Option<LabelSelector> = from_json(raw).map_err(Failed::new)?;
        self.parsed = parsed.unwrap_or_default();
        self.raw = from_json(raw).map_err(Failed::new)?;
        Ok(())
    }
}

/// Status of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentStatus {
    /// Generation that the status is about.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Pods that are neither ended nor asked to go.
    #[serde(skip_serializing_if = "is_default")]
    pub replicas: i64,
    /// Those of the current template.
    #[serde(skip_serializing_if = "is_default")]
    pub updated_replicas: i64,
    /// Those that are ready.
    #[serde(skip_serializing_if = "is_default")]
    pub ready_replicas: i64,
    /// Those that have been ready for long enough.
    #[serde(skip_serializing_if = "is_default")]
    pub available_replicas: i64,
    /// How many the ReplicaSets' sizes exceed the available pods.
    #[serde(skip_serializing_if = "is_default")]
    pub unavailable_replicas: i64,
    /// Pods asked to go and not ended yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i64>,
    /// How often the name for a new ReplicaSet was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i64>,
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A ReplicaSet.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct ReplicaSet {
    /// Metadata.
    pub metadata: ObjectMeta<StringMap>,
    /// Spec.
    pub spec: ReplicaSetSpec,
    /// Status.
    pub status: ReplicaSetStatus,
}

impl View for ReplicaSet {
    const RESOURCE: Resource = REPLICA_SETS;
}

impl HasMetadata for ReplicaSet {
    type Annotations = StringMap;

    fn metadata(&self) -> &ObjectMeta<StringMap> {
        &self.metadata
    }
}

/// What is wanted of a ReplicaSet.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetSpec {
    /// How many pods; the API server fills in 1.
    pub replicas: Option<i32>,
    /// For how long a pod must be ready to be available.
    pub min_ready_seconds: i64,
    /// What pods are made from.
    pub template: Template,
}

/// Status of a ReplicaSet.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetStatus {
    /// Generation that the status is about; 0 until somebody looked at it.
    pub observed_generation: i64,
    /// Pods that are neither ended nor asked to go.
    pub replicas: i64,
    /// Those that are ready.
    pub ready_replicas: i64,
    /// Those that have been ready for long enough.
    pub available_replicas: i64,
    /// Pods asked to go and not ended yet, where that is counted.
    pub terminating_replicas: Option<i64>,
    /// Conditions.
    pub conditions: Vec<Condition>,
}

/// A pod: all that counts here is whether it has ended.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Pod {
    /// Status.
    pub status: PodStatus,
}

impl View for Pod {
    const RESOURCE: Resource = PODS;
}

/// What is read of a pod's status.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: String,
}

impl Pod {
    /// Whether it has ended for good.
    pub fn is_terminal(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }
}
