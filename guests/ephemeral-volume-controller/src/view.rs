//! What is read of pods and claims, and the claims that are made.

use coxswain_sdk::meta::{OwnerReference, StringMap, null_is_default};
use coxswain_sdk::resource::{PERSISTENT_VOLUME_CLAIMS, PODS};
use coxswain_sdk::volumes::PodVolume;
use coxswain_sdk::{ObjectMeta, Resource, View};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: Spec,
}

/// What is read of a pod's spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// Its volumes.
    #[serde(deserialize_with = "null_is_default")]
    pub volumes: Vec<PodVolume>,
}

impl View for Pod {
    const RESOURCE: Resource = PODS;
}

/// A claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Claim {
    /// Metadata.
    pub metadata: ObjectMeta,
}

impl View for Claim {
    const RESOURCE: Resource = PERSISTENT_VOLUME_CLAIMS;
}

/// The source of a volume that brings a claim template.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Source {
    /// The template.
    pub volume_claim_template: Template,
}

/// A claim template.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Template {
    #[serde(deserialize_with = "null_is_default")]
    metadata: TemplateMeta,
    /// The claim's spec, as it came: fields unknown here must survive.
    spec: Option<Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TemplateMeta {
    #[serde(deserialize_with = "null_is_default")]
    annotations: StringMap,
    #[serde(deserialize_with = "null_is_default")]
    labels: StringMap,
}

/// A claim about to be made.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewClaim<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: NewMeta<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<&'a RawValue>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NewMeta<'a> {
    name: &'a str,
    namespace: &'a str,
    #[serde(skip_serializing_if = "StringMap::is_empty")]
    annotations: &'a StringMap,
    #[serde(skip_serializing_if = "StringMap::is_empty")]
    labels: &'a StringMap,
    owner_references: [OwnerReference; 1],
}

impl<'a> NewClaim<'a> {
    /// The claim of a template, owned by the pod.
    pub fn new(pod: &'a ObjectMeta, name: &'a str, template: &'a Template) -> Self {
        Self {
            api_version: "v1",
            kind: PERSISTENT_VOLUME_CLAIMS.kind,
            metadata: NewMeta {
                name,
                namespace: &pod.namespace,
                annotations: &template.metadata.annotations,
                labels: &template.metadata.labels,
                owner_references: [OwnerReference::controller(PODS, &pod.name, &pod.uid)],
            },
            spec: template.spec.as_deref(),
        }
    }
}
