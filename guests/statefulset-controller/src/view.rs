//! What is read of StatefulSets, their pods and the claims of those.

use coxswain_sdk::claim::HasMetadata;
use coxswain_sdk::condition::DatedCondition;
use coxswain_sdk::intstr::IntOrString;
use coxswain_sdk::meta::NoAnnotations;
use coxswain_sdk::read::{Failed, Reader};
use coxswain_sdk::resource::{PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS};
use coxswain_sdk::revisions::{REVISION_HASH_LABEL, TemplatePatch};
use coxswain_sdk::selector::{LabelSelector, Selector};
use coxswain_sdk::template::PodTemplate;
use coxswain_sdk::{FromJson, ObjectMeta, Resource, StringMap, Time, View, from_json, pod};
use serde_json::Value;

use crate::status::Status;

/// A StatefulSet.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct StatefulSet {
    /// Metadata. Revisions get the annotations.
    pub metadata: ObjectMeta<StringMap>,
    /// Spec.
    pub spec: Spec,
    /// Status.
    pub status: Status,
}

impl View for StatefulSet {
    const RESOURCE: Resource = STATEFUL_SETS;
}

impl HasMetadata for StatefulSet {
    type Annotations = StringMap;

    fn metadata(&self) -> &ObjectMeta<StringMap> {
        &self.metadata
    }
}

/// Spec of a StatefulSet.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    replicas: Option<i32>,
    selector: Option<LabelSelector>,
    /// What pods are made from.
    pub template: Template,
    /// What their claims are made from.
    pub volume_claim_templates: Vec<ClaimTemplate>,
    /// The service that gives the pods their domain.
    pub service_name: String,
    pod_management_policy: String,
    update_strategy: UpdateStrategy,
    revision_history_limit: Option<i32>,
    /// For how long a pod must be ready to be available.
    pub min_ready_seconds: i32,
    persistent_volume_claim_retention_policy: Option<RetentionPolicy>,
    ordinals: Option<Ordinals>,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct UpdateStrategy {
    #[serde(rename = "type")]
    kind: String,
    rolling_update: Option<RollingUpdate>,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct RollingUpdate {
    partition: Option<i32>,
    max_unavailable: Option<IntOrString>,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct RetentionPolicy {
    when_deleted: String,
    when_scaled: String,
}

#[derive(Clone, Copy, Debug, Default, FromJson)]
#[serde(default)]
struct Ordinals {
    start: i32,
}

/// What becomes of claims that are no longer needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// They go with the StatefulSet.
    pub delete_with_set: bool,
    /// They go when their pod is scaled away.
    pub delete_with_pod: bool,
}

impl StatefulSet {
    /// How many pods are wanted.
    pub fn replicas(&self) -> i64 {
        // The API server fills in 1 as well.
        i64::from(self.spec.replicas.unwrap_or(1)).max(0)
    }

    /// The first ordinal.
    pub fn start(&self) -> i64 {
        i64::from(self.spec.ordinals.unwrap_or_default().start)
    }

    /// Whether a pod of this ordinal is wanted.
    pub fn wants(&self, ordinal: i64) -> bool {
        ordinal >= self.start() && ordinal - self.start() < self.replicas()
    }

    /// Which pods are its own, besides their names.
    pub fn selector(&self) -> Result<Selector, String> {
        Selector::of(self.spec.selector.as_ref())
    }

    /// Labels that its claims get.
    pub fn match_labels(&self) -> impl Iterator<Item = (&String, &String)> {
        self.spec.selector.iter().flat_map(|selector| &selector.match_labels)
    }

    /// Whether pods are made and deleted one after the other.
    pub fn is_ordered(&self) -> bool {
        self.spec.pod_management_policy != "Parallel"
    }

    /// How it says that pods are made and deleted.
    pub fn pod_management_policy(&self) -> &str {
        &self.spec.pod_management_policy
    }

    /// Whether outdated pods are left to whoever deletes them.
    pub fn updates_on_delete(&self) -> bool {
        self.spec.update_strategy.kind == "OnDelete"
    }

    /// How many pods, counted from the first, keep the current revision. None
    /// where the strategy says nothing, and the status counts instead.
    pub fn partition(&self) -> Option<i64> {
        let rolling = self.spec.update_strategy.rolling_update.as_ref()?;
        Some(i64::from(rolling.partition.unwrap_or(0)).max(0))
    }

    /// Whether a new pod of this ordinal is still of the current revision.
    pub fn starts_at_current(&self, ordinal: i64) -> bool {
        let index = ordinal - self.start();
        match self.partition() {
            Some(partition) => index < partition,
            None => !self.updates_on_delete() && index < i64::from(self.status.current_replicas),
        }
    }

    /// How many pods a rolling update may make unavailable.
    pub fn max_unavailable(&self) -> i64 {
        let rolling = self.spec.update_strategy.rolling_update.as_ref();
        let total = i32::try_from(self.replicas()).unwrap_or(i32::MAX);
        let given = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        // What the API server refuses counts as nothing given.
        given.and_then(|number| number.scaled(total, false).ok()).map_or(1, i64::from).max(1)
    }

    /// How many revisions that nothing lives by are kept.
    pub fn history_limit(&self) -> i32 {
        self.spec.revision_history_limit.unwrap_or(10)
    }

    /// What becomes of claims. Whatever is not understood means that they stay.
    pub fn retention(&self) -> Retention {
        let known = |text: &str| matches!(text, "Retain" | "Delete");
        match &self.spec.persistent_volume_claim_retention_policy {
            Some(policy) if known(&policy.when_deleted) && known(&policy.when_scaled) => Retention {
                delete_with_set: policy.when_deleted == "Delete",
                delete_with_pod: policy.when_scaled == "Delete",
            },
            _ => Retention::default(),
        }
    }
}

/// A pod template: what pods are made from, and what a revision keeps of it.
#[derive(Clone, Debug, Default)]
pub struct Template {
    /// What pods are made from.
    pub pods: PodTemplate,
    /// What a revision keeps.
    pub patch: TemplatePatch,
}

impl FromJson for Template {
    fn blank() -> Self {
        Self::default()
    }

    fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
        let raw = reader.raw()?;
        let pods: Option<PodTemplate> = from_json(raw.get()).map_err(Failed::new)?;
        if let Some(pods) = pods {
            let value: Value = from_json(raw.get()).map_err(Failed::new)?;
            *self = Self { pods, patch: TemplatePatch::of(&value) };
        }
        Ok(())
    }
}

/// A template of claims, as it came.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(transparent)]
pub struct ClaimTemplate(pub Value);

impl ClaimTemplate {
    /// Its name, which is also that of the pod's volume.
    pub fn name(&self) -> &str {
        self.0.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
    }
}

/// A claim of a pod.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Claim {
    /// Metadata.
    pub metadata: ObjectMeta,
}

impl View for Claim {
    const RESOURCE: Resource = PERSISTENT_VOLUME_CLAIMS;
}

/// A pod.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Pod {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: PodSpec,
    /// Status.
    pub status: PodStatus,
}

/// What is read of a pod's spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct PodSpec {
    /// Volumes.
    pub volumes: Vec<Volume>,
}

/// What is read of a volume.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Name.
    pub name: String,
    /// The claim that it is, if any.
    pub persistent_volume_claim: Option<VolumeClaim>,
}

/// Which claim a volume is.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeClaim {
    /// Its name.
    pub claim_name: String,
}

/// What is read of a pod's status.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: String,
    /// Conditions.
    pub conditions: Vec<DatedCondition>,
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

impl Pod {
    /// The revision that it was made from; empty if it does not say.
    pub fn revision(&self) -> &str {
        self.metadata.labels.get(REVISION_HASH_LABEL).map_or("", String::as_str)
    }

    /// Whether it has ended, for good or ill.
    pub fn has_ended(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Whether it has not started yet.
    pub fn is_pending(&self) -> bool {
        matches!(self.status.phase.as_str(), "Pending" | "")
    }

    /// Whether it runs and is ready.
    pub fn runs_ready(&self) -> bool {
        self.status.phase == "Running" && pod::ready(&self.status.conditions).is_some()
    }

    /// Whether it has been ready for so many seconds.
    pub fn is_available(&self, min_ready_seconds: i32, now: Time) -> bool {
        pod::is_available(&self.status.conditions, min_ready_seconds, now)
    }
}
