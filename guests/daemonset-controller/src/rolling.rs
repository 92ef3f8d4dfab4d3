//! Rolling updates: which old pods go, or on which nodes new ones are made
//! beside them.
//!
//! In: pods by node, where [`crate::manage`] found nothing to do. Out: work
//! within the bounds. Pods being deleted count for nothing: an update goes on
//! although a node is down. Nor do pods of a node that is gone, which somebody
//! else removes after a while: nothing is unavailable for want of them.

use coxswain_sdk::Object;
use coxswain_sdk::sort::lite_map_of;
use litemap::LiteMap;

use crate::counts::Way;
use crate::manage::{Rules, Work};
use crate::placement::Placement;
use crate::pods::ByNode;
use crate::view::Pod;

/// The pods of a node.
enum Pair<'a> {
    /// At most one of the current revision, and one of others.
    Of { new: Option<&'a Object<Pod>>, old: Option<&'a Object<Pod>> },
    /// More than that; something else sees to it first.
    Crowd,
}

/// What the update does next.
pub fn update<'a>(
    rules: &Rules<'_>,
    way: Way,
    places: &[(&'a str, Placement)],
    pods: &ByNode<'a>,
) -> Work<'a> {
    let places: LiteMap<&str, Placement> = lite_map_of(places.iter().copied());
    match way {
        Way::Not => Work::default(),
        Way::Unavailable(most) => replace(rules, most, &places, pods),
        Way::Surge(most) => surge(rules, most, &places, pods),
    }
}

fn pair<'a>(rules: &Rules<'_>, pods: &[&'a Object<Pod>]) -> Pair<'a> {
    let (mut new, mut old) = (None, None);
    let generation = rules.set.template_generation();
    for &pod in pods.iter().filter(|pod| !pod.metadata.is_deleting()) {
        let place = if pod.is_of(rules.hash, generation) { &mut new } else { &mut old };
        if place.replace(pod).is_some() {
            return Pair::Crowd;
        }
    }
    Pair::Of { new, old }
}

fn is_available(rules: &Rules<'_>, pod: &Pod) -> bool {
    pod.is_available(rules.set.spec.min_ready_seconds, rules.now)
}

/// Deletes old pods: all that are not available, and others as far as no more
/// than `most` are unavailable then.
fn replace<'a>(
    rules: &Rules<'_>,
    most: usize,
    places: &LiteMap<&'a str, Placement>,
    pods: &ByNode<'a>,
) -> Work<'a> {
    let empty = places
        .iter()
        .filter(|(node, placement)| **placement == Placement::Wanted && !pods.contains_key(*node));
    let mut unavailable = empty.count();
    let (mut broken, mut candidates) = (Vec::new(), Vec::new());
    for (_, here) in pods.iter().filter(|(node, _)| places.contains_key(*node)) {
        match pair(rules, here) {
            Pair::Of { new: Some(new), old: None } if is_available(rules, new) => {}
            Pair::Of { new: None, old: Some(old) } if is_available(rules, old) => candidates.push(old),
            Pair::Of { new: None, old: Some(old) } => {
                unavailable += 1;
                broken.push(old);
            }
            // It comes up, or goes.
            Pair::Of { .. } | Pair::Crowd => unavailable += 1,
        }
    }
    candidates.truncate(most.saturating_sub(unavailable));
    broken.extend(candidates);
    Work { delete: broken, ..Work::default() }
}

/// Makes new pods beside old ones, at most `most` at a time, and where the old
/// one is not available in any case; deletes old ones where the new one is.
fn surge<'a>(
    rules: &Rules<'_>,
    most: usize,
    places: &LiteMap<&'a str, Placement>,
    pods: &ByNode<'a>,
) -> Work<'a> {
    let is_wanted = |node: &str| places.get(node) == Some(&Placement::Wanted);
    let desired = places.values().filter(|placement| **placement == Placement::Wanted).count();
    let (mut surging, mut available) = (0_usize, 0_usize);
    let mut work = Work::default();
    // Nodes whose old pod works; old pods that work where none is wanted.
    let (mut candidates, mut misplaced) = (Vec::new(), Vec::new());
    for (node, here) in pods.iter().filter(|(node, _)| places.contains_key(*node)) {
        let Pair::Of { new, old } = pair(rules, here) else {
            surging += 1;
            continue;
        };
        if old.or(new).is_some_and(|pod| is_available(rules, pod)) {
            available += 1;
        }
        match (new, old) {
            (_, None) => {}
            (Some(new), Some(old)) => {
                if is_available(rules, new) {
                    work.delete.push(old);
                } else {
                    surging += 1;
                }
            }
            (None, Some(old)) => match (is_available(rules, old), is_wanted(node)) {
                (false, false) => work.delete.push(old),
                (false, true) => work.create.push(*node),
                (true, false) => misplaced.push(old),
                (true, true) => candidates.push(*node),
            },
        }
    }
    // Whoever allows a surge expects that none is ever missing: a pod that is
    // not wanted where it is goes only once enough others are available.
    misplaced.truncate(available.saturating_sub(desired));
    work.delete.extend(misplaced);
    candidates.truncate(most.saturating_sub(surging));
    work.create.extend(candidates);
    work
}
