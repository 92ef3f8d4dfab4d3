//! What is read of budgets, pods and their owners.

use std::collections::BTreeMap;

use coxswain_sdk::condition::{self, ReasonedCondition};
use coxswain_sdk::intstr::IntOrString;
use coxswain_sdk::meta::is_default;
use coxswain_sdk::pod::has_ended;
use coxswain_sdk::resource::{
    DEPLOYMENTS, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS,
};
use coxswain_sdk::selector::LabelSelector;
use coxswain_sdk::{FromJson, ObjectMeta, Resource, Time, View};
use serde::Serialize;
use serde_json::{Map, Value};

/// A PodDisruptionBudget.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Budget {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: BudgetSpec,
    /// Status.
    pub status: BudgetStatus,
}

/// What is read of a budget's spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetSpec {
    /// Which pods it is about.
    pub selector: Option<LabelSelector>,
    /// How many must stay.
    pub min_available: Option<IntOrString>,
    /// How many may be missing; goes before the other.
    pub max_unavailable: Option<IntOrString>,
}

/// The status of a budget.
#[derive(Clone, Debug, Default, PartialEq, FromJson, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetStatus {
    /// Version of the spec that it is about.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Pods whose eviction was granted, and when, until they are seen to go.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub disrupted_pods: BTreeMap<String, Time>,
    /// How many more may be evicted.
    pub disruptions_allowed: Option<i32>,
    /// How many are healthy.
    pub current_healthy: Option<i32>,
    /// How many must be.
    pub desired_healthy: Option<i32>,
    /// How many there should be.
    pub expected_pods: Option<i32>,
    /// Conditions, whole: lists are patched whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Map<String, Value>>,
}

impl View for Budget {
    const RESOURCE: Resource = POD_DISRUPTION_BUDGETS;
}

/// A pod.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Pod {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Status.
    pub status: PodStatus,
}

/// What is read of a pod's status.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: String,
    /// Conditions.
    pub conditions: Vec<ReasonedCondition>,
}

impl View for Pod {
    const RESOURCE: Resource = PODS;
}

impl Pod {
    /// Whether it is ready.
    pub fn is_ready(&self) -> bool {
        condition::is_true(&self.status.conditions, "Ready")
    }

    /// Whether it has ended for good.
    pub fn has_ended(&self) -> bool {
        has_ended(&self.status.phase)
    }
}

/// What is read of whatever wants a number of pods.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Scaled {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: ScaledSpec,
}

/// What is read of its spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct ScaledSpec {
    replicas: Option<i32>,
}

impl Scaled {
    /// How many pods it wants. The API server fills in 1 as well.
    pub fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }
}

macro_rules! scaled {
    ($(#[$doc:meta] $name:ident of $resource:ident;)*) => {$(
        #[$doc]
        #[derive(Clone, Debug, Default, FromJson)]
        #[serde(transparent)]
        pub struct $name(pub Scaled);

        impl View for $name {
            const RESOURCE: Resource = $resource;
        }

        impl AsRef<Scaled> for $name {
            fn as_ref(&self) -> &Scaled {
                &self.0
            }
        }
    )*};
}

scaled! {
    /// A ReplicationController.
    ReplicationController of REPLICATION_CONTROLLERS;
    /// A ReplicaSet.
    ReplicaSet of REPLICA_SETS;
    /// A Deployment.
    Deployment of DEPLOYMENTS;
    /// A StatefulSet.
    StatefulSet of STATEFUL_SETS;
}
