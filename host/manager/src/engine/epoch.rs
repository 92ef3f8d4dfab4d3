//! Deadlines: turns wall time into the epochs that stop a running module.
//!
//! In: how long a call may take. Out: the number of epochs that allows.
//! Invariant: epochs move only while a call is running, so that an idle process
//! sleeps.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};

/// Wall time between epochs: how late a deadline may be.
const PERIOD: Duration = Duration::from_millis(10);

/// Epochs after which at least `time` has passed. The first one may be nearly
/// over when the call begins.
pub(super) fn epochs(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(PERIOD.as_nanos())).unwrap_or(u64::MAX / 2).saturating_add(1)
}

/// Epochs that have passed.
#[derive(Clone, Debug, Default)]
pub(super) struct Ticks(Arc<AtomicU64>);

impl Ticks {
    pub(super) fn now(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    pub(super) fn advance(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

#[derive(Default)]
struct Shared {
    running: AtomicUsize,
    stop: AtomicBool,
}

/// The thread that moves the epochs of one engine.
pub(super) struct Ticker {
    shared: Arc<Shared>,
    thread: Thread,
    ticks: Ticks,
}

impl Ticker {
    /// Starts the thread.
    pub(super) fn start(engine: &wasmtime::Engine) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let ticks = Ticks::default();
        let (engine, seen, counted) = (engine.clone(), shared.clone(), ticks.clone());
        let thread = thread::Builder::new().name("epochs".into()).spawn(move || {
            while !seen.stop.load(Ordering::Acquire) {
                if seen.running.load(Ordering::Acquire) == 0 {
                    thread::park();
                } else {
                    thread::sleep(PERIOD);
                    counted.advance();
                    engine.increment_epoch();
                }
            }
        })?;
        Ok(Self { shared, thread: thread.thread().clone(), ticks })
    }

    /// The epochs of its engine.
    pub(super) fn ticks(&self) -> Ticks {
        self.ticks.clone()
    }

    /// Epochs move until what is returned is dropped.
    pub(super) fn running(&self) -> Running<'_> {
        if self.shared.running.fetch_add(1, Ordering::AcqRel) == 0 {
            self.thread.unpark();
        }
        Running(&self.shared)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// A call under way.
pub(super) struct Running<'a>(&'a Shared);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_never_early() {
        assert_eq!(epochs(Duration::ZERO), 1);
        assert_eq!(epochs(Duration::from_millis(1)), 2);
        assert_eq!(epochs(Duration::from_millis(10)), 2);
        assert_eq!(epochs(Duration::from_secs(5)), 501);
        assert!(epochs(Duration::MAX) > 1 << 60);
    }
}
