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

use std::time::Duration;

use crate::plan::Plan;

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

/// Milliseconds after a write in which what changes is gathered, whatever the batch period.
const GATHERED: u32 = 100;

/// Holds back for the batch period what does not come from the service itself, and after a write for a moment in any
/// case: pods that become ready one after another would otherwise cost a write each, of an object that grows with
/// them. What changes after a time of quiet is written at once.
pub fn gather(plan: &mut Plan, batch: Duration) {
    let batch = u32::try_from(batch.as_millis()).unwrap_or(u32::MAX);
    plan.quiet(if plan.writes() { batch.max(GATHERED) } else { batch });
}
