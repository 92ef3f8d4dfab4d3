//! The cache as a reconcile sees it.
//!
//! A trait, so that the same reconcile runs in the host (against the component's
//! imports) and in tests (against objects in memory).

use crate::contract::{Level, ObjectRef, Query, ResourceInfo};

/// What a reconcile may read; see `wit/snapshot.wit` for what each call
/// promises and what it subscribes to.
pub trait Snapshot {
    /// All resources of the cluster.
    fn resources(&self) -> Vec<ResourceInfo>;
    /// Moves whenever [`Snapshot::resources`] would answer otherwise.
    fn resources_version(&self) -> u32;
    /// The object of this name.
    fn get(&self, resource: u32, namespace: &str, name: &str) -> Result<Option<ObjectRef>, String>;
    /// The objects that a query finds, by namespace and name.
    fn list(&self, query: &Query) -> Result<Vec<ObjectRef>, String>;
    /// Their content, in the order asked for.
    fn read(&self, refs: &[ObjectRef]) -> Result<Vec<String>, String>;
    /// Writes a line to the manager's log.
    fn log(&self, level: Level, message: &str);
}

/// The host's snapshot, through the component's imports.
#[cfg(target_family = "wasm")]
#[derive(Clone, Copy, Debug, Default)]
pub struct HostSnapshot;

#[cfg(target_family = "wasm")]
impl Snapshot for HostSnapshot {
    fn resources(&self) -> Vec<ResourceInfo> {
        crate::bindings::coxswain::controller::snapshot::resources()
    }

    fn resources_version(&self) -> u32 {
        crate::bindings::coxswain::controller::snapshot::resources_version()
    }

    fn get(&self, resource: u32, namespace: &str, name: &str) -> Result<Option<ObjectRef>, String> {
        crate::bindings::coxswain::controller::snapshot::get(resource, namespace, name)
    }

    fn list(&self, query: &Query) -> Result<Vec<ObjectRef>, String> {
        crate::bindings::coxswain::controller::snapshot::list(query)
    }

    fn read(&self, refs: &[ObjectRef]) -> Result<Vec<String>, String> {
        crate::bindings::coxswain::controller::snapshot::read(refs)
    }

    fn log(&self, level: Level, message: &str) {
        crate::bindings::coxswain::controller::log::log(level, message);
    }
}
