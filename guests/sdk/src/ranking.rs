//! Which pods to delete first.
//!
//! In: pods and, for each, how many related pods share its node. Out: the same
//! pods, those to delete first in front. The order is kube-controller-manager's:
//! unassigned, pending, not ready, cheap, doubled up on a node, ready for a
//! shorter time, restarted more often, younger.

use crate::pod::Pod;
use crate::time::Time;

/// Sorts pods so that those to delete first come first. `rank` gives the number
/// of related pods on the pod's node.
pub fn sort_for_deletion<P: AsRef<Pod>>(pods: Vec<P>, rank: impl Fn(&Pod) -> usize, now: Time) -> Vec<P> {
    let ranked = pods.into_iter().map(|pod| Ranked { rank: rank(pod.as_ref()), pod }).collect();
    let less =
        |a: &Ranked<P>, b: &Ranked<P>| goes_before(a.pod.as_ref(), a.rank, b.pod.as_ref(), b.rank, now);
    merge_sort(ranked, &less).into_iter().map(|ranked| ranked.pod).collect()
}

struct Ranked<P> {
    rank: usize,
    pod: P,
}

/// Whether pod `a` is to be deleted before pod `b`.
fn goes_before(a: &Pod, a_rank: usize, b: &Pod, b_rank: usize, now: Time) -> bool {
    let (a_node, b_node) = (&a.spec.node_name, &b.spec.node_name);
    if a_node.is_empty() != b_node.is_empty() {
        return a_node.is_empty();
    }
    let (a_phase, b_phase) = (progress(&a.status.phase), progress(&b.status.phase));
    if a_phase != b_phase {
        return a_phase < b_phase;
    }
    if a.is_ready() != b.is_ready() {
        return !a.is_ready();
    }
    let (a_cost, b_cost) = (a.metadata.annotations.value(), b.metadata.annotations.value());
    if a_cost != b_cost {
        return a_cost < b_cost;
    }
    if a_rank != b_rank {
        return a_rank > b_rank;
    }
    // Both are ready or neither is; then neither has a time.
    if a.ready_since() != b.ready_since() {
        return younger(a, a.ready_since(), b, b.ready_since(), now);
    }
    if a.restarts() != b.restarts() {
        return a.restarts() > b.restarts();
    }
    let (a_made, b_made) = (a.metadata.creation_timestamp, b.metadata.creation_timestamp);
    a_made != b_made && younger(a, a_made, b, b_made, now)
}

/// How far a pod in this phase has come: pending, unknown, running.
pub fn progress(phase: &str) -> u8 {
    match phase {
        "Unknown" => 1,
        "Running" => 2,
        _ => 0,
    }
}

/// Which of two different times is the more recent, in powers of two of their
/// age. Within one power the uids decide, which spreads the deletions: not
/// always the newest go.
fn younger(a: &Pod, a_time: Option<Time>, b: &Pod, b_time: Option<Time>, now: Time) -> bool {
    let (Some(a_time), Some(b_time)) = (a_time, b_time) else { return a_time.is_none() };
    let (a_age, b_age) = (magnitude(a_time, now), magnitude(b_time, now));
    if a_age == b_age { a.metadata.uid < b.metadata.uid } else { a_age < b_age }
}

/// Binary logarithm of the age in nanoseconds, rounded down; -1 if it has none.
fn magnitude(time: Time, now: Time) -> i32 {
    let age = now.since(time).as_nanos();
    if age == 0 { -1 } else { age.ilog2().cast_signed() }
}

/// The order above is no total order: three pods can go in a circle, where one
/// pair is told apart by uid and another by restarts. The standard sorts may
/// panic on that; this one gives some order, the same each time.
fn merge_sort<T>(mut items: Vec<T>, less: &impl Fn(&T, &T) -> bool) -> Vec<T> {
    if items.len() < 2 {
        return items;
    }
    let right = merge_sort(items.split_off(items.len() / 2), less);
    let left = merge_sort(items, less);
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        let next = if less(b, a) { right.next() } else { left.next() };
        merged.extend(next);
    }
    merged.extend(left);
    merged.extend(right);
    merged
}

impl AsRef<Pod> for Pod {
    fn as_ref(&self) -> &Pod {
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-01-01T12:00:00Z";

    fn pod(name: &str, change: Value) -> Pod {
        let mut pod = json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "n"},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}],
            },
        });
        crate::merge::apply(&mut pod, &change);
        serde_json::from_value(pod).unwrap()
    }

    fn ready(since: &str) -> Value {
        json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]}})
    }

    fn order(pods: Vec<Pod>, rank: impl Fn(&Pod) -> usize) -> Vec<String> {
        let now = Time::parse(NOW).unwrap();
        let sorted = sort_for_deletion(pods.clone(), &rank, now);
        let mut reversed = pods;
        reversed.reverse();
        let again = sort_for_deletion(reversed, &rank, now);
        let names = |pods: Vec<Pod>| pods.into_iter().map(|pod| pod.metadata.name).collect::<Vec<_>>();
        let sorted = names(sorted);
        assert_eq!(sorted, names(again), "the order depends on where it starts");
        sorted
    }

    #[test]
    fn each_rule_beats_those_after_it() {
        let restarted = json!({"status": {"containerStatuses": [{"name": "c", "restartCount": 3}]}});
        // Each pod is worse off than the next by one rule, and better by all later ones.
        let pods = vec![
            pod("1-unassigned", json!({"spec": {"nodeName": ""}})),
            pod("2-pending", json!({"status": {"phase": "Pending"}})),
            pod("3-unknown", json!({"status": {"phase": "Unknown"}})),
            pod("4-not-ready", json!({"status": {"conditions": []}})),
            pod(
                "5-cheap",
                json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}}),
            ),
            pod("6-crowded", json!({"spec": {"nodeName": "crowded"}})),
            pod("7-ready-recently", ready("2026-01-01T11:59:59Z")),
            pod("8-restarted", restarted),
            pod("9-young", json!({"metadata": {"creationTimestamp": "2026-01-01T11:59:00Z"}})),
            pod("9-z-old", json!({})),
            pod(
                "9-zz-dear",
                json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "7"}}}),
            ),
        ];
        let names: Vec<String> = pods.iter().map(|pod| pod.metadata.name.clone()).collect();
        assert_eq!(order(pods, |pod| usize::from(pod.spec.node_name == "crowded")), names);
    }

    #[test]
    fn ages_of_one_magnitude_are_told_apart_by_uid() {
        // 11 h and 12 h are the same power of two in nanoseconds; 1 h is not.
        let pods = vec![
            pod("c", ready("2026-01-01T11:00:00Z")),
            pod("a", ready("2026-01-01T00:00:00Z")),
            pod("b", ready("2026-01-01T01:00:00Z")),
        ];
        assert_eq!(order(pods, |_| 0), ["c", "a", "b"]);
    }

    #[test]
    fn sidecars_break_the_tie_of_restarts() {
        let init = json!([{"name": "side", "restartPolicy": "Always"}]);
        let side = |count: i32| json!({"spec": {"initContainers": init}, "status": {"initContainerStatuses": [{"name": "side", "restartCount": count}]}});
        assert_eq!(order(vec![pod("a", side(1)), pod("b", side(2))], |_| 0), ["b", "a"]);
    }

    #[test]
    fn a_circle_does_not_panic() {
        let circle: Vec<Pod> = (0..50)
            .map(|i| {
                let since = if i % 3 == 0 { "2026-01-01T01:00:00Z" } else { "2026-01-01T02:00:00Z" };
                let mut change = ready(since);
                change["metadata"] = json!({"uid": format!("{}", (i * 7) % 50)});
                change["status"]["containerStatuses"] = json!([{"name": "c", "restartCount": i % 5}]);
                pod(&format!("p{i}"), change)
            })
            .collect();
        let sorted = sort_for_deletion(circle, |_| 0, Time::parse(NOW).unwrap());
        assert_eq!(sorted.len(), 50);
    }
}
