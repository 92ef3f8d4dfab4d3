//! Who answers a request: the copy, or the cluster.

use std::sync::Arc;

use coxswain_localcluster::rest::{
    path::{Route, route},
    strategy::Kind,
};
use http::Method;

use crate::api::is_review;

/// Who answers.
#[derive(Debug)]
pub(super) enum Way {
    /// The copy, for a resource it knows.
    Here {
        /// What kind.
        kind: Arc<Kind>,
        /// Whether it is an event.
        event: bool,
    },
    /// A resource that the copy does not know.
    Unknown,
    /// The cluster.
    Cluster,
    /// Nobody: it would change something that is not copied.
    Nowhere,
}

/// Subresources that are no part of an object: a node or another server answers.
const ELSEWHERE: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// Who answers a request.
pub(super) fn way(
    method: &Method,
    path: &str,
    find: impl Fn((&str, &str, &str)) -> Option<Arc<Kind>>,
) -> Way {
    let reads = method == Method::GET;
    if method == Method::POST && is_review(path) {
        return Way::Cluster;
    }
    match route(path) {
        Some(Route::Resource(resource)) => {
            let elsewhere = resource.sub.as_deref().is_some_and(|sub| ELSEWHERE.contains(&sub));
            match find((&resource.group, &resource.version, &resource.plural)) {
                Some(_) if elsewhere && reads => Way::Cluster,
                Some(_) if elsewhere => Way::Nowhere,
                Some(kind) => Way::Here { event: kind.storage.plural == "events", kind },
                None => Way::Unknown,
            }
        }
        _ if reads => Way::Cluster,
        _ => Way::Nowhere,
    }
}
