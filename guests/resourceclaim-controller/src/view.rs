//! What is read of pods, claims and templates.

use coxswain_sdk::claim::HasMetadata;
use coxswain_sdk::claim_template::ClaimTemplate;
use coxswain_sdk::meta::NoAnnotations;
use coxswain_sdk::pod;
use coxswain_sdk::resource::{PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS};
use coxswain_sdk::resource_claims::{Named, PodClaimStatus};
use coxswain_sdk::{FromJson, ObjectMeta, Resource, View};
use serde_json::Value;

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
    /// The claim, by name.
    pub resource_claim_name: Option<String>,
    /// Or the template that one is made of.
    pub resource_claim_template_name: Option<String>,
}

/// What is read of a pod's status.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: String,
    /// The claims that were made for it.
    pub resource_claim_statuses: Vec<PodClaimStatus>,
}

impl Pod {
    /// What it says about one of its claims.
    pub fn named<'a>(&'a self, pod_claim: &'a PodClaim) -> Named<'a> {
        let given = pod_claim.resource_claim_name.as_deref();
        Named::of(&pod_claim.name, given, &self.status.resource_claim_statuses)
    }

    /// Whether it runs no more, and never will again.
    pub fn is_done(&self) -> bool {
        pod::has_ended(&self.status.phase) || self.metadata.is_deleting() && self.spec.node_name.is_empty()
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
    pub metadata: ObjectMeta<ClaimAnnotations>,
    /// Spec.
    pub spec: ClaimSpec,
    /// Status.
    pub status: ClaimStatus,
}

/// What is read of a claim's spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct ClaimSpec {
    /// The devices it asks for.
    pub devices: Wanted,
}

/// The devices that a claim asks for.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Wanted {
    requests: Vec<WantedDevice>,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
struct WantedDevice {
    exactly: Exactly,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct Exactly {
    admin_access: bool,
}

impl ClaimSpec {
    /// Whether it asks for devices that are in use, to administer them.
    pub fn asks_for_admin_access(&self) -> bool {
        self.devices.requests.iter().any(|request| request.exactly.admin_access)
    }
}

/// Annotations of claims.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct ClaimAnnotations {
    /// Which of the pod's claims it was made for.
    #[serde(rename = "resource.kubernetes.io/pod-claim-name")]
    pub pod_claim: Option<String>,
    /// `true` of one that the scheduler made for resources of a pod.
    #[serde(rename = "resource.kubernetes.io/extended-resource-claim")]
    pub extended: Option<String>,
}

/// What is read of a claim's status. The list is kept as it came, since it is
/// written as a whole.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    /// Who uses it.
    pub reserved_for: Vec<Value>,
    /// The devices it got.
    pub allocation: Option<Allocation>,
}

/// That a claim got devices. Of each only the request is read, for something must
/// be: a view that asks for no field of the allocation would keep all of it.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Allocation {
    #[allow(dead_code, reason = "that there is an allocation is what matters")]
    devices: Devices,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
struct Devices {
    #[allow(dead_code, reason = "that there is an allocation is what matters")]
    results: Vec<Granted>,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
struct Granted {
    #[allow(dead_code, reason = "that there is an allocation is what matters")]
    request: String,
}

impl View for Claim {
    const RESOURCE: Resource = RESOURCE_CLAIMS;
}

impl HasMetadata for Claim {
    type Annotations = ClaimAnnotations;

    fn metadata(&self) -> &ObjectMeta<ClaimAnnotations> {
        &self.metadata
    }
}

/// A claim template.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Template {
    /// Metadata.
    pub metadata: ObjectMeta<NoAnnotations>,
    /// What claims are made of.
    pub spec: ClaimTemplate,
}

impl View for Template {
    const RESOURCE: Resource = RESOURCE_CLAIM_TEMPLATES;
}
