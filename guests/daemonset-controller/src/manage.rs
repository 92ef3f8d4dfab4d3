//! Which pods are missing, and which are too many.
//!
//! In: nodes and what they are for the DaemonSet, pods by node. Out: nodes that
//! need a pod, and pods that must go.

use coxswain_sdk::revisions::REVISION_HASH_LABEL;
use coxswain_sdk::{About, Event, Object, Time};

use crate::backoff::Memory;
use crate::placement::Placement;
use crate::pods::{ByNode, oldest_first};
use crate::view::{DaemonSet, Pod};

/// What is to be done.
#[derive(Debug, Default)]
pub struct Work<'a> {
    /// Nodes that need a pod.
    pub create: Vec<&'a str>,
    /// Pods that must go.
    pub delete: Vec<&'a Object<Pod>>,
    /// What to tell.
    pub events: Vec<Event>,
    /// When to look again.
    pub again: Option<Time>,
}

impl Work<'_> {
    /// Whether there is nothing to do now.
    pub fn is_done(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty()
    }
}

/// What decides about pods, besides the pods.
pub struct Rules<'a> {
    /// The DaemonSet.
    pub set: &'a DaemonSet,
    /// Hash of its current revision.
    pub hash: &'a str,
    /// Whether two pods may be on a node during an update.
    pub surge: bool,
    /// The time.
    pub now: Time,
}

/// Decides about all nodes.
pub fn manage<'a>(
    rules: &Rules<'_>,
    places: &[(&'a str, Placement)],
    pods: &ByNode<'a>,
    memory: &mut Memory,
) -> Work<'a> {
    let mut work = Work::default();
    for (node, placement) in places {
        let here = pods.get(node).map(Vec::as_slice);
        match (placement, here) {
            (Placement::Wanted, None) => work.create.push(node),
            (_, None) => {}
            (Placement::Excluded, Some(here)) => {
                work.delete.extend(here.iter().filter(|pod| !pod.metadata.is_deleting()));
            }
            (placement, Some(here)) => {
                on_node(rules, node, *placement == Placement::Wanted, here, memory, &mut work);
            }
        }
    }
    // Pods that wait for a node that is gone wait for ever, and nobody else
    // looks after them.
    let is_known = |node: &str| places.binary_search_by(|(name, _)| name.cmp(&node)).is_ok();
    let lost = pods.iter().filter(|(node, _)| !is_known(node)).flat_map(|(_, pods)| pods);
    work.delete.extend(lost.filter(|pod| pod.spec.node_name.is_empty() && !pod.metadata.is_deleting()));
    work
}

/// Decides about a node on which pods may stay.
fn on_node<'a>(
    rules: &Rules<'_>,
    node: &'a str,
    wanted: bool,
    here: &[&'a Object<Pod>],
    memory: &mut Memory,
    work: &mut Work<'a>,
) {
    let mut running = Vec::new();
    let mut waits = false;
    for &pod in here.iter().filter(|pod| !pod.metadata.is_deleting()) {
        match pod.status.phase.as_str() {
            "Failed" => match memory.waits_until(node, rules.now) {
                Some(until) => {
                    waits = true;
                    work.again = Some(work.again.map_or(until, |again| again.min(until)));
                }
                None => {
                    memory.replaced(node, rules.now);
                    work.events.push(found(rules.set, "failed", node, pod));
                    work.delete.push(pod);
                }
            },
            "Succeeded" => {
                work.events.push(found(rules.set, "succeeded", node, pod));
                work.delete.push(pod);
            }
            _ => running.push(pod),
        }
    }
    let running = oldest_first(running);
    if !rules.surge {
        work.delete.extend(running.into_iter().skip(1));
    } else if running.is_empty() {
        // A failed pod that waits stands for the next one, or else there would
        // be no wait at all.
        if wanted && !waits {
            work.create.push(node);
        }
    } else {
        prune_surge(rules, &running, work);
    }
}

/// Of several pods on a node, keeps the oldest of the current revision and the
/// oldest of others: both only while the former is not available and the latter
/// is ready.
fn prune_surge<'a>(rules: &Rules<'_>, running: &[&'a Object<Pod>], work: &mut Work<'a>) {
    let (mut new, mut old) = (None, None);
    for &pod in running {
        let is_current = pod.metadata.labels.get(REVISION_HASH_LABEL).is_some_and(|hash| hash == rules.hash);
        let place = if is_current { &mut new } else { &mut old };
        if place.is_none() {
            *place = Some(pod);
        } else {
            work.delete.push(pod);
        }
    }
    if let (Some(new), Some(old)) = (new, old)
        && (!old.is_ready() || new.is_available(rules.set.spec.min_ready_seconds, rules.now))
    {
        work.delete.push(old);
    }
}

fn found(set: &DaemonSet, how: &str, node: &str, pod: &Pod) -> Event {
    let about = About::of::<DaemonSet, _>(&set.metadata);
    let meta = &pod.metadata;
    let text = |end: &str| {
        format!(
            "Found {how} daemon pod {}/{} on node {node}, will try to {end} it",
            meta.namespace, meta.name
        )
    };
    if how == "failed" {
        about.warning("FailedDaemonPod", text("kill"))
    } else {
        about.normal("SucceededDaemonPod", text("delete"))
    }
}
