//! What is read of pods, claims and templates, and the claims that are made.

use coxswain_sdk::claim::HasMetadata;
use coxswain_sdk::meta::{NoAnnotations, OwnerReference, StringMap, null_is_default};
use coxswain_sdk::resource::{PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS};
use coxswain_sdk::resource_claims::{Named, PodClaimStatus};
use coxswain_sdk::{ObjectMeta, Resource, View};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// The annotation that says which of a pod's claims a claim was made for.
pub const CLAIM_NAME: &str = "resource.kubernetes.io/pod-claim-name";

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
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
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node it is bound to; empty while it is not.
    pub node_name: String,
    /// The claims it needs.
    #[serde(deserialize_with = "null_is_default")]
    pub resource_claims: Vec<PodClaim>,
}

/// A claim that a pod needs.
#[derive(Clone, Debug, Default, Deserialize)]
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
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: String,
    /// The claims that were made for it.
    #[serde(deserialize_with = "null_is_default")]
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
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
            || self.metadata.is_deleting() && self.spec.node_name.is_empty()
    }
}

impl View for Pod {
    const RESOURCE: Resource = PODS;
}

/// A claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Claim {
    /// Metadata.
    pub metadata: ObjectMeta<ClaimAnnotations>,
    /// Status.
    pub status: ClaimStatus,
}

/// Annotations of claims.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimAnnotations {
    /// Which of the pod's claims it was made for.
    #[serde(rename = "resource.kubernetes.io/pod-claim-name")]
    pub pod_claim: Option<String>,
}

/// What is read of a claim's status. The list is kept as it came, since it is
/// written as a whole.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    /// Who uses it.
    #[serde(deserialize_with = "null_is_default")]
    pub reserved_for: Vec<Value>,
    /// The devices it got.
    pub allocation: Option<Allocation>,
}

/// That a claim got devices. Of each only the request is read, for something must
/// be: a view that asks for no field of the allocation would keep all of it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Allocation {
    #[allow(dead_code, reason = "that there is an allocation is what matters")]
    devices: Devices,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Devices {
    #[allow(dead_code, reason = "that there is an allocation is what matters")]
    #[serde(deserialize_with = "null_is_default")]
    results: Vec<Granted>,
}

#[derive(Clone, Debug, Default, Deserialize)]
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
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Template {
    /// Metadata.
    pub metadata: ObjectMeta<NoAnnotations>,
    /// Spec.
    pub spec: TemplateSpec,
}

/// What claims get of a template.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TemplateSpec {
    #[serde(deserialize_with = "null_is_default")]
    metadata: TemplateMeta,
    /// The claims' spec, as it came: fields unknown here must survive.
    spec: Option<Box<RawValue>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct TemplateMeta {
    #[serde(deserialize_with = "null_is_default")]
    annotations: StringMap,
    #[serde(deserialize_with = "null_is_default")]
    labels: StringMap,
}

impl View for Template {
    const RESOURCE: Resource = RESOURCE_CLAIM_TEMPLATES;
}

/// A claim about to be made.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewClaim<'a> {
    api_version: String,
    kind: &'static str,
    metadata: NewMeta<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<&'a RawValue>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NewMeta<'a> {
    generate_name: String,
    namespace: &'a str,
    annotations: StringMap,
    #[serde(skip_serializing_if = "StringMap::is_empty")]
    labels: &'a StringMap,
    owner_references: [OwnerReference; 1],
}

impl<'a> NewClaim<'a> {
    /// The claim of a template, for one of the pod's claims.
    pub fn new(pod: &'a ObjectMeta, pod_claim: &str, template: &'a TemplateSpec) -> Self {
        let mut annotations = template.metadata.annotations.clone();
        annotations.insert(CLAIM_NAME.to_owned(), pod_claim.to_owned());
        let mut owner = OwnerReference::controller(PODS, &pod.name, &pod.uid);
        // The pod may be gone before the claim is.
        owner.block_owner_deletion = None;
        Self {
            api_version: RESOURCE_CLAIMS.api_version(),
            kind: RESOURCE_CLAIMS.kind,
            metadata: NewMeta {
                generate_name: crate::pod::prefix(&pod.name, pod_claim),
                namespace: &pod.namespace,
                annotations,
                labels: &template.metadata.labels,
                owner_references: [owner],
            },
            spec: template.spec.as_deref(),
        }
    }
}
