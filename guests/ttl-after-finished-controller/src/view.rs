//! What is read of a Job.

use coxswain_sdk::condition::DatedCondition;
use coxswain_sdk::resource::JOBS;
use coxswain_sdk::{FromJson, ObjectMeta, Resource, View};

/// A Job.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Job {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: Spec,
    /// Status.
    pub status: Status,
}

/// What is read of a Job's spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// How long it stays once it has finished.
    pub ttl_seconds_after_finished: Option<i32>,
}

/// What is read of a Job's status.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Status {
    /// Conditions.
    pub conditions: Vec<DatedCondition>,
}

impl View for Job {
    const RESOURCE: Resource = JOBS;
}
