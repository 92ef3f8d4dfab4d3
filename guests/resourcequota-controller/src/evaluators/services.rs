//! Services: their number, load balancers and node ports.

use coxswain_sdk::resource::SERVICES;
use coxswain_sdk::{FromJson, Object, Resource, View};
use serde_json::Value;

use crate::list::{self, List};

/// A service.
#[derive(Debug, Default, FromJson)]
#[serde(default)]
pub struct Service {
    spec: Spec,
}

impl View for Service {
    const RESOURCE: Resource = SERVICES;
}

#[derive(Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(rename = "type")]
    kind: String,
    ports: Vec<Value>,
    allocate_load_balancer_node_ports: Option<bool>,
}

/// Whether a name of a quota is counted from services.
pub fn counts(name: &str) -> bool {
    matches!(name, "count/services" | "services" | "services.nodeports" | "services.loadbalancers")
}

/// What the services of a namespace use.
pub fn usage(services: &[Object<Service>]) -> List {
    let balancers = services.iter().filter(|service| service.spec.kind == "LoadBalancer").count();
    let ports = services.iter().map(|service| node_ports(&service.spec)).sum();
    let mut used = List::default();
    used.set("count/services", list::count(services.len()));
    used.set("services", list::count(services.len()));
    used.set("services.loadbalancers", list::count(balancers));
    used.set("services.nodeports", list::count(ports));
    used
}

/// Node ports that a service has or is about to get.
fn node_ports(spec: &Spec) -> usize {
    match spec.kind.as_str() {
        "NodePort" => spec.ports.len(),
        "LoadBalancer" if spec.allocate_load_balancer_node_ports == Some(false) => {
            spec.ports.iter().filter(|port| port["nodePort"].as_i64().unwrap_or(0) != 0).count()
        }
        "LoadBalancer" => spec.ports.len(),
        _ => 0,
    }
}
