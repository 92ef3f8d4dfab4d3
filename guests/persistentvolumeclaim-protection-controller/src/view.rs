//! What is read of claims and pods.

use coxswain_sdk::claim::HasMetadata;
use coxswain_sdk::meta::NoAnnotations;
use coxswain_sdk::resource::{PERSISTENT_VOLUME_CLAIMS, PODS};
use coxswain_sdk::volumes::{PodSpec, PodVolume, UsesVolumes};
use coxswain_sdk::{FromJson, ObjectMeta, Resource, View};

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

impl HasMetadata for Claim {
    type Annotations = NoAnnotations;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// A pod. Its status is of no account.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Pod {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: PodSpec,
}

impl View for Pod {
    const RESOURCE: Resource = PODS;
}

impl HasMetadata for Pod {
    type Annotations = NoAnnotations;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl UsesVolumes for Pod {
    fn volumes(&self) -> &[PodVolume] {
        &self.spec.volumes
    }
}

/// Pods as the API server lists them.
#[derive(Debug, FromJson)]
pub struct PodList {
    /// The pods.
    #[serde(default)]
    pub items: Vec<Pod>,
}
