//! The endpoints that the pods of a service make.

use std::collections::HashMap;

use coxswain_sdk::endpoints::address::Family;
use coxswain_sdk::endpoints::pod::Pod;
use coxswain_sdk::endpoints::port::{self, In, Port, PortKey};
use coxswain_sdk::endpoints::service::Service;
use coxswain_sdk::endpoints::slice::{Conditions, Endpoint};
use coxswain_sdk::endpoints::wanted::Wanted;
use coxswain_sdk::{Ctx, Object, Result};
use litemap::LiteMap;

use crate::view::Node;

/// Endpoints that share their ports.
#[derive(Debug)]
pub struct Group {
    /// The ports.
    pub ports: Vec<Port>,
    /// The endpoints, of each family of the service.
    pub by_family: Vec<(Family, Wanted)>,
}

/// What is wanted for a service.
#[derive(Debug, Default)]
pub struct Desired {
    /// Endpoints by their ports, in the order of the first pod with them.
    pub groups: Vec<Group>,
    /// Which group has which ports.
    pub by_ports: LiteMap<PortKey, usize>,
    /// Pods left out since their node is not there, with that node.
    pub nodeless: Vec<(String, String)>,
}

/// Endpoints of these pods.
pub fn desired(ctx: &Ctx<'_>, service: &Service, pods: &[Object<Pod>]) -> Result<Desired> {
    let families = service.families();
    let mut nodes = Nodes::default();
    let mut desired = Desired::default();
    let mut nodeless = Vec::new();
    let mut groups = Groups::default();
    for pod in pods.iter().filter(|pod| pod.has_endpoint()) {
        let group = groups.of(&mut desired, service, pod, &families);
        let node = nodes.get(ctx, &pod.spec.node_name)?;
        if node.is_none() && !service.spec.publish_not_ready_addresses {
            // It comes back when the node appears; until then the others count.
            nodeless.push((pod.metadata.name.clone(), pod.spec.node_name.clone()));
            continue;
        }
        for (family, wanted) in &mut group.by_family {
            let addresses = pod.addresses().filter(|address| Family::of(*address) == *family);
            let addresses: Vec<String> = addresses.map(|address| address.to_string()).collect();
            if !addresses.is_empty() {
                wanted.insert(endpoint(service, pod, node.as_deref(), addresses));
            }
        }
    }
    Ok(Desired { nodeless, ..desired })
}

/// Groups by the numbers that a service's ports lead to. Many pods share few.
#[derive(Default)]
struct Groups(LiteMap<Vec<Option<i32>>, usize>);

impl Groups {
    fn of<'a>(
        &mut self,
        desired: &'a mut Desired,
        service: &Service,
        pod: &Pod,
        families: &[Family],
    ) -> &'a mut Group {
        let Desired { groups, by_ports, .. } = desired;
        let numbers: Vec<Option<i32>> = service.spec.ports.iter().map(|port| pod.port_for(port)).collect();
        let at = match self.0.get(&numbers) {
            Some(at) => *at,
            None => {
                let ports = ports(service, &numbers);
                let at = *by_ports.entry(PortKey::of(&ports)).or_insert_with(|| {
                    let by_family = families.iter().map(|family| (*family, Wanted::default())).collect();
                    groups.push(Group { ports, by_family });
                    groups.len() - 1
                });
                self.0.insert(numbers, at);
                at
            }
        };
        &mut groups[at]
    }
}

/// Nodes by name. Many pods share few of them.
#[derive(Default)]
struct Nodes(HashMap<String, Option<Object<Node>>>);

impl Nodes {
    fn get(&mut self, ctx: &Ctx<'_>, name: &str) -> Result<Option<Object<Node>>> {
        if name.is_empty() {
            return Ok(None);
        }
        if let Some(known) = self.0.get(name) {
            return Ok(known.clone());
        }
        let node = ctx.get::<Node>("", name)?;
        self.0.insert(name.to_owned(), node.clone());
        Ok(node)
    }
}

fn endpoint(service: &Service, pod: &Pod, node: Option<&Node>, addresses: Vec<String>) -> Endpoint {
    let serving = pod.is_ready();
    let terminating = pod.metadata.is_deleting();
    // One that goes is not ready, lest it be sent new connections.
    let ready = service.spec.publish_not_ready_addresses || (serving && !terminating);
    Endpoint {
        addresses,
        conditions: Conditions { ready: Some(ready), serving: Some(serving), terminating: Some(terminating) },
        hostname: pod.hostname_in(service).map(str::to_owned),
        target_ref: Some(pod.target()),
        node_name: pod.node_name(),
        zone: node.and_then(Node::zone).map(str::to_owned),
        hints: None,
    }
}

/// Ports of a service that lead to these numbers. A port whose name the pod does
/// not know is left out; a headless service needs none.
fn ports(service: &Service, numbers: &[Option<i32>]) -> Vec<Port> {
    let ports = service.spec.ports.iter().zip(numbers);
    port::in_order(ports.filter_map(|(port, number)| Some(port.to((*number)?))), In::Slice)
}
