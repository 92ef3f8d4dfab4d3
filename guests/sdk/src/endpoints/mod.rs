//! Services, the pods behind them, and where their addresses are written:
//! Endpoints and EndpointSlices.
//!
//! In: services, pods, Endpoints and slices of the cache. Out: which addresses
//! belong where, and the fewest writes that get there. Shared by the controllers
//! that write such objects, so that they agree about what an address is, which
//! ports belong together and when an endpoint has changed.
//!
//! Invariants: an endpoint is in at most one slice of its ports and family; a
//! slice that need not change is not touched; nothing here is slower than the
//! number of endpoints, but for sorting.

pub mod address;
pub mod draft;
pub mod pack;
pub mod pod;
pub mod port;
pub mod service;
pub mod slice;
pub mod subsets;
#[cfg(test)]
mod tests;
pub mod wanted;

/// The label that names the service of a slice.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label that names the controller of a slice.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The label of what belongs to a headless service.
pub const HEADLESS: &str = "service.kubernetes.io/headless";
/// The annotation that says which change led to a write.
pub const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// The annotation that marks an object as a lock of leader election.
pub const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
