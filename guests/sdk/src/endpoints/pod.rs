//! Pods as addresses of services: which count, and their ports.

use std::net::IpAddr;

use litemap::LiteMap;

use super::address;
use super::port::TCP;
use super::service::{Service, ServicePort};
use super::slice::Target;
use crate::condition::{self, DatedCondition};
use crate::intstr::IntOrString;
use crate::meta::ObjectMeta;
use crate::pod;
use crate::read::FromJson;
use crate::resource::{PODS, Resource};
use crate::time::Time;
use crate::view::{Object, View};

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

impl View for Pod {
    const RESOURCE: Resource = PODS;
}

/// What is read of a pod's spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node it is bound to; empty while it is not.
    pub node_name: String,
    /// The name it has within its subdomain.
    pub hostname: String,
    /// The service that is its subdomain.
    pub subdomain: String,
    /// Containers.
    pub containers: Vec<Container>,
    /// Init containers, of which sidecars serve ports too.
    pub init_containers: Vec<Container>,
}

/// What is read of a container.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// `Always` for a sidecar among init containers.
    pub restart_policy: Option<String>,
    /// Its ports.
    pub ports: Vec<ContainerPort>,
}

/// What is read of a container's port.
#[derive(Clone, Debug, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// Name.
    pub name: String,
    /// The number.
    pub container_port: i32,
    /// Protocol.
    #[json(with = super::port::protocol)]
    pub protocol: String,
}

impl Default for ContainerPort {
    fn default() -> Self {
        Self { name: String::new(), container_port: 0, protocol: TCP.to_owned() }
    }
}

/// What is read of a pod's status.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: String,
    /// The first address.
    #[serde(rename = "podIP")]
    pub pod_ip: String,
    /// All addresses.
    #[serde(rename = "podIPs")]
    pub pod_ips: Vec<PodIp>,
    /// Conditions.
    pub conditions: Vec<DatedCondition>,
}

/// An address of a pod.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct PodIp {
    /// The address.
    pub ip: String,
}

/// The earliest change of a pod's readiness that is not known yet. What is known
/// of a pod is found by its uid.
pub fn first_news(pods: &[Object<Pod>], known: &LiteMap<&str, Option<bool>>) -> Option<Time> {
    let is_news = |pod: &&Object<Pod>| known.get(pod.metadata.uid.as_str()) != Some(&Some(pod.is_ready()));
    let news = pods.iter().filter(|pod| pod.has_endpoint()).filter(is_news);
    news.filter_map(|pod| pod.readiness_changed()).min()
}

impl Pod {
    fn ready_condition(&self) -> Option<&DatedCondition> {
        condition::find(&self.status.conditions, "Ready")
    }

    /// Whether it is ready.
    pub fn is_ready(&self) -> bool {
        condition::is_true(&self.status.conditions, "Ready")
    }

    /// When it last became ready, or ceased to be.
    pub fn readiness_changed(&self) -> Option<Time> {
        self.ready_condition()?.last_transition_time
    }

    /// Whether it has an address and has not ended. One that was asked to go
    /// still counts; whoever wants it left out asks for that.
    pub fn has_endpoint(&self) -> bool {
        let ended = pod::has_ended(&self.status.phase);
        let has_address = !self.status.pod_ip.is_empty() || !self.status.pod_ips.is_empty();
        has_address && !ended
    }

    /// Its addresses, in their usual form. What is no address is left out.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.status.pod_ips.iter().filter_map(|ip| address::parse(&ip.ip))
    }

    /// The reference to it from its endpoint.
    pub fn target(&self) -> Target {
        let ObjectMeta { namespace, name, uid, .. } = &self.metadata;
        Target {
            kind: PODS.kind.to_owned(),
            namespace: namespace.clone(),
            name: name.clone(),
            uid: uid.clone(),
            ..Target::default()
        }
    }

    /// The node it is bound to, if it is.
    pub fn node_name(&self) -> Option<String> {
        (!self.spec.node_name.is_empty()).then(|| self.spec.node_name.clone())
    }

    /// The name it has within a service, if the service is its subdomain.
    pub fn hostname_in(&self, service: &Service) -> Option<&str> {
        let within = self.spec.subdomain == service.metadata.name
            && self.metadata.namespace == service.metadata.namespace;
        (within && !self.spec.hostname.is_empty()).then_some(self.spec.hostname.as_str())
    }

    /// The number of the port that a service's port leads to; None where the pod
    /// has no port of that name.
    pub fn port_for(&self, port: &ServicePort) -> Option<i32> {
        let name = match &port.target_port {
            None => return Some(0),
            Some(IntOrString::Int(number)) => return Some(*number),
            Some(IntOrString::Text(name)) => name,
        };
        let is_sidecar = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
        let sidecars = self.spec.init_containers.iter().filter(is_sidecar);
        let mut ports = self.spec.containers.iter().chain(sidecars).flat_map(|container| &container.ports);
        let found = ports.find(|found| found.name == *name && found.protocol == port.protocol);
        found.map(|found| found.container_port)
    }
}
