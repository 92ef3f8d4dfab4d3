//! What is read of a ReplicaSet.

use coxswain_sdk::claim::HasMetadata;
use coxswain_sdk::meta::NoAnnotations;
use coxswain_sdk::replicas::{ReplicaOwner, ReplicaStatus};
use coxswain_sdk::resource::REPLICA_SETS;
use coxswain_sdk::selector::{LabelSelector, Selector};
use coxswain_sdk::template::PodTemplate;
use coxswain_sdk::{ObjectMeta, Resource, View};
use serde::Deserialize;

/// A ReplicaSet.
#[derive(Clone, Debug, Deserialize)]
pub struct ReplicaSet {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: ReplicaStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    replicas: Option<i32>,
    min_ready_seconds: i32,
    selector: Option<LabelSelector>,
    template: PodTemplate,
}

impl View for ReplicaSet {
    const RESOURCE: Resource = REPLICA_SETS;
}

impl HasMetadata for ReplicaSet {
    type Annotations = NoAnnotations;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl ReplicaOwner for ReplicaSet {
    const COUNTS_TERMINATING: bool = true;

    fn replicas(&self) -> i32 {
        // The API server fills in 1 as well.
        self.spec.replicas.unwrap_or(1)
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec.min_ready_seconds
    }

    fn selector(&self) -> Result<Selector, String> {
        Selector::of(self.spec.selector.as_ref())
    }

    fn template(&self) -> &PodTemplate {
        &self.spec.template
    }

    fn status(&self) -> &ReplicaStatus {
        &self.status
    }
}
