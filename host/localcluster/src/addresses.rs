//! One IPAddress for each address of a service, as the real server's allocator keeps them.
//!
//! In: watch events of services. Out: IPAddresses created and deleted. Invariant: one that names a service that has the
//! address stays; those of other managers are left alone. Upstream: KEP-1880.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::kinds::value::{items, text};
use crate::rest::options::{DeleteOptions, ListOptions};
use crate::rest::{InProcess, Target, WatchEvent, keep_following};

/// Value of the label that says who manages an address.
const MANAGER: &str = "ipallocator.k8s.io";
const ADDRESSES: Target<'static> = Target::new("networking.k8s.io/v1", "ipaddresses");

/// Namespace and name of a service.
type ServiceName = (String, String);

/// Runs until cancelled.
pub async fn run(api: InProcess, cancel: CancellationToken) {
    keep_following(cancel, || follow(&api)).await;
}

async fn follow(api: &InProcess) {
    let mut known: HashMap<ServiceName, BTreeSet<IpAddr>> = HashMap::new();
    if let Ok((addresses, _)) = api.list(&ADDRESSES, "", "").await {
        for address in addresses.iter().filter(|a| is_ours(a)) {
            if let Ok(ip) = text(&address["metadata"], "name").parse() {
                let parent = &address["spec"]["parentRef"];
                let service = (text(parent, "namespace").to_owned(), text(parent, "name").to_owned());
                known.entry(service).or_default().insert(ip);
            }
        }
    }
    // Services that went while nobody looked.
    let gone: Vec<_> = known.keys().filter(|name| !exists(api, name)).cloned().collect();
    for service in gone {
        settle(api, &mut known, service, BTreeSet::new());
    }
    let mut watching = match api.watch(&Target::new("v1", "services"), &ListOptions::default()) {
        Ok(watching) => watching,
        Err(error) => {
            tracing::warn!(%error, "services cannot be watched");
            return;
        }
    };
    while let Some(event) = watching.next().await {
        match event {
            WatchEvent::Added(service) | WatchEvent::Modified(service) => {
                let wanted = addresses(&service);
                settle(api, &mut known, name(&service), wanted);
            }
            WatchEvent::Deleted(service) => settle(api, &mut known, name(&service), BTreeSet::new()),
            WatchEvent::Bookmark(..) => {}
            WatchEvent::Error(_) => return,
        }
    }
}

fn is_ours(address: &Value) -> bool {
    address["metadata"]["labels"]["ipaddress.kubernetes.io/managed-by"] == MANAGER
}

fn exists(api: &InProcess, (namespace, name): &ServiceName) -> bool {
    api.get(&Target::new("v1", "services").in_namespace(namespace).named(name)).is_ok()
}

fn name(service: &Value) -> ServiceName {
    let meta = &service["metadata"];
    (text(meta, "namespace").to_owned(), text(meta, "name").to_owned())
}

fn addresses(service: &Value) -> BTreeSet<IpAddr> {
    items(&service["spec"], "clusterIPs").iter().filter_map(|ip| ip.as_str()?.parse().ok()).collect()
}

fn settle(
    api: &InProcess,
    known: &mut HashMap<ServiceName, BTreeSet<IpAddr>>,
    service: ServiceName,
    wanted: BTreeSet<IpAddr>,
) {
    let had = known.remove(&service).unwrap_or_default();
    for ip in had.difference(&wanted) {
        let text = ip.to_string();
        match api.delete(&ADDRESSES.named(&text), &DeleteOptions::default()) {
            Err(error) if error.code != 404 => tracing::warn!(%error, %ip, "an address is not given back"),
            _ => {}
        }
    }
    for ip in wanted.difference(&had) {
        let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
        let (namespace, name) = &service;
        let address = json!({
            "metadata": {"name": ip.to_string(), "labels": {
                "ipaddress.kubernetes.io/ip-family": family,
                "ipaddress.kubernetes.io/managed-by": MANAGER,
            }},
            "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": name}},
        });
        match api.create(&ADDRESSES, &address) {
            Err(error) if error.code != 409 => tracing::warn!(%error, %ip, "an address is not noted"),
            _ => {}
        }
    }
    if !wanted.is_empty() {
        known.insert(service, wanted);
    }
}
