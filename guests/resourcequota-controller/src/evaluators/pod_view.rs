//! What is read of a pod, and what is kept of that: only what it adds to a
//! quota, worked out once, as the pod is parsed.

use std::time::Duration;

use coxswain_sdk::quantity::Quantity;
use coxswain_sdk::resource::PODS;
use coxswain_sdk::{FromJson, ObjectMeta, Resource, Time, View};
use serde_json::{Map, Value};

use super::requirements;
use crate::list::List;

/// What a pod adds to a quota.
#[derive(Debug, FromJson)]
#[serde(from = "RawPod")]
pub struct Pod {
    /// Its uid.
    pub uid: String,
    /// Whether it has ended for good.
    pub is_terminal: bool,
    /// When it should have gone: from then on it no longer counts.
    pub overdue: Option<Time>,
    /// What it requests.
    pub requests: List,
    /// What it is limited to.
    pub limits: List,
    /// Whether its running time is limited.
    pub has_deadline: bool,
    /// Whether it asks for no processor and no memory.
    pub is_best_effort: bool,
    /// Its priority class, if it names one.
    pub priority_class: String,
    /// Whether its affinity looks into other namespaces.
    pub is_cross_namespace: bool,
    /// The claim made for its extended resources, if it names one.
    pub extended_claim: Option<String>,
}

impl View for Pod {
    const RESOURCE: Resource = PODS;
}

/// A pod as the API has it.
#[derive(Default, FromJson)]
#[serde(default)]
pub struct RawPod {
    metadata: ObjectMeta,
    /// Spec.
    pub spec: RawSpec,
    /// Status.
    pub status: RawStatus,
}

#[derive(Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct RawSpec {
    pub containers: Vec<Container>,
    pub init_containers: Vec<Container>,
    pub resources: Option<Resources>,
    pub overhead: List,
    active_deadline_seconds: Option<i64>,
    priority_class_name: String,
    affinity: Option<Affinity>,
}

#[derive(Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    pub name: String,
    pub restart_policy: Option<String>,
    pub resources: Resources,
}

#[derive(Default, FromJson)]
#[serde(default)]
pub struct Resources {
    pub requests: List,
    pub limits: List,
}

#[derive(Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct RawStatus {
    phase: String,
    qos_class: String,
    pub conditions: Vec<Condition>,
    pub container_statuses: Vec<ContainerStatus>,
    pub init_container_statuses: Vec<ContainerStatus>,
    extended_resource_claim_status: Option<Map<String, Value>>,
}

#[derive(Default, FromJson)]
#[serde(default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub reason: String,
}

#[derive(Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    pub name: String,
    pub resources: Option<Resources>,
    pub allocated_resources: List,
}

#[derive(Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    pod_affinity: Option<Terms>,
    pod_anti_affinity: Option<Terms>,
}

#[derive(Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct Terms {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Vec<Term>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    preferred: Vec<WeightedTerm>,
}

#[derive(Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct WeightedTerm {
    pod_affinity_term: Term,
}

#[derive(Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct Term {
    namespaces: Vec<String>,
    namespace_selector: Option<Value>,
}

impl Term {
    fn is_cross_namespace(&self) -> bool {
        !self.namespaces.is_empty() || self.namespace_selector.is_some()
    }
}

impl From<RawPod> for Pod {
    fn from(raw: RawPod) -> Self {
        let affinity = raw.spec.affinity.iter();
        let mut terms =
            affinity.flat_map(|a| a.pod_affinity.iter().chain(&a.pod_anti_affinity)).flat_map(|terms| {
                terms
                    .required
                    .iter()
                    .chain(terms.preferred.iter().map(|weighted| &weighted.pod_affinity_term))
            });
        Self {
            is_terminal: matches!(raw.status.phase.as_str(), "Succeeded" | "Failed"),
            overdue: overdue(&raw.metadata),
            requests: requirements::requests(&raw),
            limits: requirements::limits(&raw),
            has_deadline: raw.spec.active_deadline_seconds.is_some_and(|seconds| seconds >= 0),
            is_best_effort: is_best_effort(&raw),
            is_cross_namespace: terms.any(Term::is_cross_namespace),
            uid: raw.metadata.uid,
            priority_class: raw.spec.priority_class_name,
            extended_claim: raw.status.extended_resource_claim_status.map(|claim| {
                claim.get("resourceClaimName").and_then(Value::as_str).unwrap_or_default().to_owned()
            }),
        }
    }
}

/// The deletion timestamp includes the grace period once already; a pod is
/// given as much again before it is taken for stuck.
fn overdue(meta: &ObjectMeta) -> Option<Time> {
    let grace = u64::try_from(meta.deletion_grace_period_seconds?).unwrap_or(0);
    Some(meta.deletion_timestamp? + Duration::from_secs(grace))
}

fn is_best_effort(pod: &RawPod) -> bool {
    if !pod.status.qos_class.is_empty() {
        return pod.status.qos_class == "BestEffort";
    }
    let asks =
        |list: &List| ["cpu", "memory"].iter().any(|name| list.get(name).is_some_and(|q| q > Quantity::ZERO));
    let of = |resources: &Resources| asks(&resources.requests) || asks(&resources.limits);
    match &pod.spec.resources {
        Some(whole) => !of(whole),
        None => !pod.spec.containers.iter().chain(&pod.spec.init_containers).any(|c| of(&c.resources)),
    }
}
