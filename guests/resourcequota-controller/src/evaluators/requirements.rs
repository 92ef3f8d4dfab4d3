//! What a pod as a whole requests and is limited to.
//!
//! Rules: containers add up; an init container needs what it asks for together
//! with the sidecars started before it; a container that is being resized counts
//! for the most of what it asks for, was granted and has; resources set for the
//! whole pod take the place of the sum; the overhead comes on top.

use std::collections::BTreeMap;

use super::pod_view::{Container, ContainerStatus, RawPod, Resources};
use crate::list::{self, List};

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
        let mut effective = if infeasible { List::new() } else { requests.clone() };
        list::raise(&mut effective, &actual.requests);
        list::raise(&mut effective, &status.allocated_resources);
        effective
    });
    if let Some(whole) = &pod.spec.resources {
        set_pod_level(&mut sum, &whole.requests);
    }
    list::add(&mut sum, &pod.spec.overhead);
    sum
}

/// What the pod is limited to.
pub fn limits(pod: &RawPod) -> List {
    let infeasible = is_resize_infeasible(pod);
    let mut sum = aggregate(pod, |container, status| {
        let limits = &container.resources.limits;
        let Some((_, actual)) = in_force(status) else { return limits.clone() };
        let mut effective = if infeasible { List::new() } else { limits.clone() };
        list::raise(&mut effective, &actual.limits);
        effective
    });
    if let Some(whole) = &pod.spec.resources {
        set_pod_level(&mut sum, &whole.limits);
    }
    for (name, overhead) in &pod.spec.overhead {
        if let Some(limit) = sum.get_mut(name).filter(|limit| !limit.is_zero()) {
            *limit += *overhead;
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
        sum.insert(name.clone(), *quantity);
    }
}

fn aggregate(pod: &RawPod, of: impl Fn(&Container, Option<&ContainerStatus>) -> List) -> List {
    let statuses = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    let statuses: BTreeMap<&str, &ContainerStatus> = statuses.map(|status| (&*status.name, status)).collect();
    let of = |container: &Container, started: bool| {
        of(container, statuses.get(&*container.name).copied().filter(|_| started))
    };
    let mut sum = List::new();
    for container in &pod.spec.containers {
        list::add(&mut sum, &of(container, true));
    }
    let (mut sidecars, mut highest) = (List::new(), List::new());
    for container in &pod.spec.init_containers {
        let is_sidecar = container.restart_policy.as_deref() == Some("Always");
        let mut own = of(container, is_sidecar);
        if is_sidecar {
            list::add(&mut sum, &own);
            list::add(&mut sidecars, &own);
            list::raise(&mut highest, &sidecars);
        } else {
            list::add(&mut own, &sidecars);
            list::raise(&mut highest, &own);
        }
    }
    list::raise(&mut sum, &highest);
    sum
}
