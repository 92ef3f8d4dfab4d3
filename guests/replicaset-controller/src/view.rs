//! What is read of a ReplicaSet.

use coxswain_sdk::claim::HasMetadata;
use coxswain_sdk::meta::NoAnnotations;
use coxswain_sdk::replicas::{ReplicaOwner, ReplicaSpec, ReplicaStatus};
use coxswain_sdk::resource::REPLICA_SETS;
use coxswain_sdk::selector::{LabelSelector, Selector};
use coxswain_sdk::{FromJson, ObjectMeta, Resource, View};

/// A ReplicaSet.
#[derive(Clone, Debug, FromJson)]
pub struct ReplicaSet {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: ReplicaSpec<LabelSelector>,
    #[serde(default)]
    status: ReplicaStatus,
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
    type Selects = LabelSelector;

    const COUNTS_TERMINATING: bool = true;

    fn spec(&self) -> &ReplicaSpec<LabelSelector> {
        &self.spec
    }

    fn selector(&self) -> Result<Selector, String> {
        Selector::of(self.spec.selector.as_ref())
    }

    fn status(&self) -> &ReplicaStatus {
        &self.status
    }
}
