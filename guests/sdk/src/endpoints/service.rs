//! Services as controllers of their endpoints see them.

use super::address::{self, Family};
use super::port::{Port, TCP};
use super::{HEADLESS, MANAGED_BY, SERVICE_NAME};
use crate::intstr::IntOrString;
use crate::meta::{ObjectMeta, StringMap};
use crate::read::FromJson;
use crate::resource::{Resource, SERVICES};
use crate::selector::Selector;
use crate::view::View;

/// A service.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Service {
    /// Metadata.
    pub metadata: ObjectMeta<TopologyMode>,
    /// Spec.
    pub spec: ServiceSpec,
}

impl View for Service {
    const RESOURCE: Resource = SERVICES;
}

/// The annotations that ask for topology hints.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct TopologyMode {
    #[serde(rename = "service.kubernetes.io/topology-aware-hints")]
    old: Option<String>,
    #[serde(rename = "service.kubernetes.io/topology-mode")]
    mode: Option<String>,
}

impl TopologyMode {
    /// Whether hints are asked for. The older annotation wins.
    pub fn is_auto(&self) -> bool {
        matches!(self.old.as_deref().or(self.mode.as_deref()), Some("Auto" | "auto"))
    }
}

/// What is read of a service's spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Which pods are behind it.
    pub selector: StringMap,
    /// Its address, or `None`.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: String,
    /// Families of its addresses.
    pub ip_families: Vec<String>,
    /// Ports.
    pub ports: Vec<ServicePort>,
    /// Whether pods count as ready whatever they say.
    pub publish_not_ready_addresses: bool,
    /// Which endpoints are to be preferred.
    pub traffic_distribution: Option<String>,
}

/// What is read of a service's port.
#[derive(Clone, Debug, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    /// Name.
    pub name: String,
    /// Protocol.
    #[json(with = super::port::protocol)]
    pub protocol: String,
    /// Where it leads on the pod.
    pub target_port: Option<IntOrString>,
    /// What is spoken on it.
    pub app_protocol: Option<String>,
}

impl Default for ServicePort {
    fn default() -> Self {
        Self { name: String::new(), protocol: TCP.to_owned(), target_port: None, app_protocol: None }
    }
}

impl ServicePort {
    /// The port of an endpoint where this leads to a number.
    pub fn to(&self, number: i32) -> Port {
        Port {
            name: self.name.clone(),
            port: Some(number),
            protocol: self.protocol.clone(),
            app_protocol: self.app_protocol.clone(),
        }
    }
}

const NO_CLUSTER_IP: &str = "None";

impl Service {
    /// The selector of its pods; None where endpoints are not made for it: it
    /// has no selector, or is but another name.
    pub fn selector(&self) -> Option<Selector> {
        let made_for = self.spec.kind != "ExternalName" && !self.spec.selector.is_empty();
        made_for.then(|| Selector::of_labels(&self.spec.selector))
    }

    /// Whether it was made without an address.
    pub fn asks_for_no_address(&self) -> bool {
        self.spec.cluster_ip == NO_CLUSTER_IP
    }

    /// Whether it has no address of its own.
    pub fn is_headless(&self) -> bool {
        self.asks_for_no_address() || self.spec.cluster_ip.is_empty()
    }

    /// The families of its endpoints. Where the API server has not filled them
    /// in, that of its address, or both.
    pub fn families(&self) -> Vec<Family> {
        let said = |family: &Family| self.spec.ip_families.iter().any(|name| name == family.name());
        let families: Vec<Family> = [Family::V4, Family::V6].into_iter().filter(said).collect();
        match families.is_empty() {
            false => families,
            true if self.is_headless() => vec![Family::V4, Family::V6],
            true => vec![address::family_of(&self.spec.cluster_ip).unwrap_or_default()],
        }
    }

    /// The labels of its slices: its own, but for those that are reserved.
    pub fn slice_labels(&self, manager: &str) -> StringMap {
        let mut labels = self.metadata.labels.clone();
        labels.retain(|label, _| !is_reserved(label));
        if self.is_headless() {
            labels.insert(HEADLESS.to_owned(), String::new());
        }
        labels.insert(SERVICE_NAME.to_owned(), self.metadata.name.clone());
        labels.insert(MANAGED_BY.to_owned(), manager.to_owned());
        labels
    }
}

/// Whether a label of a slice says what the slice is, rather than being copied.
pub fn is_reserved(label: &str) -> bool {
    matches!(label, SERVICE_NAME | MANAGED_BY | HEADLESS)
}

/// Whether labels are the same, but for the reserved ones.
pub fn same_but_reserved(some: &StringMap, others: &StringMap) -> bool {
    fn copied(labels: &StringMap) -> impl Iterator<Item = (&String, &String)> {
        labels.iter().filter(|(label, _)| !is_reserved(label))
    }
    copied(some).eq(copied(others))
}
