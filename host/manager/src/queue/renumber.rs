//! A queue whose keys change their names, since a new version of the module
//! declares its key sources in another order.

use std::collections::BTreeSet;

use super::{Place, Queue};
use crate::key::Key;

impl Queue {
    /// Whether no key is taken or held by a barrier.
    pub fn is_drained(&self) -> bool {
        self.inner.lock().entries.values().all(|entry| entry.place != Place::Taken)
    }

    /// Hands out no keys until [`Queue::refill`], whether or not it is paused.
    pub fn drain(&self) {
        self.inner.lock().draining = true;
    }

    /// Ends [`Queue::drain`].
    pub fn refill(&self) {
        self.inner.lock().draining = false;
        self.notify.notify_one();
    }

    /// Gives keys the numbers that their sources have from now on, and forgets
    /// those of sources that are no more. To be called on a queue that
    /// [is drained](Queue::is_drained), since whoever has taken a key gives it
    /// back under the name it had.
    pub fn renumber(&self, number: impl Fn(u32) -> Option<u32>) {
        let renamed = |key: &Key| Some(Key { source: number(key.source)?, ..key.clone() });
        let mut inner = self.inner.lock();
        // Nothing is measured until the new version says under which names.
        inner.stop_measuring();
        let entries = std::mem::take(&mut inner.entries);
        inner.entries =
            entries.into_iter().filter_map(|(key, entry)| Some((renamed(&key)?, entry))).collect();
        inner.normal = inner.normal.iter().filter_map(renamed).collect();
        inner.low = inner.low.iter().filter_map(renamed).collect();
        let due: BTreeSet<_> = inner.due.iter().filter_map(|(at, key)| Some((*at, renamed(key)?))).collect();
        inner.due = due;
        inner.serial_taken.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        key::{Cause, Wake},
        queue::Finished,
    };

    fn key(source: u32, name: &str) -> Key {
        Key { source, resource: 0, namespace: "".into(), name: name.into() }
    }

    #[tokio::test(start_paused = true)]
    async fn keys_keep_their_place_and_their_backoff_under_their_new_names() {
        let queue = Queue::new();
        queue.resume();
        queue.wake(&key(0, "failed"), Cause::Read);
        let taken = queue.take().await.unwrap();
        assert!(!queue.is_drained());
        for _ in 0..10 {
            queue.give_back(&taken, Finished { failed: true, ..Finished::default() });
            queue.take().await.unwrap();
        }
        queue.give_back(&taken, Finished { failed: true, ..Finished::default() });
        assert!(queue.is_drained());
        queue.wake(&key(0, "ready"), Cause::Read);
        queue.wake(&key(1, "dropped"), Cause::Read);
        queue.drain();
        queue.renumber(|source| (source == 0).then_some(3));
        let stats = queue.stats();
        assert_eq!((stats.ready, stats.delayed, stats.backing_off), (1, 1, 1));
        assert!(tokio::time::timeout(std::time::Duration::from_secs(9), queue.take()).await.is_err());
        queue.refill();
        assert_eq!(queue.take().await, Some(key(3, "ready")));
        assert_eq!(queue.take().await, Some(key(3, "failed")));
    }
}
