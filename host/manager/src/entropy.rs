//! The host's only door to randomness.

use std::sync::Arc;

use parking_lot::Mutex;
use rand::{RngCore, SeedableRng, rngs::SmallRng};

/// A source of random numbers, seeded by the machine or by a test.
#[derive(Clone)]
pub struct Entropy(Arc<Mutex<SmallRng>>);

impl Entropy {
    /// Seeded by the operating system.
    pub fn from_os() -> Self {
        Self(Arc::new(Mutex::new(SmallRng::from_os_rng())))
    }

    /// The same numbers for the same seed.
    pub fn from_seed(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(SmallRng::seed_from_u64(seed))))
    }

    /// The next number.
    pub fn next_u64(&self) -> u64 {
        self.0.lock().next_u64()
    }

    /// A seed in the contract's form.
    pub fn next_seed(&self) -> (u32, u32) {
        let n = self.next_u64();
        ((n >> 32) as u32, n as u32)
    }

    /// A fraction in `[0, 1)`, for jitter.
    pub fn next_fraction(&self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The random end of a generated name: five characters, as the API server
    /// makes them (no vowels and no look-alikes).
    pub fn name_suffix(&self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..5).map(|_| ALPHABET[(self.next_u64() % ALPHABET.len() as u64) as usize] as char).collect()
    }
}
