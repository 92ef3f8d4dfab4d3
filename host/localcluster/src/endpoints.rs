//! What stands behind a service.

use serde_json::Value;

use crate::kinds::value::{items, text};
use crate::rest::strategy::Lookup;

/// The slices of a service.
pub(crate) fn slices(lookup: &dyn Lookup, namespace: &str, service: &str) -> Vec<Value> {
    let mut slices = lookup.list("discovery.k8s.io", "endpointslices", namespace);
    slices.retain(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == service);
    slices
}

/// The number of a port, by its name, of a slice or a subset of Endpoints.
pub(crate) fn port(of: &Value, name: &str) -> Option<u16> {
    let port = items(of, "ports").iter().find(|port| text(port, "name") == name)?;
    port["port"].as_u64()?.try_into().ok()
}

/// Addresses of a slice that take requests at a port.
pub(crate) fn ready<'a>(slice: &'a Value, port_name: &str) -> impl Iterator<Item = (String, u16)> + 'a {
    let number = port(slice, port_name);
    let ready = items(slice, "endpoints").iter().filter(|endpoint| endpoint["conditions"]["ready"] != false);
    ready.filter_map(move |endpoint| Some((endpoint["addresses"][0].as_str()?.to_owned(), number?)))
}
