//! What is read of ServiceCIDRs and IPAddresses.

use coxswain_sdk::claim::HasMetadata;
use coxswain_sdk::meta::NoAnnotations;
use coxswain_sdk::resource::{IP_ADDRESSES, SERVICE_CIDRS};
use coxswain_sdk::{FromJson, ObjectMeta, Resource, View};

use crate::prefix::Prefix;

/// A ServiceCIDR.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct ServiceCidr {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: Spec,
    /// Status.
    pub status: Status,
}

/// What is read of the spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Spec {
    /// Ranges, one for each family.
    pub cidrs: Vec<String>,
}

/// What is read of the status.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Status {
    /// Conditions.
    pub conditions: Vec<Condition>,
}

/// What is read of a condition.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason.
    pub reason: String,
    /// Text.
    pub message: String,
}

impl View for ServiceCidr {
    const RESOURCE: Resource = SERVICE_CIDRS;
}

impl HasMetadata for ServiceCidr {
    type Annotations = NoAnnotations;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl ServiceCidr {
    /// Its ranges. What is none is left out; the API server takes none such.
    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> {
        self.spec.cidrs.iter().filter_map(|text| Prefix::parse(text))
    }
}

/// An IPAddress: its name is the address.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct IpAddress {
    /// Metadata.
    pub metadata: ObjectMeta,
}

impl View for IpAddress {
    const RESOURCE: Resource = IP_ADDRESSES;
}
