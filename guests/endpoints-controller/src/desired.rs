//! The subsets that the pods of a service make.

use std::collections::HashMap;
use std::net::IpAddr;

use coxswain_sdk::endpoints::address::{Family, family_of};
use coxswain_sdk::endpoints::pod::Pod;
use coxswain_sdk::endpoints::service::Service;
use coxswain_sdk::endpoints::subsets::{Address, Subset, Subsets};

/// Subsets of these pods, in canonical form.
pub fn desired<'a>(service: &Service, pods: impl IntoIterator<Item = &'a Pod>) -> Vec<Subset> {
    let publishes_all = service.spec.publish_not_ready_addresses;
    let mut subsets = Subsets::default();
    // Many pods share few ports.
    let mut places: HashMap<(usize, i32), usize> = HashMap::new();
    for pod in pods {
        let goes = pod.metadata.is_deleting() && !publishes_all;
        if goes || !pod.has_endpoint() {
            continue;
        }
        // A pod may lack the family, while a cluster is changed to two of them.
        let Some(ip) = ip_for(service, pod) else { continue };
        let is_ready = publishes_all || pod.is_ready();
        let place = subsets.place(&address(service, pod, ip));
        if service.spec.ports.is_empty() && service.asks_for_no_address() {
            let none = subsets.port(None);
            subsets.add(place, none, is_ready);
        }
        for (which, port) in service.spec.ports.iter().enumerate() {
            let Some(number) = pod.port_for(port) else { continue };
            let found = places.entry((which, number));
            let port = *found.or_insert_with(|| subsets.port(Some(port.to(number))));
            subsets.add(place, port, is_ready);
        }
    }
    subsets.finish()
}

/// The address of a pod in the service's first family.
fn ip_for(service: &Service, pod: &Pod) -> Option<IpAddr> {
    let said = service.spec.ip_families.first().map(|name| Family::named(name).unwrap_or_default());
    // The API server fills the families in, but an old one may not have.
    let family = said.unwrap_or_else(|| {
        let text = if service.is_headless() { &pod.status.pod_ip } else { &service.spec.cluster_ip };
        family_of(text).unwrap_or_default()
    });
    pod.addresses().find(|ip| Family::of(*ip) == family)
}

fn address(service: &Service, pod: &Pod, ip: IpAddr) -> Address {
    Address {
        ip: ip.to_string(),
        hostname: pod.hostname_in(service).unwrap_or_default().to_owned(),
        node_name: pod.node_name(),
        target_ref: Some(pod.target()),
    }
}
