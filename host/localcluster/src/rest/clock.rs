//! The doors to time and randomness.
//!
//! In: a seed, tokio's clock. Out: timestamps, uids, name suffixes. Invariant: with a seed and paused tokio time the
//! same requests give the same answers.

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::time::Instant;

/// Wall time that moves with tokio's clock, so that paused time is virtual time here too.
#[derive(Clone, Debug)]
pub struct Clock {
    base: Timestamp,
    start: Instant,
}

impl Clock {
    /// Starts at `base`.
    pub fn starting_at(base: Timestamp) -> Self {
        Self { base, start: Instant::now() }
    }

    /// Starts now.
    pub fn system() -> Self {
        Self::starting_at(Timestamp::now())
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.start.elapsed()).unwrap_or(SignedDuration::MAX);
        self.base.saturating_add(passed).unwrap_or(Timestamp::MAX)
    }

    /// Now in whole seconds: `2026-01-02T03:04:05Z`.
    pub fn seconds(&self) -> String {
        seconds(self.now())
    }
}

/// RFC 3339 in whole seconds.
pub fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Random values.
pub struct Entropy(Mutex<SmallRng>);

/// The letters of generated names: no vowels, nothing that looks like another.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

impl Entropy {
    /// Seeded, or from the system.
    pub fn new(seed: Option<u64>) -> Self {
        Self(Mutex::new(seed.map_or_else(SmallRng::from_os_rng, SmallRng::seed_from_u64)))
    }

    /// A version 4 UUID.
    pub fn uid(&self) -> String {
        let bits = (self.0.lock().random::<u128>() & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
        let hex = format!("{bits:032x}");
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// The random end of a generated name.
    pub fn suffix(&self) -> String {
        let mut rng = self.0.lock();
        (0..5).map(|_| LETTERS[rng.random_range(0..LETTERS.len())] as char).collect()
    }

    /// Below `bound`; 0 for a bound of 0.
    pub fn below(&self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.0.lock().random_range(0..bound) }
    }

    /// Bytes for keys.
    pub fn bytes(&self) -> [u8; 32] {
        self.0.lock().random()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_are_version_4_and_repeat_with_the_seed() {
        let uid = Entropy::new(Some(1)).uid();
        assert_eq!(uid, Entropy::new(Some(1)).uid());
        assert_eq!(uid.len(), 36);
        assert_eq!(&uid[14..15], "4");
        assert!(matches!(&uid[19..20], "8" | "9" | "a" | "b"), "{uid}");
    }

    #[tokio::test(start_paused = true)]
    async fn wall_time_moves_with_paused_time() {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        tokio::time::advance(std::time::Duration::from_secs(61)).await;
        assert_eq!(clock.seconds(), "1970-01-01T00:01:01Z");
    }
}
