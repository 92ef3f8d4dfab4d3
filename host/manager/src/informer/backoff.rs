//! How long to wait before trying again.

use std::time::Duration;

use crate::entropy::Entropy;

const FIRST: Duration = Duration::from_millis(800);
/// Delays are drawn from one to two times the base, so this makes 30 seconds.
const LARGEST_BASE: Duration = Duration::from_secs(15);
/// What a server may ask for at most.
const LONGEST_ASKED: Duration = Duration::from_secs(120);

/// Doubling delays with jitter: 0.8 seconds at first, 30 at most.
pub(super) struct Backoff {
    attempts: u32,
    entropy: Entropy,
}

impl Backoff {
    pub(super) fn new(entropy: Entropy) -> Self {
        Self { attempts: 0, entropy }
    }

    /// The next delay; no shorter than what the server asked for, within reason.
    pub(super) fn next(&mut self, asked: Option<Duration>) -> Duration {
        let base = FIRST.saturating_mul(1 << self.attempts.min(8)).min(LARGEST_BASE);
        self.attempts = self.attempts.saturating_add(1);
        let delay = base.mul_f64(1.0 + self.entropy.next_fraction());
        delay.max(asked.unwrap_or_default().min(LONGEST_ASKED))
    }

    /// There was progress.
    pub(super) fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_thirty_seconds_and_start_over_after_progress() {
        let mut backoff = Backoff::new(Entropy::from_seed(7));
        let mut low = 0.8;
        for _ in 0..50 {
            let delay = backoff.next(None).as_secs_f64();
            assert!((low..low * 2.0).contains(&delay), "{delay} is not within {low} and twice that");
            low = f64::min(low * 2.0, 15.0);
        }
        backoff.reset();
        assert!(backoff.next(None) < Duration::from_millis(1600));
    }

    #[test]
    fn the_server_may_ask_for_more_but_not_for_ever() {
        let mut backoff = Backoff::new(Entropy::from_seed(7));
        assert_eq!(backoff.next(Some(Duration::from_secs(60))), Duration::from_secs(60));
        assert_eq!(backoff.next(Some(Duration::from_secs(86_400))), LONGEST_ASKED);
    }
}
