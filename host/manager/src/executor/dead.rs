//! Uids that are known to be dead.
//!
//! A uid is never used again, so a write that needs one that was seen dead is
//! settled without a request. Names are used again, so no lookup by name is
//! ever answered from here. Bounded: the oldest are forgotten.

use std::collections::{HashSet, VecDeque};

use parking_lot::Mutex;

/// How many are remembered.
const MOST: usize = 4096;

/// A bounded set of dead uids.
#[derive(Default)]
pub(super) struct DeadUids(Mutex<(HashSet<String>, VecDeque<String>)>);

impl DeadUids {
    /// Remembers a uid.
    pub(super) fn insert(&self, uid: &str) {
        let (set, order) = &mut *self.0.lock();
        if !uid.is_empty() && set.insert(uid.to_owned()) {
            order.push_back(uid.to_owned());
            if order.len() > MOST
                && let Some(oldest) = order.pop_front()
            {
                set.remove(&oldest);
            }
        }
    }

    /// Whether a uid is known to be dead.
    pub(super) fn contains(&self, uid: &str) -> bool {
        self.0.lock().0.contains(uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten() {
        let dead = DeadUids::default();
        for n in 0..=MOST {
            dead.insert(&n.to_string());
            dead.insert(&n.to_string());
        }
        assert!(!dead.contains("0"));
        assert!(dead.contains("1"));
        assert!(dead.contains(&MOST.to_string()));
        assert_eq!(dead.0.lock().0.len(), MOST);
    }
}
