//! The time of the change that leads to a write, for the annotation from which
//! the latency of the network is measured.

use coxswain_sdk::endpoints::pod::{Pod, first_news};
use coxswain_sdk::endpoints::service::Service;
use coxswain_sdk::sort::lite_map_of_many;
use coxswain_sdk::{Object, Time};

use crate::view::Slice;

/// The earliest change of a pod's readiness that these slices do not show yet.
/// A service without slices is itself the change. None where pods went, or where
/// what changed has no time.
///
/// It is derived from the slices rather than remembered, so it is as right after
/// a restart as before.
pub fn trigger_time(service: &Service, slices: &[Object<Slice>], pods: &[Object<Pod>]) -> Option<Time> {
    if slices.is_empty() {
        return service.metadata.creation_timestamp;
    }
    let endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
    let known = endpoints.filter_map(|endpoint| {
        Some((endpoint.target_ref.as_ref()?.uid.as_str(), endpoint.conditions.serving))
    });
    first_news(pods, &lite_map_of_many(known))
}
