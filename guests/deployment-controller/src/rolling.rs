//! A rolling update: one step from the old template's pods to the new one's.
//!
//! Invariants: the sizes never add up to more than wanted plus surge through
//! what is decided here; no available pod is given up below the wanted number
//! less the allowed unavailability.

use crate::bounds::Bounds;
use crate::sets::{Set, Sets};

/// The size that the ReplicaSet with the current template can have beside the
/// others. `total` is the sum of all sizes, this one's included.
pub fn size_of_new(bounds: &Bounds, total: i64, current: i64) -> i64 {
    if !bounds.rolling {
        return bounds.replicas;
    }
    if total >= bounds.most() {
        return current;
    }
    current + (bounds.most() - total).min(bounds.replicas - current)
}

/// One step. Only one direction at a time, so that what follows goes by what
/// became of it.
pub fn step(bounds: &Bounds, sets: &mut Sets) -> bool {
    grow_new(bounds, sets) || shrink_old(bounds, sets)
}

/// Scales the current one up as far as it can go, or down if it is too large.
fn grow_new(bounds: &Bounds, sets: &mut Sets) -> bool {
    let total = sets.size();
    let Some(new) = &mut sets.new else { return false };
    let size = match new.replicas.cmp(&bounds.replicas) {
        std::cmp::Ordering::Equal => return false,
        std::cmp::Ordering::Greater => bounds.replicas,
        std::cmp::Ordering::Less => size_of_new(bounds, total, new.replicas),
    };
    new.scale_to(size, bounds)
}

/// Scales old ones down: first by pods that are no use anyway, then by as many
/// as can be spared.
fn shrink_old(bounds: &Bounds, sets: &mut Sets) -> bool {
    let Some(new) = &sets.new else { return false };
    if !sets.old.iter().any(Set::is_active) {
        return false;
    }
    // Pods of the current template that are not available yet may still become
    // so: they are no reason to take old ones away.
    let pending = new.replicas - new.surely_available();
    let spare = sets.size() - bounds.min_available() - pending;
    if spare <= 0 {
        return false;
    }
    let available: i64 = sets.all().map(Set::surely_available).sum();
    let cleaned = drop_unavailable(bounds, &mut sets.old, spare);
    let spare = available - bounds.min_available();
    let dropped = drop_oldest(bounds, &mut sets.old, spare);
    cleaned + dropped > 0
}

/// Scales down by pods that are not available, oldest ReplicaSets first; a
/// ReplicaSet gives up its unready pods before others. Or else a broken old
/// version would hold up the new one.
fn drop_unavailable(bounds: &Bounds, old: &mut [Set], at_most: i64) -> i64 {
    let mut dropped = 0;
    for set in old.iter_mut().filter(|set| set.is_active()) {
        let count = (set.replicas - set.available()).min(at_most - dropped);
        if count > 0 {
            set.scale_to(set.replicas - count, bounds);
            dropped += count;
        }
    }
    dropped
}

/// Scales down by so many pods, oldest ReplicaSets first.
fn drop_oldest(bounds: &Bounds, old: &mut [Set], at_most: i64) -> i64 {
    let mut dropped = 0;
    for set in old.iter_mut().filter(|set| set.is_active()) {
        let count = set.replicas.min(at_most - dropped);
        if count > 0 {
            set.scale_to(set.replicas - count, bounds);
            dropped += count;
        }
    }
    dropped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::made::{bounds, set, set_with, sizes, stale};

    #[test]
    fn the_new_one_takes_the_room_there_is() {
        for (what, bounds, total, current, wanted) in [
            ("no room without surge", bounds(8, 0, 1), 8, 0, 0),
            ("the surge", bounds(8, 3, 0), 8, 0, 3),
            ("what old ones left, and the surge", bounds(8, 3, 0), 4, 0, 7),
            ("never more than wanted", bounds(8, 3, 0), 7, 7, 8),
            ("full already", bounds(8, 3, 0), 11, 3, 3),
            ("beyond full", bounds(8, 3, 0), 15, 3, 3),
            ("recreate", Bounds { replicas: 8, surge: 0, unavailable: 0, rolling: false }, 9, 1, 8),
        ] {
            assert_eq!(size_of_new(&bounds, total, current), wanted, "{what}");
        }
    }

    #[test]
    fn one_step_at_a_time() {
        // Name, bounds, new (size, available), old ones oldest first, sizes after.
        type Row = (&'static str, Bounds, (i64, i64), Vec<(i64, i64)>, i64, Vec<i64>);
        let rows: Vec<Row> = vec![
            ("grows before it shrinks", bounds(10, 2, 2), (0, 0), vec![(10, 10)], 2, vec![10]),
            ("too large", bounds(10, 2, 0), (11, 11), vec![(2, 2)], 10, vec![2]),
            ("surge at work", bounds(10, 2, 0), (2, 0), vec![(10, 10)], 2, vec![10]),
            ("one became available", bounds(10, 2, 0), (2, 1), vec![(10, 10)], 2, vec![9]),
            ("the unavailable go at once", bounds(10, 0, 3), (0, 0), vec![(10, 10)], 0, vec![7]),
            ("those that are down go first", bounds(10, 0, 3), (0, 0), vec![(10, 7)], 0, vec![7]),
            ("some down, some spare", bounds(10, 0, 3), (0, 0), vec![(10, 8)], 0, vec![7]),
            ("pending ones are no excuse", bounds(10, 0, 3), (3, 0), vec![(7, 7)], 3, vec![7]),
            ("more down than can be spared", bounds(10, 2, 2), (5, 0), vec![(8, 3)], 4 + 1, vec![8]),
            (
                "down in the younger, spare from the older",
                bounds(4, 2, 1),
                (2, 1),
                vec![(2, 2), (2, 1)],
                2,
                vec![1, 1],
            ),
            ("old ones that are empty", bounds(4, 0, 1), (4, 4), vec![(0, 0), (0, 0)], 4, vec![0, 0]),
            ("saturated: the rest goes", bounds(4, 1, 0), (4, 4), vec![(1, 1)], 4, vec![0]),
            // Scaled down a moment ago: 3 still run of 2 wanted.
            ("more available than its size", bounds(3, 1, 1), (2, 1), vec![(2, 3)], 2, vec![1]),
        ];
        for (what, bounds, new, old, new_after, old_after) in rows {
            let mut sets = Sets {
                new: Some(set_with("new", new.0, new.1, 9)),
                old: old
                    .iter()
                    .zip(1..)
                    .map(|(old, i)| set_with(&format!("old{i}"), old.0, old.1, i))
                    .collect(),
            };
            let before: Vec<i64> = sets.all().map(|set| set.replicas).collect();
            let changed = step(&bounds, &mut sets);
            let after: Vec<i64> = sets.all().map(|set| set.replicas).collect();
            let wanted: Vec<i64> = old_after.iter().copied().chain([new_after]).collect();
            assert_eq!(after, wanted, "{what}");
            assert_eq!(changed, before != after, "{what}");
        }
    }

    #[test]
    fn without_a_current_one_nothing_is_given_up() {
        let mut sets = Sets { new: None, old: vec![set("a", 3, 1)] };
        assert!(!step(&bounds(3, 0, 3), &mut sets));
        assert_eq!(sizes(&sets), [("a", 3)]);
    }

    #[test]
    fn what_was_reported_before_a_change_counts_for_nothing() {
        // Both look available; one of them was empty in between.
        for (new, old, wanted) in [
            (set("new", 1, 2), set("old", 1, 1), 0),
            (stale(set("new", 1, 2)), set("old", 1, 1), 1),
            (set("new", 1, 2), stale(set("old", 1, 1)), 1),
            // Of the unavailable, those that were reported go all the same.
            (set("new", 1, 2), stale(set_with("old", 1, 0, 1)), 0),
        ] {
            let mut sets = Sets { new: Some(new), old: vec![old] };
            step(&bounds(1, 1, 0), &mut sets);
            assert_eq!(sizes(&sets), [("old", wanted), ("new", 1)]);
        }
    }

    #[test]
    fn limits_hold_from_wherever_it_starts() {
        for replicas in 0..5 {
            for (surge, unavailable) in [(0, 1), (1, 0), (1, 1), (2, 0), (3, 2)] {
                let bounds = bounds(replicas, surge, unavailable.min(replicas));
                for states in 0..4_i64.pow(6) {
                    let part = |at: u32| states / 4_i64.pow(at) % 4;
                    let (new, a, b) = ((part(0), part(1)), (part(2), part(3)), (part(4), part(5)));
                    let mut sets = Sets {
                        new: Some(set_with("new", new.0, new.1, 9)),
                        old: vec![set_with("a", a.0, a.1, 1), set_with("b", b.0, b.1, 2)],
                    };
                    let available = |sets: &Sets| sets.all().map(Set::surely_available).sum::<i64>();
                    let before = (sets.size(), available(&sets));
                    step(&bounds, &mut sets);
                    assert!(sets.size() <= before.0.max(bounds.most()), "{bounds:?} {sets:?}");
                    // One shrinks by its unavailable pods first.
                    let wanted = before.1.min(bounds.min_available());
                    assert!(available(&sets) >= wanted, "{bounds:?} {sets:?}");
                }
            }
        }
    }
}
