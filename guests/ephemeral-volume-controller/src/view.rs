//! What is read of pods and claims.

use coxswain_sdk::claim_template::ClaimTemplate;
use coxswain_sdk::resource::{PERSISTENT_VOLUME_CLAIMS, PODS};
use coxswain_sdk::volumes::PodVolume;
use coxswain_sdk::{FromJson, ObjectMeta, Resource, View};

/// A pod.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Pod {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: Spec,
}

/// What is read of a pod's spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Spec {
    /// Its volumes.
    pub volumes: Vec<PodVolume>,
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
}

impl View for Claim {
    const RESOURCE: Resource = PERSISTENT_VOLUME_CLAIMS;
}

/// The source of a volume that brings a claim template.
#[derive(Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Source {
    /// The template.
    pub volume_claim_template: ClaimTemplate,
}
