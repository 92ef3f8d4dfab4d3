//! What is read of pods and claims.

use coxswain_sdk::claim_template::ClaimTemplate;
use coxswain_sdk::meta::null_is_default;
use coxswain_sdk::resource::{PERSISTENT_VOLUME_CLAIMS, PODS};
use coxswain_sdk::volumes::PodVolume;
use coxswain_sdk::{ObjectMeta, Resource, View};
use serde::Deserialize;

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
    pub volume_claim_template: ClaimTemplate,
}
