//! What is read of a ReplicationController.

use coxswain_sdk::claim::HasMetadata;
use coxswain_sdk::meta::{NoAnnotations, null_is_default};
use coxswain_sdk::replicas::{ReplicaOwner, ReplicaStatus};
use coxswain_sdk::resource::REPLICATION_CONTROLLERS;
use coxswain_sdk::selector::Selector;
use coxswain_sdk::template::PodTemplate;
use coxswain_sdk::{ObjectMeta, Resource, StringMap, View};
use serde::Deserialize;

/// A ReplicationController.
#[derive(Clone, Debug, Deserialize)]
pub struct ReplicationController {
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
    #[serde(deserialize_with = "null_is_default")]
    selector: StringMap,
    #[serde(deserialize_with = "null_is_default")]
    template: PodTemplate,
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
    // The API has no field for it.
    const COUNTS_TERMINATING: bool = false;

    fn replicas(&self) -> i32 {
        // The API server fills in 1 as well.
        self.spec.replicas.unwrap_or(1)
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec.min_ready_seconds
    }

    fn selector(&self) -> Result<Selector, String> {
        // The API server fills in the template's labels, so without a selector
        // there is nothing to select by.
        if self.spec.selector.is_empty() {
            Selector::of(None)
        } else {
            Ok(Selector::of_labels(&self.spec.selector))
        }
    }

    fn template(&self) -> &PodTemplate {
        &self.spec.template
    }

    fn status(&self) -> &ReplicaStatus {
        &self.status
    }
}
