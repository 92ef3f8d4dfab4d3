//! How the use of each kind of resource is counted.
//!
//! Each evaluator says which names of a quota it counts, and adds up what the
//! objects of a namespace use.

pub mod claims;
pub mod devices;
pub mod objects;
pub mod pod_view;
pub mod pods;
pub mod requirements;
pub mod services;

/// Name under which the objects of a resource are counted.
pub fn object_count(resource: &str, group: &str) -> String {
    if group.is_empty() { format!("count/{resource}") } else { format!("count/{resource}.{group}") }
}

/// Prefix of what is requested.
pub const REQUESTS: &str = "requests.";
/// Prefix of the resource that stands for the devices of a class.
pub const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

/// Whether a name is of Kubernetes' own resources.
pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether a name in a quota stands for requests of an extended resource.
pub fn is_extended_request(name: &str) -> bool {
    name.strip_prefix(REQUESTS).is_some_and(|resource| !is_native(name) || resource.starts_with(DEVICE_CLASS))
}
