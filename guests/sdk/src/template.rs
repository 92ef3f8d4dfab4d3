//! Pod templates, and the pods made from them.
//!
//! The spec is never re-typed: it is copied as the raw JSON it came as, so
//! fields that no Coxswain knows survive.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::meta::{OwnerReference, StringMap};
use crate::names::pod_prefix;
use crate::read::FromJson;

/// A pod template, as far as pods are made from it.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct PodTemplate {
    /// Its metadata.
    pub metadata: TemplateMeta,
    /// The pods' spec.
    pub spec: Option<Box<RawValue>>,
}

/// What pods get of a template's metadata.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct TemplateMeta {
    /// Labels.
    pub labels: StringMap,
    /// Annotations.
    pub annotations: StringMap,
    /// Finalizers.
    pub finalizers: Vec<String>,
}

/// A pod about to be made.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewPod<'a> {
    api_version: &'static str,
    kind: &'static str,
    /// Its metadata; a controller may add to it.
    pub metadata: NewPodMeta<'a>,
    spec: Option<&'a RawValue>,
}

/// Metadata of a pod about to be made.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewPodMeta<'a> {
    /// Name; None where the name is generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Prefix of a generated name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generate_name: Option<String>,
    /// Namespace.
    pub namespace: &'a str,
    /// Labels.
    #[serde(skip_serializing_if = "StringMap::is_empty")]
    pub labels: StringMap,
    /// Annotations.
    #[serde(skip_serializing_if = "StringMap::is_empty")]
    pub annotations: StringMap,
    /// Finalizers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// Owners.
    pub owner_references: Vec<OwnerReference>,
}

impl PodTemplate {
    /// A pod of this template with a generated name, owned by `owner`.
    pub fn pod<'a>(&'a self, namespace: &'a str, owner: OwnerReference) -> NewPod<'a> {
        NewPod {
            api_version: "v1",
            kind: "Pod",
            metadata: NewPodMeta {
                name: None,
                generate_name: Some(pod_prefix(&owner.name)),
                namespace,
                labels: self.metadata.labels.clone(),
                annotations: self.metadata.annotations.clone(),
                finalizers: self.metadata.finalizers.clone(),
                owner_references: vec![owner],
            },
            spec: self.spec.as_deref(),
        }
    }
}
