//! Pods: their number, what they request and what they are limited to.

use coxswain_sdk::{Object, Time};

use super::pod_view::Pod;
use super::{DEVICE_CLASS, REQUESTS, is_extended_request, is_native};
use crate::list::{self, List};
use crate::scopes;
use crate::view::ScopeRequirement;

/// All pods, ended ones included.
const OBJECTS: &str = "count/pods";
/// Resources with a request of their own name, and a limit.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const HUGE_PAGES: &str = "hugepages-";

/// Whether a name of a quota is counted from pods.
pub fn counts(name: &str) -> bool {
    let plain = name.strip_prefix(REQUESTS).unwrap_or(name);
    let limited = name.strip_prefix("limits.").unwrap_or(plain);
    matches!(name, OBJECTS | "pods")
        || COMPUTE.contains(&limited)
        || plain.starts_with(HUGE_PAGES)
        || is_extended_request(name)
}

/// What a pod of a namespace uses.
pub fn usage<'a>(pods: impl IntoIterator<Item = &'a Pod>, all: usize, now: Time) -> List {
    let (mut number, mut requests, mut limits) = (0, List::default(), List::default());
    for pod in pods.into_iter().filter(|pod| is_charged(pod, now)) {
        number += 1;
        requests.add_all(&pod.requests);
        limits.add_all(&pod.limits);
    }
    let mut used = List::default();
    used.set(OBJECTS, list::count(all));
    used.set("pods", list::count(number));
    for (name, quantity) in requests.iter() {
        let compute = COMPUTE.contains(&name) || name.starts_with(HUGE_PAGES);
        if compute || !is_native(name) && !name.starts_with(REQUESTS) || name.starts_with(DEVICE_CLASS) {
            used.set(&[REQUESTS, name].concat(), quantity);
        }
        if compute {
            used.set(name, quantity);
        }
    }
    for (name, quantity) in limits.iter().filter(|(name, _)| COMPUTE.contains(name)) {
        used.set(&["limits.", name].concat(), quantity);
    }
    used
}

/// What the pods of a namespace use that are in all scopes.
pub fn usage_in_scopes(pods: &[Object<Pod>], scopes: &[ScopeRequirement], now: Time) -> List {
    let counted = scopes::counted(pods.iter().map(AsRef::as_ref), scopes, fits);
    let all = counted.len();
    usage(counted, all, now)
}

/// A pod that has ended is charged for no more, nor one that should long have
/// gone: its node may be lost.
fn is_charged(pod: &Pod, now: Time) -> bool {
    !pod.is_terminal && pod.overdue.is_none_or(|overdue| now <= overdue)
}

/// When a pod that counts now will not any more.
pub fn next_overdue(pods: &[Object<Pod>], now: Time) -> Option<Time> {
    let charged = pods.iter().filter(|pod| is_charged(pod, now));
    charged.filter_map(|pod| pod.overdue).min()
}

fn fits(pod: &Pod, requirement: &ScopeRequirement) -> Result<bool, String> {
    match requirement.scope_name.as_str() {
        "Terminating" => Ok(pod.has_deadline),
        "NotTerminating" => Ok(!pod.has_deadline),
        "BestEffort" => Ok(pod.is_best_effort),
        "NotBestEffort" => Ok(!pod.is_best_effort),
        "CrossNamespacePodAffinity" => Ok(pod.is_cross_namespace),
        "PriorityClass" if pod.priority_class.is_empty() => scopes::fits(requirement, &[]),
        "PriorityClass" => scopes::fits(requirement, &[&pod.priority_class]),
        _ => Ok(false),
    }
}
