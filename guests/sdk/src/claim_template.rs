//! Templates of claims that a pod brings, be they for volumes or for devices,
//! and the claims made of them.
//!
//! As with pods, the spec is copied as the raw JSON it came as. Of the metadata
//! a claim gets no more than labels and annotations.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::meta::{OwnerReference, StringMap};
use crate::read::FromJson;
use crate::reader::from_json;
use crate::resource::Resource;

/// A claim template.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct ClaimTemplate {
    metadata: TemplateMeta,
    spec: Option<Box<RawValue>>,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
struct TemplateMeta {
    annotations: StringMap,
    labels: StringMap,
}

/// A claim about to be made.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewClaim<'a> {
    api_version: String,
    kind: &'static str,
    /// Its metadata; a controller has to see to the name.
    pub metadata: NewClaimMeta<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<&'a RawValue>,
}

/// Metadata of a claim about to be made.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewClaimMeta<'a> {
    /// Name; None where the name is generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'a str>,
    /// Prefix of a generated name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generate_name: Option<String>,
    namespace: &'a str,
    /// Annotations.
    #[serde(skip_serializing_if = "StringMap::is_empty")]
    pub annotations: StringMap,
    #[serde(skip_serializing_if = "StringMap::is_empty")]
    labels: &'a StringMap,
    owner_references: [OwnerReference; 1],
}

impl ClaimTemplate {
    /// A part of the spec that claims get.
    pub fn spec<T: FromJson + Default>(&self) -> Result<T> {
        let Some(spec) = &self.spec else { return Ok(T::default()) };
        from_json(spec.get()).map_err(|e| Error::Terminal(format!("the template's spec: {e}")))
    }

    /// A claim of this template, owned by `owner`. It has no name yet.
    pub fn claim<'a>(
        &'a self,
        resource: Resource,
        namespace: &'a str,
        owner: OwnerReference,
    ) -> NewClaim<'a> {
        NewClaim {
            api_version: resource.api_version(),
            kind: resource.kind,
            metadata: NewClaimMeta {
                name: None,
                generate_name: None,
                namespace,
                annotations: self.metadata.annotations.clone(),
                labels: &self.metadata.labels,
                owner_references: [owner],
            },
            spec: self.spec.as_deref(),
        }
    }
}
