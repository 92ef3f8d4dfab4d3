//! EndpointSlices.

use std::fmt;

use serde::Serialize;

use super::address::Family;
use super::port::Port;
use super::{MANAGED_BY, SERVICE_NAME, TRIGGER_TIME};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::meta::{ObjectMeta, StringMap};
use crate::query::Query;
use crate::read::FromJson;
use crate::resource::{ENDPOINT_SLICES, Resource};
use crate::view::{Object, View};

/// A slice. `A` says which annotations are read, and so kept in step.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice<A> {
    /// Metadata.
    pub metadata: ObjectMeta<A>,
    /// What its addresses are. Other types than these two are of no concern.
    pub address_type: String,
    /// Ports of all its endpoints.
    pub ports: Vec<WholePort>,
    /// Endpoints.
    pub endpoints: Vec<Endpoint>,
}

impl<A: FromJson + Default + 'static> View for EndpointSlice<A> {
    const RESOURCE: Resource = ENDPOINT_SLICES;
}

/// The slices that a manager keeps for a service of this name. One that is being
/// deleted is as good as gone: it may be held for long by a finalizer, and the
/// service needs its endpoints meanwhile.
pub fn of_service<A: Annotations>(
    ctx: &Ctx<'_>,
    namespace: &str,
    service: &str,
    manager: &str,
) -> Result<Vec<Object<EndpointSlice<A>>>> {
    let labels = format!("{SERVICE_NAME}={service},{MANAGED_BY}={manager}");
    let mut slices = ctx.list::<EndpointSlice<A>>(Query::all().namespace(namespace).labels(&labels))?;
    slices.retain(|slice| !slice.metadata.is_deleting());
    Ok(slices)
}

impl<A> EndpointSlice<A> {
    /// The family of its addresses.
    pub fn family(&self) -> Option<Family> {
        Family::named(&self.address_type)
    }

    /// Its ports.
    pub fn ports(&self) -> Vec<Port> {
        self.ports.iter().map(|port| port.0.clone()).collect()
    }

    /// Whether the object of this kind and uid is among its owners.
    pub fn is_owned_by(&self, owner: Resource, uid: &str) -> bool {
        let version = owner.api_version();
        let mut owners = self.metadata.owner_references.iter();
        owners.any(|o| o.uid == uid && o.kind == owner.kind && o.api_version == version)
    }
}

/// Annotations of a slice that are kept in step.
pub trait Annotations: FromJson + Default + Clone + fmt::Debug + 'static {
    /// Those there are.
    fn to_map(&self) -> StringMap;
}

/// All of them.
impl Annotations for StringMap {
    fn to_map(&self) -> StringMap {
        self.clone()
    }
}

/// Only the one that says which change led to a write.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Trigger {
    #[serde(rename = "endpoints.kubernetes.io/last-change-trigger-time")]
    time: Option<String>,
}

impl Annotations for Trigger {
    fn to_map(&self) -> StringMap {
        let mut map = StringMap::new();
        if let Some(time) = &self.time {
            map.insert(TRIGGER_TIME.to_owned(), time.clone());
        }
        map
    }
}

/// A port that is kept whole in the cache, so that the list can be replaced.
#[derive(Clone, Debug, PartialEq, Eq, FromJson)]
#[json(whole)]
pub struct WholePort(pub Port);

/// An endpoint. It is kept whole in the cache, so that the list can be replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, FromJson)]
#[serde(rename_all = "camelCase", default)]
#[json(whole)]
pub struct Endpoint {
    /// Its addresses, of one family.
    pub addresses: Vec<String>,
    /// Its state.
    pub conditions: Conditions,
    /// Its name within the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The object behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<Target>,
    /// The node it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The zone it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Who should use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<Hints>,
}

/// The state of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, FromJson)]
#[serde(default)]
pub struct Conditions {
    /// Whether it takes new connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Whether it serves, be it about to go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    /// Whether it is about to go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

/// A reference to the object behind an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Target {
    /// API version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Version it had.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// The part of it that is meant.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field_path: String,
}

impl Target {
    /// Whether both mean the same object, or both none; the version it had is of
    /// no account.
    pub fn same(one: Option<&Self>, other: Option<&Self>) -> bool {
        one.map(Self::parts) == other.map(Self::parts)
    }

    fn parts(&self) -> [&str; 6] {
        let Self { api_version, kind, namespace, name, uid, field_path, .. } = self;
        [api_version, kind, namespace, name, uid, field_path]
    }
}

/// Who should use an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Hints {
    /// Zones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub for_zones: Vec<Named>,
    /// Nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub for_nodes: Vec<Named>,
}

/// A zone or a node, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, FromJson)]
#[serde(default)]
pub struct Named {
    /// The name.
    pub name: String,
}

impl Hints {
    /// The hint that an endpoint is for one zone.
    pub fn zone(name: &str) -> Self {
        Self { for_zones: vec![Named { name: name.to_owned() }], for_nodes: Vec::new() }
    }
}

impl Endpoint {
    /// Whether it says that it is ready.
    pub fn is_ready(&self) -> bool {
        self.conditions.ready == Some(true)
    }

    /// Whether the other, which has the same addresses and name, says the same.
    /// Hints are another matter.
    pub fn says_the_same(&self, other: &Self) -> bool {
        self.conditions == other.conditions
            && self.node_name == other.node_name
            && self.zone == other.zone
            && Target::same(self.target_ref.as_ref(), other.target_ref.as_ref())
    }
}
