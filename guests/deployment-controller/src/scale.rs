//! A change of the Deployment's size, which is shared out among its ReplicaSets.
//!
//! In the middle of a rollout (or of a paused one) each keeps its share: to give
//! all new pods to the newest, or to take all from the oldest, would hasten a
//! rollout that may be a bad one. The size before is told by annotations.

use std::cmp::Reverse;

use coxswain_sdk::sort::sorted_by;

use crate::annotations::{desired_replicas, max_replicas};
use crate::bounds::Bounds;
use crate::sets::{Set, Sets};

/// Whether the Deployment's size has changed since one of the ReplicaSets with
/// pods was last scaled.
pub fn is_due(bounds: &Bounds, sets: &Sets) -> bool {
    sets.all().any(|set| set.is_active() && noted_otherwise(bounds, set))
}

fn noted_otherwise(bounds: &Bounds, set: &Set) -> bool {
    desired_replicas(&set.annotations).is_some_and(|desired| desired != bounds.replicas)
}

/// Shares the Deployment's size out. `actual` is how many pods the Deployment's
/// status tells of.
pub fn scale(bounds: &Bounds, sets: &mut Sets, actual: i64) {
    match sets.all().filter(|set| set.is_active()).count() {
        0 => {
            let newest = if sets.new.is_some() { sets.new.as_mut() } else { sets.old.last_mut() };
            if let Some(set) = newest {
                set.scale_to(bounds.replicas, bounds);
            }
        }
        1 => {
            if let Some(set) = sets.all_mut().find(|set| set.is_active()) {
                scale_alone(bounds, set);
            }
        }
        _ if is_saturated(bounds, sets) => {
            for old in &mut sets.old {
                old.scale_to(0, bounds);
            }
        }
        _ if bounds.rolling => share_out(bounds, sets, actual),
        _ => sets.all_mut().for_each(|set| note(bounds, set)),
    }
}

/// One that may already have the Deployment's size by chance must still note
/// it. Without that the change of size is never over, and a rollout waits for
/// ever (kubernetes/kubernetes#102551).
fn scale_alone(bounds: &Bounds, set: &mut Set) {
    if !set.scale_to(bounds.replicas, bounds) {
        note(bounds, set);
    }
}

/// Notes the Deployment's size where another one is noted.
fn note(bounds: &Bounds, set: &mut Set) {
    if set.is_active() && noted_otherwise(bounds, set) {
        set.scale_and_note(set.replicas, bounds);
    }
}

/// Whether the current one has all the pods that are wanted, all available.
fn is_saturated(bounds: &Bounds, sets: &Sets) -> bool {
    sets.new.as_ref().is_some_and(|new| {
        new.replicas == bounds.replicas
            && desired_replicas(&new.annotations) == Some(bounds.replicas)
            && new.available() == bounds.replicas
    })
}

/// Shares the difference out in proportion, the largest first. What rounding
/// leaves goes to the largest.
fn share_out(bounds: &Bounds, sets: &mut Sets, actual: i64) {
    let allowed = if bounds.replicas > 0 { bounds.most() } else { 0 };
    let missing = allowed - sets.size();
    let active = sets.all_mut().filter(|set| set.is_active());
    let mut active = sorted_by(active, |a, b| {
        let by_age = a.age().cmp(&b.age());
        // Of equal ones the youngest grow first, and the oldest shrink first.
        let by_age = if missing > 0 { by_age.reverse() } else { by_age };
        Reverse(a.replicas).cmp(&Reverse(b.replicas)).then(by_age)
    });
    let mut given = 0;
    let mut sizes = Vec::with_capacity(active.len());
    for set in &active {
        let share = share(bounds, set, missing - given, actual);
        given += share;
        sizes.push(set.replicas + share);
    }
    if let Some(largest) = sizes.first_mut() {
        *largest = (*largest + missing - given).max(0);
    }
    for (set, size) in active.iter_mut().zip(sizes) {
        set.scale_and_note(size, bounds);
    }
}

/// The share of one in the pods that are still to be given or taken.
fn share(bounds: &Bounds, set: &Set, left: i64, actual: i64) -> i64 {
    match left.signum() {
        1 => growth(bounds, set, actual).min(left),
        -1 => growth(bounds, set, actual).max(left),
        _ => 0,
    }
}

/// By how much one grows if it keeps its share.
fn growth(bounds: &Bounds, set: &Set, actual: i64) -> i64 {
    if bounds.replicas == 0 {
        return -set.replicas;
    }
    // Where somebody has removed the note, the pods there are stand in for it.
    let before = max_replicas(&set.annotations).filter(|most| *most != 0).unwrap_or(actual);
    if before <= 0 {
        return 0;
    }
    rounded(set.replicas * bounds.most(), before) - set.replicas
}

/// A quotient of numbers that are not negative, rounded half up.
fn rounded(dividend: i64, divisor: i64) -> i64 {
    let doubled = i128::from(dividend) * 2 + i128::from(divisor);
    i64::try_from(doubled / (i128::from(divisor) * 2)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::made::{bounds, noted, set, set_with, sizes};

    /// Bounds after, size with surge before, new and old sizes (oldest first),
    /// sizes after.
    type Row = (&'static str, Bounds, i64, Option<i64>, Vec<i64>, Vec<i64>);

    #[test]
    fn each_keeps_its_share() {
        let rows: Vec<Row> = vec![
            ("alone, up", bounds(9, 0, 1), 4, Some(4), vec![0], vec![0, 9]),
            ("alone, down", bounds(2, 0, 1), 4, Some(4), vec![], vec![2]),
            ("alone, and old", bounds(7, 0, 1), 4, Some(0), vec![4], vec![7, 0]),
            ("all empty: the new one", bounds(7, 0, 1), 4, Some(0), vec![0, 0], vec![0, 0, 7]),
            ("all empty, no new one: the youngest", bounds(7, 0, 1), 4, None, vec![0, 0], vec![0, 7]),
            ("doubled", bounds(8, 0, 1), 4, Some(1), vec![3], vec![6, 2]),
            ("halved", bounds(4, 0, 1), 8, Some(6), vec![2], vec![1, 3]),
            ("a small one vanishes", bounds(3, 0, 1), 10, Some(9), vec![1], vec![0, 3]),
            ("the youngest of equals gains", bounds(4, 0, 1), 3, Some(1), vec![1, 1], vec![1, 1, 2]),
            ("the oldest of equals loses", bounds(2, 0, 1), 3, Some(1), vec![1, 1], vec![0, 1, 1]),
            ("no new one", bounds(5, 0, 1), 4, None, vec![2, 2], vec![2, 3]),
            ("the largest gains what is left", bounds(12, 0, 1), 7, Some(2), vec![3, 2], vec![6, 3, 3]),
            ("to nothing", bounds(0, 0, 0), 6, Some(3), vec![1, 2], vec![0, 0, 0]),
            ("to nothing, with surge", bounds(0, 2, 0), 8, Some(3), vec![5], vec![0, 0]),
            ("surge is shared as well", bounds(20, 2, 0), 12, Some(6), vec![6], vec![11, 11]),
            ("ten to thirty in a stuck rollout", bounds(30, 3, 2), 13, Some(5), vec![8], vec![20, 13]),
            ("size and surge", bounds(40, 5, 0), 12, Some(4), vec![8], vec![30, 15]),
        ];
        for (what, bounds, before, new, old, wanted) in rows {
            let made = |name: String, size, hour| noted(set(&name, size, hour), before, before);
            let mut sets = Sets {
                new: new.map(|size| made("new".to_owned(), size, 9)),
                old: old.iter().zip(1..).map(|(size, i)| made(format!("old{i}"), *size, i)).collect(),
            };
            scale(&bounds, &mut sets, 0);
            let after: Vec<i64> = sets.all().map(|set| set.replicas).collect();
            assert_eq!(after, wanted, "{what}");
            assert!(!is_due(&bounds, &sets), "{what}: it is never over");
        }
    }

    #[test]
    fn the_sum_is_what_is_allowed() {
        for replicas in 1..30 {
            for parts in 0..125 {
                let (a, b, c) = (parts % 5, parts / 5 % 5, parts / 25);
                for before in [a + b + c, a + b + c + 2] {
                    let bounds = bounds(replicas, 2, 1);
                    let made = |name, size, hour| noted(set_with(name, size, 0, hour), before, before);
                    let mut sets =
                        Sets { new: Some(made("c", c, 3)), old: vec![made("a", a, 1), made("b", b, 2)] };
                    let active = [a, b, c].iter().filter(|size| **size > 0).count();
                    scale(&bounds, &mut sets, 0);
                    let allowed = if active > 1 { bounds.most() } else { replicas };
                    assert_eq!(sets.size(), allowed, "{a} {b} {c} of {before} to {replicas}");
                    assert!(sets.all().all(|set| set.replicas >= 0));
                }
            }
        }
    }

    #[test]
    fn once_saturated_the_old_ones_go() {
        let after = |available| {
            let new = noted(set_with("new", 4, available, 9), 4, 5);
            let mut sets = Sets { new: Some(new), old: vec![noted(set("a", 1, 1), 4, 5), set("b", 0, 2)] };
            scale(&bounds(4, 1, 0), &mut sets, 0);
            sizes(&sets).into_iter().map(|(_, size)| size).collect::<Vec<_>>()
        };
        assert_eq!(after(4), [0, 0, 4]);
        assert_eq!(after(3), [1, 0, 4], "a broken new one takes nothing from the old ones");
    }

    #[test]
    fn the_size_is_noted_even_if_it_fits_by_chance() {
        let bounds = bounds(4, 0, 1);
        let mut sets = Sets { new: Some(set("new", 0, 9)), old: vec![noted(set("old", 4, 1), 5, 5)] };
        assert!(is_due(&bounds, &sets));
        scale(&bounds, &mut sets, 4);
        assert_eq!(sizes(&sets), [("old", 4), ("new", 0)]);
        assert!(!is_due(&bounds, &sets));
        let recreate = Bounds { rolling: false, unavailable: 0, ..bounds };
        let mut sets =
            Sets { new: Some(noted(set("new", 1, 9), 5, 5)), old: vec![noted(set("old", 2, 1), 5, 5)] };
        scale(&recreate, &mut sets, 3);
        assert_eq!(sizes(&sets), [("old", 2), ("new", 1)]);
        assert!(!is_due(&recreate, &sets));
    }

    #[test]
    fn one_that_was_never_scaled_is_left_alone() {
        let mut sets = Sets { new: Some(set("adopted", 4, 1)), old: vec![] };
        assert!(!is_due(&bounds(4, 1, 0), &sets));
        scale(&bounds(4, 1, 0), &mut sets, 4);
        assert!(sets.all().all(|set| set.annotations.is_empty()));
    }

    #[test]
    fn growth_goes_by_the_size_before() {
        for (what, wanted_size, surge, size, note, actual, growth_wanted) in [
            ("to nothing", 0, 0, 7, Some(7), 7, -7),
            ("no note, no pods", 10, 0, 5, None, 0, 0),
            ("no note: the pods count", 60, 0, 10, None, 50, 2),
            ("a zero is no note", 60, 0, 10, Some(0), 50, 2),
            ("a fifth more", 60, 0, 10, Some(50), 0, 2),
            ("surge does not grow", 60, 10, 10, Some(60), 0, 2),
            ("half rounds up", 3, 0, 1, Some(2), 0, 1),
            ("less than half rounds down", 9, 0, 1, Some(7), 0, 0),
            ("a third less", 8, 0, 5, Some(12), 0, -2),
        ] {
            let mut set = set("a", size, 1);
            if let Some(note) = note {
                set = noted(set, 1, note);
            }
            assert_eq!(growth(&bounds(wanted_size, surge, 0), &set, actual), growth_wanted, "{what}");
        }
        let huge = i64::from(i32::MAX);
        let set = noted(set("a", huge, 1), 1, 1);
        assert_eq!(growth(&bounds(huge, huge, 0), &set, 0), huge * 2 * huge - huge, "no overflow");
    }
}
