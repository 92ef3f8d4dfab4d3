//! What is read of Endpoints, services and slices.

use coxswain_sdk::endpoints::LEADER;
use coxswain_sdk::endpoints::slice::EndpointSlice;
use coxswain_sdk::endpoints::subsets::Endpoints;
use coxswain_sdk::resource::SERVICES;
use coxswain_sdk::{FromJson, ObjectMeta, Resource, StringMap, View};

/// A slice, with all of its annotations, for they are mirrored.
pub type Slice = EndpointSlice<StringMap>;
/// An Endpoints object, with all of its annotations.
pub type EndpointsObject = Endpoints<StringMap>;

/// Whether an Endpoints object asks not to be mirrored, or is no more than a lock
/// of leader election.
pub fn is_left_alone(endpoints: &EndpointsObject) -> bool {
    let meta = &endpoints.metadata;
    let skip = meta.labels.get("endpointslice.kubernetes.io/skip-mirror");
    skip.is_some_and(|skip| skip == "true") || meta.annotations.contains_key(LEADER)
}

/// A service.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Service {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: ServiceSpec,
}

/// What is read of a service's spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct ServiceSpec {
    /// Which pods are behind it.
    pub selector: StringMap,
}

impl View for Service {
    const RESOURCE: Resource = SERVICES;
}
