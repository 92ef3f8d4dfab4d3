//! What a pod as a whole requests and is limited to.
//!
//! Rules: containers add up; an init container needs what it asks for together
//! with the sidecars started before it; a container that is being resized counts
//! for the most of what it asks for, was granted and has; resources set for the
//! whole pod take the place of the sum; the overhead comes on top.

use super::pod_view::{Container, ContainerStatus, RawPod, RawStatus as PodStatus, Resources};
use crate::list::List;

/// Resources that may be set for the whole pod.
fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// What the pod requests.
pub fn requests(pod: &RawPod) -> List {
    let infeasible = is_resize_infeasible(pod);
    let mut sum = aggregate(pod, |container, status| {
        let requests = &container.resources.requests;
        let Some((status, actual)) = in_force(status) else { return requests.clone() };
        let mut effective = if infeasible { List::default() } else { requests.clone() };
        effective.raise(&actual.requests);
        effective.raise(&status.allocated_resources);
        effective
    });
    if let Some(whole) = &pod.spec.resources {
        set_pod_level(&mut sum, &whole.requests);
    }
    sum.add_all(&pod.spec.overhead);
    sum
}

/// What the pod is limited to.
pub fn limits(pod: &RawPod) -> List {
    let infeasible = is_resize_infeasible(pod);
    let mut sum = aggregate(pod, |container, status| {
        let limits = &container.resources.limits;
        let Some((_, actual)) = in_force(status) else { return limits.clone() };
        let mut effective = if infeasible { List::default() } else { limits.clone() };
        effective.raise(&actual.limits);
        effective
    });
    if let Some(whole) = &pod.spec.resources {
        set_pod_level(&mut sum, &whole.limits);
    }
    for (name, overhead) in pod.spec.overhead.iter() {
        if sum.get(name).is_some_and(|limit| !limit.is_zero()) {
            sum.add(name, overhead);
        }
    }
    sum
}

/// A status that says what the container has.
fn in_force(status: Option<&ContainerStatus>) -> Option<(&ContainerStatus, &Resources)> {
    status.and_then(|status| Some((status, status.resources.as_ref()?)))
}

fn is_resize_infeasible(pod: &RawPod) -> bool {
    let mut conditions = pod.status.conditions.iter();
    conditions.find(|c| c.kind == "PodResizePending").is_some_and(|c| c.reason == "Infeasible")
}

fn set_pod_level(sum: &mut List, whole: &List) {
    for (name, quantity) in whole.iter().filter(|(name, _)| is_pod_level(name)) {
        sum.set(name, quantity);
    }
}

fn aggregate(pod: &RawPod, of: impl Fn(&Container, Option<&ContainerStatus>) -> List) -> List {
    let of = |container: &Container, started: bool| {
        let PodStatus { container_statuses, init_container_statuses, .. } = &pod.status;
        let mut statuses = container_statuses.iter().chain(init_container_statuses).filter(|_| started);
        of(container, statuses.find(|status| status.name == container.name))
    };
    let mut sum = List::default();
    for container in &pod.spec.containers {
        sum.add_all(&of(container, true));
    }
    let (mut sidecars, mut highest) = (List::default(), List::default());
    for container in &pod.spec.init_containers {
        let is_sidecar = container.restart_policy.as_deref() == Some("Always");
        let mut own = of(container, is_sidecar);
        if is_sidecar {
            sum.add_all(&own);
            sidecars.add_all(&own);
            highest.raise(&sidecars);
        } else {
            own.add_all(&sidecars);
            highest.raise(&own);
        }
    }
    sum.raise(&highest);
    sum
}
