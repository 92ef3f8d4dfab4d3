//! What is read of pods, claims and slices.

use coxswain_sdk::resource::{PODS, RESOURCE_CLAIMS, RESOURCE_SLICES};
use coxswain_sdk::resource_claims::{Named, PodClaimStatus};
use coxswain_sdk::{FromJson, ObjectMeta, Resource, Time, View};

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
    /// The claims it needs.
    pub resource_claims: Vec<PodClaim>,
}

/// A claim that a pod needs.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct PodClaim {
    /// Name within the pod.
    pub name: String,
    /// The claim, by name. None if it is made of a template.
    pub resource_claim_name: Option<String>,
}

/// What is read of a pod's status.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// The claims that were made for it.
    pub resource_claim_statuses: Vec<PodClaimStatus>,
    /// Conditions.
    pub conditions: Vec<Condition>,
}

/// What is read of a condition.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why.
    pub reason: String,
}

impl Pod {
    /// What it says about one of its claims.
    pub fn named<'a>(&'a self, pod_claim: &'a PodClaim) -> Named<'a> {
        let given = pod_claim.resource_claim_name.as_deref();
        Named::of(&pod_claim.name, given, &self.status.resource_claim_statuses)
    }
}

impl View for Pod {
    const RESOURCE: Resource = PODS;
}

/// A claim.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Claim {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Status.
    pub status: ClaimStatus,
}

/// What is read of a claim's status.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    /// The devices it got.
    pub allocation: Option<Allocation>,
    /// Who uses it.
    pub reserved_for: Vec<Consumer>,
}

/// The devices of a claim.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Allocation {
    /// The devices.
    pub devices: Devices,
}

/// The devices of a claim.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Devices {
    /// Each of them.
    pub results: Vec<Granted>,
}

/// A device that a claim got.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Granted {
    /// Its driver.
    pub driver: String,
    /// Its pool.
    pub pool: String,
    /// Its name in the pool.
    pub device: String,
    /// Taints that the claim bears with.
    pub tolerations: Vec<Toleration>,
}

/// A taint that a claim bears with.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// Key; empty for any.
    pub key: String,
    /// `Exists` or `Equal`; empty is the latter.
    pub operator: String,
    /// Value.
    pub value: String,
    /// Effect; empty for any.
    pub effect: String,
    /// For how long. None is for ever.
    pub toleration_seconds: Option<i64>,
}

/// Who uses a claim.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Consumer {
    /// Uid.
    pub uid: String,
}

impl View for Claim {
    const RESOURCE: Resource = RESOURCE_CLAIMS;
}

/// A slice: devices of a pool.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Slice {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: SliceSpec,
}

/// What is read of a slice's spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct SliceSpec {
    /// The pool.
    pub pool: Pool,
    /// The devices.
    pub devices: Vec<Device>,
}

/// What is read of a slice's pool.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Pool {
    /// Slices of older generations are out of date.
    pub generation: i64,
}

/// What is read of a device.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Device {
    /// Name in the pool.
    pub name: String,
    /// Taints.
    pub taints: Vec<Taint>,
}

/// A taint of a device.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// Key.
    pub key: String,
    /// Value.
    pub value: String,
    /// `NoSchedule`, `NoExecute` or `None`.
    pub effect: String,
    /// When it was put on.
    pub time_added: Option<Time>,
}

impl View for Slice {
    const RESOURCE: Resource = RESOURCE_SLICES;
}
