//! What is read of Jobs and of their pods.

mod pod;

use coxswain_sdk::claim::HasMetadata;
use coxswain_sdk::condition::Condition;
use coxswain_sdk::meta::{NoAnnotations, is_default};
use coxswain_sdk::resource::JOBS;
use coxswain_sdk::selector::LabelSelector;
use coxswain_sdk::template::PodTemplate;
use coxswain_sdk::{FromJson, ObjectMeta, Resource, Time, View, from_json, job};
use serde::Serialize;

pub use pod::{ContainerStatus, Pod};

/// The finalizer that keeps a pod until it has been counted.
pub const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// Type of the condition of a Job that is going to succeed.
pub const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
/// Type of the condition of a Job that is going to fail.
pub const FAILURE_TARGET: &str = "FailureTarget";
/// Type of the condition of a Job that makes no pods for now.
pub const SUSPENDED: &str = "Suspended";

/// The only manager whose Jobs are ours.
const OUR_NAME: &str = "kubernetes.io/job-controller";

/// A Job.
#[derive(Clone, Debug, FromJson)]
pub struct Job {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: JobSpec,
    /// Status.
    #[serde(default)]
    pub status: JobStatus,
}

impl View for Job {
    const RESOURCE: Resource = JOBS;
}

impl HasMetadata for Job {
    type Annotations = NoAnnotations;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// What is read of a Job's spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSpec {
    /// How many pods at once.
    pub parallelism: Option<i32>,
    /// How many pods must succeed; None: any.
    pub completions: Option<i32>,
    /// `NonIndexed` or `Indexed`.
    pub completion_mode: Option<String>,
    /// How many pods may fail.
    pub backoff_limit: Option<i32>,
    /// How many pods of one index may fail.
    pub backoff_limit_per_index: Option<i32>,
    /// How many indexes may fail.
    pub max_failed_indexes: Option<i32>,
    /// For how long the Job may be active.
    pub active_deadline_seconds: Option<i64>,
    /// Whether it makes no pods for now.
    pub suspend: Option<bool>,
    /// Who reconciles it.
    pub managed_by: Option<String>,
    /// `TerminatingOrFailed` or `Failed`.
    pub pod_replacement_policy: Option<String>,
    /// What failed pods mean.
    pub pod_failure_policy: Option<PodFailurePolicy>,
    /// What is enough to succeed.
    pub success_policy: Option<SuccessPolicy>,
    /// Which pods are its own.
    pub selector: Option<LabelSelector>,
    /// What pods are made from.
    pub template: PodTemplate,
}

/// What failed pods mean. The first rule that fits counts.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct PodFailurePolicy {
    /// Rules.
    pub rules: Vec<FailureRule>,
}

/// A rule about failed pods.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct FailureRule {
    /// `FailJob`, `FailIndex`, `Ignore` or `Count`.
    pub action: String,
    /// Fits pods by how their containers ended.
    pub on_exit_codes: Option<OnExitCodes>,
    /// Fits pods by their conditions.
    pub on_pod_conditions: Option<Vec<ConditionPattern>>,
}

/// Exit codes that a rule fits.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct OnExitCodes {
    /// Only this container.
    pub container_name: Option<String>,
    /// `In` or `NotIn`.
    pub operator: String,
    /// The codes.
    pub values: Vec<i32>,
}

/// A condition that a rule fits.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct ConditionPattern {
    /// Type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Status.
    pub status: String,
}

/// What is enough to succeed. Any rule will do.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct SuccessPolicy {
    /// Rules.
    pub rules: Vec<SuccessRule>,
}

/// A rule about succeeded indexes.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct SuccessRule {
    /// Which indexes count.
    pub succeeded_indexes: Option<String>,
    /// How many of them.
    pub succeeded_count: Option<i32>,
}

/// A Job's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Since when it has been active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Pods that neither ended nor were asked to go.
    #[serde(skip_serializing_if = "is_default")]
    pub active: i32,
    /// Those that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<i32>,
    /// Pods asked to go and not ended yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<i32>,
    /// Pods that succeeded, without those still uncounted; of an Indexed Job
    /// the completed indexes.
    #[serde(skip_serializing_if = "is_default")]
    pub succeeded: i32,
    /// Pods that failed, without those still uncounted.
    #[serde(skip_serializing_if = "is_default")]
    pub failed: i32,
    /// Completed indexes, as `1,3-5,7`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub completed_indexes: String,
    /// Failed indexes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_indexes: Option<String>,
    /// Pods that have ended and are not in the counters yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncounted_terminated_pods: Option<Uncounted>,
}

/// Uids of pods that have ended and are not in the counters yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, FromJson)]
#[serde(default)]
pub struct Uncounted {
    /// Those that succeeded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub succeeded: Vec<String>,
    /// Those that failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
}

impl Job {
    /// Whether each pod has an index.
    pub fn is_indexed(&self) -> bool {
        self.spec.completion_mode.as_deref() == Some("Indexed")
    }

    /// Whether its completion mode is one that we know.
    pub fn has_known_mode(&self) -> bool {
        matches!(self.spec.completion_mode.as_deref(), None | Some("NonIndexed" | "Indexed"))
    }

    /// Whether it makes no pods for now.
    pub fn is_suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    /// Who else reconciles it, if somebody does.
    pub fn managed_elsewhere(&self) -> Option<&str> {
        self.spec.managed_by.as_deref().filter(|name| *name != OUR_NAME)
    }

    /// Whether it has succeeded or failed for good.
    pub fn is_finished(&self) -> bool {
        job::end(&self.status.conditions).is_some()
    }

    /// How many indexes there are, or pods must succeed. 0 where any is enough.
    pub fn completions(&self) -> i64 {
        self.spec.completions.unwrap_or(0).max(0).into()
    }

    /// How many pods at once.
    pub fn parallelism(&self) -> i64 {
        self.spec.parallelism.unwrap_or(1).max(0).into()
    }

    /// How many pods may fail.
    pub fn backoff_limit(&self) -> i64 {
        let default = if self.spec.backoff_limit_per_index.is_some() { i32::MAX } else { 6 };
        self.spec.backoff_limit.unwrap_or(default).into()
    }

    /// How many pods of one index may fail, where that is counted.
    pub fn backoff_limit_per_index(&self) -> Option<i64> {
        self.spec.backoff_limit_per_index.filter(|_| self.is_indexed()).map(i64::from)
    }

    /// Whether a pod is only replaced once it has ended.
    pub fn replaces_only_failed(&self) -> bool {
        self.spec.pod_replacement_policy.as_deref() == Some("Failed")
            || self.spec.pod_failure_policy.is_some()
    }

    /// Whether containers of its pods are restarted where they fail.
    pub fn restarts_on_failure(&self) -> bool {
        #[derive(Default, FromJson)]
        #[serde(rename_all = "camelCase", default)]
        struct Spec {
            restart_policy: Option<String>,
        }
        let spec = self.spec.template.spec.as_ref().and_then(|raw| from_json::<Spec>(raw.get()).ok());
        spec.unwrap_or_default().restart_policy.as_deref() == Some("OnFailure")
    }
}
