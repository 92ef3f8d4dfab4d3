//! Recreate: all pods of the old templates end before the first new one starts.

use crate::bounds::Bounds;
use crate::sets::{Set, Sets};

/// Scales the old ones to nothing. Returns whether any had to be.
pub fn scale_down_old(bounds: &Bounds, sets: &mut Sets) -> bool {
    let mut changed = false;
    for set in &mut sets.old {
        changed |= set.scale_to(0, bounds);
    }
    changed
}

/// Whether an old one says that it has pods, terminating ones included. It may
/// not know of these yet, or not count them: they have to be looked at as well.
/// Both must agree that none is left: a pod that has ended and is about to be
/// removed would still be beside the new ones otherwise.
pub fn old_have_pods(sets: &Sets) -> bool {
    sets.old.iter().any(|set| set.actual() > 0 || set.terminating().is_some_and(|pods| pods > 0))
}

/// Those whose pods have to be gone.
pub fn old_uids(sets: &Sets) -> impl Iterator<Item = &str> {
    sets.old.iter().filter_map(Set::uid)
}

/// Scales the current one to the wanted number.
pub fn scale_up_new(bounds: &Bounds, sets: &mut Sets) -> bool {
    sets.new.as_mut().is_some_and(|new| new.scale_to(bounds.replicas, bounds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::made::{counting, set, set_with, sizes};

    const BOUNDS: Bounds = Bounds { replicas: 3, surge: 0, unavailable: 0, rolling: false };

    #[test]
    fn first_down_then_up() {
        let mut sets = Sets { new: Some(set("c", 0, 3)), old: vec![set("a", 0, 1), set("b", 3, 2)] };
        assert!(scale_down_old(&BOUNDS, &mut sets));
        assert_eq!(sizes(&sets), [("a", 0), ("b", 0), ("c", 0)]);
        assert!(sets.old[0].annotations.is_empty(), "one that is empty already is left alone");
        assert!(!scale_down_old(&BOUNDS, &mut sets));
        assert!(old_have_pods(&sets), "its status has not followed yet");
        assert_eq!(old_uids(&sets).collect::<Vec<_>>(), ["a", "b"]);
        assert!(scale_up_new(&BOUNDS, &mut sets));
        assert!(!scale_up_new(&BOUNDS, &mut sets));
        assert_eq!(sizes(&sets), [("a", 0), ("b", 0), ("c", 3)]);
    }

    #[test]
    fn empty_ones_have_no_pods() {
        assert!(!old_have_pods(&Sets { new: Some(set("b", 3, 2)), old: vec![set_with("a", 0, 0, 1)] }));
        assert!(!old_have_pods(&Sets::default()));
    }

    #[test]
    fn terminating_pods_are_waited_for_as_long_as_they_are_counted() {
        for (terminating, waits) in [(Some(2), true), (Some(0), false), (None, false)] {
            let old = counting(set_with("a", 0, 0, 1), terminating);
            assert_eq!(old_have_pods(&Sets { new: None, old: vec![old] }), waits, "{terminating:?}");
        }
    }
}
