//! What is read of autoscalers and pods.

use coxswain_sdk::condition::{self, DatedCondition};
use coxswain_sdk::meta::StringMap;
use coxswain_sdk::resource::PODS;
use coxswain_sdk::{FromJson, ObjectMeta, Resource, Time, View, pod};
use serde::Serialize;
use serde_json::Value;

use crate::AUTOSCALERS;

/// A HorizontalPodAutoscaler.
#[derive(Clone, Debug, FromJson)]
pub struct Autoscaler {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: Spec,
    /// What was found.
    #[serde(default)]
    pub status: Status,
}

impl View for Autoscaler {
    const RESOURCE: Resource = AUTOSCALERS;
}

/// What is wanted.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// What is scaled.
    pub scale_target_ref: TargetRef,
    /// The fewest replicas; none: 1.
    pub min_replicas: Option<i32>,
    /// The most replicas.
    pub max_replicas: i32,
    /// Metrics, as they are.
    pub metrics: Vec<Value>,
    /// How fast it may scale, as it is.
    pub behavior: Option<Value>,
}

/// A reference to an object of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct TargetRef {
    /// API version; may be empty.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// When the number of replicas was last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_time: Option<Time>,
    /// How many replicas there were.
    #[serde(skip_serializing_if = "is_zero")]
    pub current_replicas: i32,
    /// How many there shall be.
    pub desired_replicas: i32,
    /// Values of the metrics.
    pub current_metrics: Option<Vec<Value>>,
    /// Conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<coxswain_sdk::condition::Condition>>,
}

fn is_zero(count: &i32) -> bool {
    *count == 0
}

/// A pod.
#[derive(Clone, Debug, FromJson)]
pub struct Pod {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Its containers.
    #[serde(default)]
    pub spec: PodSpec,
    /// How it is.
    #[serde(default)]
    pub status: PodStatus,
}

impl View for Pod {
    const RESOURCE: Resource = PODS;
}

/// What counts of a pod's spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Containers.
    pub containers: Vec<Container>,
    /// Containers that run first; those that restart always go on beside the others.
    pub init_containers: Vec<InitContainer>,
    /// Resources of the pod as a whole.
    pub resources: Resources,
    /// What the pod costs beside its containers.
    pub overhead: StringMap,
}

/// A container.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Container {
    /// Name.
    pub name: String,
    /// Resources.
    pub resources: Resources,
}

/// A container that runs first.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct InitContainer {
    /// Name.
    pub name: String,
    /// `Always` if it goes on beside the others.
    pub restart_policy: String,
    /// Resources.
    pub resources: Resources,
}

/// Requests of a container or pod.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Resources {
    /// Quantities by resource.
    pub requests: StringMap,
}

/// What counts of a pod's status.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// Phase.
    pub phase: String,
    /// When the kubelet took it up.
    pub start_time: Option<Time>,
    /// Conditions.
    pub conditions: Vec<DatedCondition>,
}

impl Pod {
    /// Its condition `Ready`.
    pub fn ready(&self) -> Option<&DatedCondition> {
        condition::find(&self.status.conditions, "Ready")
    }

    /// Whether it runs and is ready.
    pub fn is_running_and_ready(&self) -> bool {
        self.status.phase == "Running" && pod::ready(&self.status.conditions).is_some()
    }
}
