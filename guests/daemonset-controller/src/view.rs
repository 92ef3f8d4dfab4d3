//! What is read of DaemonSets and their pods.

use coxswain_sdk::claim::HasMetadata;
use coxswain_sdk::condition::DatedCondition;
use coxswain_sdk::intstr::IntOrString;
use coxswain_sdk::meta::NoAnnotations;
use coxswain_sdk::node_affinity::NodeRequirement;
use coxswain_sdk::resource::{DAEMON_SETS, PODS};
use coxswain_sdk::selector::LabelSelector;
use coxswain_sdk::{FromJson, ObjectMeta, Resource, StringMap, View};

use crate::status::Status;
use crate::template::Template;

/// Annotation with the generation of the template, from before there were
/// revisions.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// A DaemonSet.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct DaemonSet {
    pub metadata: ObjectMeta<StringMap>,
    pub spec: DaemonSetSpec,
    pub status: Status,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetSpec {
    pub selector: Option<LabelSelector>,
    pub template: Template,
    pub min_ready_seconds: i32,
    pub update_strategy: UpdateStrategy,
    pub revision_history_limit: Option<i32>,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateStrategy {
    #[serde(rename = "type")]
    pub kind: String,
    pub rolling_update: Option<RollingUpdate>,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    pub max_unavailable: Option<IntOrString>,
    pub max_surge: Option<IntOrString>,
}

impl View for DaemonSet {
    const RESOURCE: Resource = DAEMON_SETS;
}

impl HasMetadata for DaemonSet {
    type Annotations = StringMap;

    fn metadata(&self) -> &ObjectMeta<StringMap> {
        &self.metadata
    }
}

impl DaemonSet {
    /// The generation of the template, if it says so in a way that makes sense.
    pub fn template_generation(&self) -> Option<i64> {
        self.metadata.annotations.get(TEMPLATE_GENERATION)?.parse().ok()
    }
}

/// A pod.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Pod {
    pub metadata: ObjectMeta,
    pub spec: PodSpec,
    pub status: PodStatus,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    pub node_name: String,
    pub affinity: PodAffinity,
}

/// As far as it names the node that the pod is for.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct PodAffinity {
    pub node_affinity: PodNodeAffinity,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct PodNodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: PodNodeSelector,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct PodNodeSelector {
    pub node_selector_terms: Vec<PodNodeSelectorTerm>,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct PodNodeSelectorTerm {
    pub match_fields: Vec<NodeRequirement>,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct PodStatus {
    pub phase: String,
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
