//! What is read of CronJobs and Jobs.

use coxswain_sdk::condition::BriefCondition;
use coxswain_sdk::resource::{CRON_JOBS, JOBS};
use coxswain_sdk::{FromJson, ObjectMeta, Resource, StringMap, Time, View, job};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// A CronJob.
#[derive(Debug, Default, FromJson)]
#[serde(default)]
pub struct CronJob {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: Spec,
    /// Status.
    pub status: Status,
}

/// What is read of a CronJob's spec.
#[derive(Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// When it runs.
    pub schedule: String,
    /// Where that time is.
    pub time_zone: Option<String>,
    /// How late a run may begin.
    pub starting_deadline_seconds: Option<i64>,
    /// `Allow`, `Forbid` or `Replace`.
    pub concurrency_policy: String,
    /// Whether it rests.
    pub suspend: Option<bool>,
    /// What its Jobs are made from.
    pub job_template: JobTemplate,
    /// How many completed Jobs stay.
    pub successful_jobs_history_limit: Option<i32>,
    /// How many failed Jobs stay.
    pub failed_jobs_history_limit: Option<i32>,
}

/// A Job template. The spec is never re-typed, so fields that nobody here knows
/// survive.
#[derive(Debug, Default, FromJson)]
#[serde(default)]
pub struct JobTemplate {
    /// Its metadata.
    pub metadata: TemplateMeta,
    /// The Jobs' spec.
    pub spec: Option<Box<RawValue>>,
}

/// What Jobs get of a template's metadata.
#[derive(Debug, Default, FromJson)]
#[serde(default)]
pub struct TemplateMeta {
    /// Labels.
    pub labels: StringMap,
    /// Annotations.
    pub annotations: StringMap,
}

/// The status of a CronJob.
#[derive(Clone, Debug, Default, PartialEq, FromJson, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// References to the Jobs that run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<Reference>,
    /// When the last run was scheduled for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
    /// When a run last completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_successful_time: Option<Time>,
}

/// A reference to a Job, read whole since lists are patched whole.
#[derive(Clone, Debug, PartialEq, FromJson, Serialize)]
#[serde(transparent)]
pub struct Reference(pub Map<String, Value>);

impl Reference {
    fn text(&self, field: &str) -> &str {
        self.0.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// Name of the Job.
    pub fn name(&self) -> &str {
        self.text("name")
    }

    /// Namespace of the Job.
    pub fn namespace(&self) -> &str {
        self.text("namespace")
    }

    /// Uid of the Job.
    pub fn uid(&self) -> &str {
        self.text("uid")
    }
}

impl View for CronJob {
    const RESOURCE: Resource = CRON_JOBS;
}

impl CronJob {
    /// Since when runs are looked for.
    pub fn last_run(&self) -> Time {
        let made = self.metadata.creation_timestamp;
        self.status.last_schedule_time.or(made).unwrap_or(Time::from_unix(0))
    }
}

/// A Job.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Job {
    /// Metadata.
    pub metadata: ObjectMeta<Scheduled>,
    /// Status.
    pub status: JobStatus,
}

/// The annotation that says what time a Job was made for.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Scheduled {
    /// The time.
    #[serde(rename = "batch.kubernetes.io/cronjob-scheduled-timestamp")]
    pub timestamp: Option<String>,
}

/// What is read of a Job's status.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    /// Conditions.
    pub conditions: Vec<BriefCondition>,
    /// When it began.
    pub start_time: Option<Time>,
    /// When it completed.
    pub completion_time: Option<Time>,
}

impl View for Job {
    const RESOURCE: Resource = JOBS;
}

impl Job {
    /// How it ended: `Complete` or `Failed`. None while it has not.
    pub fn end(&self) -> Option<&str> {
        job::end(&self.status.conditions).map(|end| end.kind.as_str())
    }
}
