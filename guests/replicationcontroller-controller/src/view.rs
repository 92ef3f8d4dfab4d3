//! What is read of a ReplicationController.

use coxswain_sdk::claim::HasMetadata;
use coxswain_sdk::meta::NoAnnotations;
use coxswain_sdk::replicas::{ReplicaOwner, ReplicaSpec, ReplicaStatus};
use coxswain_sdk::resource::REPLICATION_CONTROLLERS;
use coxswain_sdk::selector::Selector;
use coxswain_sdk::{FromJson, ObjectMeta, Resource, StringMap, View};

/// A ReplicationController.
#[derive(Clone, Debug, FromJson)]
pub struct ReplicationController {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: ReplicaSpec<StringMap>,
    #[serde(default)]
    status: ReplicaStatus,
}

impl View for ReplicationController {
    const RESOURCE: Resource = REPLICATION_CONTROLLERS;
}

impl HasMetadata for ReplicationController {
    type Annotations = NoAnnotations;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl ReplicaOwner for ReplicationController {
    type Selects = StringMap;

    // The API has no field for it.
    const COUNTS_TERMINATING: bool = false;

    fn spec(&self) -> &ReplicaSpec<StringMap> {
        &self.spec
    }

    fn selector(&self) -> Result<Selector, String> {
        // The API server fills in the template's labels, so without a selector
        // there is nothing to select by.
        let labels = self.spec.selector.as_ref().filter(|labels| !labels.is_empty());
        labels.map_or_else(|| Selector::of(None), |labels| Ok(Selector::of_labels(labels)))
    }

    fn status(&self) -> &ReplicaStatus {
        &self.status
    }
}
