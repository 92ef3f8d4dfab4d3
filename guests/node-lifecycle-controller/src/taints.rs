//! The taints that follow from what a node says.
//!
//! In: a node. Out: the list of taints as it is to be. Taints that are not ours
//! stay as and where they are.

use coxswain_sdk::Time;
use coxswain_sdk::taints::{
    DISK_PRESSURE, MEMORY_PRESSURE, NETWORK_UNAVAILABLE, NO_EXECUTE, NO_SCHEDULE, NOT_READY, PID_PRESSURE,
    Taint, UNREACHABLE, UNSCHEDULABLE, has,
};

use crate::view::{Node, READY, UNKNOWN};

/// Status of which condition gives which taint.
const BY_CONDITION: [(&str, &str, &str); 6] = [
    (READY, "False", NOT_READY),
    (READY, UNKNOWN, UNREACHABLE),
    ("MemoryPressure", "True", MEMORY_PRESSURE),
    ("DiskPressure", "True", DISK_PRESSURE),
    ("NetworkUnavailable", "True", NETWORK_UNAVAILABLE),
    ("PIDPressure", "True", PID_PRESSURE),
];

/// The taints that keep pods away, as the node's conditions and its spec have
/// it; those that evict, as far as no rate limits them: a node that is ready
/// again loses them, and "not ready" and "unreachable" turn into each other.
pub fn follow(node: &Node, now: Time) -> Vec<Taint> {
    let mut taints = node.spec.taints.clone();
    let wanted = wanted_no_schedule(node);
    taints.retain(|taint| {
        taint.effect != NO_SCHEDULE || !is_ours(&taint.key) || wanted.contains(&taint.key.as_str())
    });
    for key in wanted {
        put(&mut taints, key, NO_SCHEDULE, now);
    }
    match node.ready().map(|ready| ready.status.as_str()) {
        Some("True") => remove_evicting(&mut taints),
        Some(_) => {
            if let Some((wanted, opposite)) = evicting(node)
                && has(&taints, opposite, NO_EXECUTE)
            {
                taints.retain(|taint| !taint.is(opposite, NO_EXECUTE));
                put(&mut taints, wanted, NO_EXECUTE, now);
            }
        }
        None => {}
    }
    taints
}

/// Keys of the taint that evicts the pods of this node, and of the one that it
/// excludes. None while it is ready, or was never told to be anything.
pub fn evicting(node: &Node) -> Option<(&'static str, &'static str)> {
    match node.ready()?.status.as_str() {
        "False" => Some((NOT_READY, UNREACHABLE)),
        UNKNOWN => Some((UNREACHABLE, NOT_READY)),
        _ => None,
    }
}

/// Puts a taint on, unless it is there.
pub fn put(taints: &mut Vec<Taint>, key: &str, effect: &str, now: Time) {
    if !has(taints, key, effect) {
        taints.push(Taint::new(key, effect, now));
    }
}

/// Takes the taints off that evict pods because of the node's health.
pub fn remove_evicting(taints: &mut Vec<Taint>) {
    taints.retain(|taint| !taint.is(NOT_READY, NO_EXECUTE) && !taint.is(UNREACHABLE, NO_EXECUTE));
}

fn is_ours(key: &str) -> bool {
    key == UNSCHEDULABLE || BY_CONDITION.iter().any(|(_, _, of_condition)| *of_condition == key)
}

fn wanted_no_schedule(node: &Node) -> Vec<&'static str> {
    let mut wanted = Vec::new();
    for condition in &node.status.conditions {
        let given = BY_CONDITION
            .iter()
            .filter(|(kind, status, _)| *kind == condition.kind && *status == condition.status)
            .map(|(_, _, key)| *key);
        wanted.extend(given);
    }
    if node.spec.unschedulable {
        wanted.push(UNSCHEDULABLE);
    }
    wanted
}
