//! Answers that are remembered for a while.
//!
//! Invariant: memory is bounded; the least recently used answer goes first.

use std::{hash::Hash, num::NonZeroUsize, time::Duration};

use lru::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Answers that are remembered at most.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// Answers by question.
pub(super) struct Remembered<K: Hash + Eq, V>(Mutex<LruCache<K, (V, Instant)>>);

impl<K: Hash + Eq, V: Clone> Remembered<K, V> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(LruCache::new(REMEMBERED)))
    }

    /// The answer, if it is still good.
    pub(super) fn get(&self, question: &K) -> Option<V> {
        let mut answers = self.0.lock();
        let (answer, until) = answers.get(question)?;
        if *until > Instant::now() {
            return Some(answer.clone());
        }
        answers.pop(question);
        None
    }

    /// Remembers an answer for so long.
    pub(super) fn put(&self, question: K, answer: V, how_long: Duration) {
        if !how_long.is_zero() {
            self.0.lock().put(question, (answer, Instant::now() + how_long));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_good_for_its_time_and_no_longer() {
        let answers = Remembered::new();
        answers.put("q", 1, Duration::from_secs(10));
        answers.put("never", 2, Duration::ZERO);
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!((answers.get(&"q"), answers.get(&"never")), (Some(1), None));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(answers.get(&"q"), None);
    }
}
