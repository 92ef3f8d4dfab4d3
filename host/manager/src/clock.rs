//! The host's only door to time.
//!
//! Timers go through tokio, so that a test with paused time moves both. Wall
//! time is read here and nowhere else.

use std::sync::Arc;

use crate::contract::Timestamp;

/// Wall-clock time.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> jiff::Timestamp;

    /// How long the machine has been suspended since it was started. Timers do
    /// not count that time, other machines do.
    fn suspended(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }
}

/// A shared clock.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the door to time")]
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }

    #[cfg(target_os = "linux")]
    fn suspended(&self) -> std::time::Duration {
        use rustix::time::{ClockId, Timespec, clock_gettime};
        let since_boot = |time: Timespec| {
            std::time::Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32)
        };
        // In this order, so that the difference never comes out too small.
        let running = since_boot(clock_gettime(ClockId::Monotonic));
        since_boot(clock_gettime(ClockId::Boottime)).saturating_sub(running)
    }
}

/// A clock that starts at a given time and moves with tokio's.
#[derive(Clone, Copy, Debug)]
pub struct VirtualClock {
    origin: jiff::Timestamp,
    started: tokio::time::Instant,
}

impl VirtualClock {
    /// A clock that shows `origin` now.
    pub fn starting_at(origin: jiff::Timestamp) -> Self {
        Self { origin, started: tokio::time::Instant::now() }
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> jiff::Timestamp {
        self.origin + jiff::SignedDuration::try_from(self.started.elapsed()).unwrap_or_default()
    }
}

/// A time in the contract's form. Times before 1970 or after 2106 are clamped.
pub fn to_wire(time: jiff::Timestamp) -> Timestamp {
    let millis = time.as_millisecond().clamp(0, i64::from(u32::MAX) * 1000);
    Timestamp { seconds: (millis / 1000) as u32, millis: (millis % 1000) as u32 }
}

/// A time of the contract.
pub fn from_wire(time: Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_millisecond(i64::from(time.seconds) * 1000 + i64::from(time.millis))
        .unwrap_or(jiff::Timestamp::MAX)
}
