//! One term: the time from taking a lease until it is given up or lost.
//!
//! The gate of all writes made under it. Invariant: no request is admitted
//! later than the renew deadline after the last renewal was sent, and each ends
//! before the lease does; what was begun in one term never writes in another.
//! Time is monotonic and counts the machine's suspension: nobody's wall clock
//! is asked.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

use super::{catch_up::CaughtUp, config::Timing, local::LocalLock};
use crate::{
    clock::SharedClock,
    executor::{Pass, WriteGate},
};

/// A moment on a clock that does not stop while the machine is suspended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    running: Instant,
    suspended: Duration,
}

impl Moment {
    pub(super) fn now(clock: &SharedClock) -> Self {
        Self { running: Instant::now(), suspended: clock.suspended() }
    }

    pub(super) fn elapsed(&self, clock: &SharedClock) -> Duration {
        self.running.elapsed() + clock.suspended().saturating_sub(self.suspended)
    }
}

/// What bounds a term.
enum Bounds {
    /// Nothing: no leader is elected, somebody else's gate decides.
    Gate(Arc<dyn WriteGate>),
    /// A lease.
    Lease { timing: Timing, renewed: Mutex<Moment>, local: Option<Arc<LocalLock>> },
}

/// A term of leadership.
pub struct Term {
    bounds: Bounds,
    clock: SharedClock,
    over: CancellationToken,
    writes: TaskTracker,
    /// Resources whose caches have caught up with `begun`.
    pub(super) caught_up: Mutex<CaughtUp>,
    /// When all that was written before it has certainly been carried out.
    pub(super) begun: Instant,
}

/// A write under way.
struct InFlight {
    _token: TaskTrackerToken,
    local: Option<Arc<LocalLock>>,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(local) = &self.local {
            local.write_ended();
        }
    }
}

impl Term {
    /// A term without a lease, for a manager that elects no leader.
    pub(super) fn unbounded(gate: Arc<dyn WriteGate>, clock: SharedClock) -> Arc<Self> {
        Arc::new(Self::new(Bounds::Gate(gate), clock, Duration::ZERO))
    }

    /// A term under a lease that was taken by a request sent at `since`. Nothing
    /// is done for `pause`.
    pub(super) fn begin(
        timing: Timing,
        clock: SharedClock,
        since: Moment,
        local: Option<Arc<LocalLock>>,
        pause: Duration,
    ) -> Arc<Self> {
        let bounds = Bounds::Lease { timing, renewed: Mutex::new(since), local };
        Arc::new(Self::new(bounds, clock, pause))
    }

    fn new(bounds: Bounds, clock: SharedClock, pause: Duration) -> Self {
        Self {
            bounds,
            clock,
            over: CancellationToken::new(),
            writes: TaskTracker::new(),
            caught_up: Mutex::default(),
            begun: Instant::now() + pause,
        }
    }

    /// Whether a lease bounds it, so that somebody else may have led before.
    pub fn is_elected(&self) -> bool {
        matches!(self.bounds, Bounds::Lease { .. })
    }

    /// Notes that the lease was renewed by a request sent at `sent`.
    pub(super) fn renewed(&self, sent: Moment) {
        if let Bounds::Lease { renewed, .. } = &self.bounds {
            *renewed.lock() = sent;
        }
    }

    /// Since when the lease has not been renewed; zero without one.
    pub(super) fn age(&self) -> Duration {
        match &self.bounds {
            Bounds::Gate(_) => Duration::ZERO,
            Bounds::Lease { renewed, .. } => renewed.lock().elapsed(&self.clock),
        }
    }

    /// Ends it: nothing more is admitted.
    pub(super) fn end(&self) {
        self.over.cancel();
    }

    /// Waits until all writes that were admitted have ended. Only after
    /// [`Term::end`].
    pub(super) async fn drained(&self) {
        self.writes.close();
        self.writes.wait().await;
    }

    /// Fires when it ends.
    pub async fn over(&self) {
        self.over.cancelled().await;
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Time left for a request that is sent now.
    fn left(&self) -> Option<Duration> {
        let Bounds::Lease { timing, .. } = &self.bounds else { return None };
        let age = self.age();
        (age < timing.renew_deadline).then(|| timing.last_write_ends().saturating_sub(age))
    }
}

impl WriteGate for Term {
    fn admit(&self) -> Option<Pass> {
        // Before the look at `over`: whoever ends the term either is seen here or sees us.
        let token = self.writes.token();
        if self.is_over() {
            return None;
        }
        match &self.bounds {
            Bounds::Gate(gate) => gate.admit(),
            Bounds::Lease { local, .. } => {
                if let Some(local) = local {
                    local.write_begins();
                }
                let held = InFlight { _token: token, local: local.clone() };
                Some(Pass { within: Some(self.left()?), held: Some(Box::new(held)) })
            }
        }
    }

    fn may_write(&self) -> bool {
        !self.is_over()
            && match &self.bounds {
                Bounds::Gate(gate) => gate.may_write(),
                Bounds::Lease { .. } => self.left().is_some(),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, SystemClock, VirtualClock};

    /// A clock of a machine that a test suspends.
    struct Suspended(Mutex<Duration>);

    impl Clock for Suspended {
        fn now(&self) -> jiff::Timestamp {
            jiff::Timestamp::UNIX_EPOCH
        }
        fn suspended(&self) -> Duration {
            *self.0.lock()
        }
    }

    fn term(clock: SharedClock) -> Arc<Term> {
        Term::begin(Timing::default(), clock.clone(), Moment::now(&clock), None, Duration::ZERO)
    }

    #[tokio::test(start_paused = true)]
    async fn requests_end_before_the_lease_and_none_begins_after_the_renew_deadline() {
        let clock: SharedClock = Arc::new(VirtualClock::starting_at(jiff::Timestamp::UNIX_EPOCH));
        let term = term(clock.clone());
        let within = |term: &Term| term.admit().and_then(|pass| pass.within);
        assert_eq!(within(&term), Some(Duration::from_secs(14)));
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(within(&term), Some(Duration::from_secs(5)));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(within(&term).is_none() && !term.may_write());
        // A renewal opens it again, from the time it was sent.
        term.renewed(Moment::now(&clock));
        assert_eq!(within(&term), Some(Duration::from_secs(14)));
        term.end();
        assert!(within(&term).is_none() && !term.may_write());
        term.renewed(Moment::now(&clock));
        assert!(within(&term).is_none(), "a term that is over stays over");
    }

    #[tokio::test(start_paused = true)]
    async fn time_that_the_machine_slept_counts() {
        let machine = Arc::new(Suspended(Mutex::default()));
        let term = term(machine.clone());
        assert!(term.may_write());
        *machine.0.lock() = Duration::from_secs(60);
        assert!(!term.may_write());
        assert!(term.admit().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_is_drained_once_the_last_request_has_ended() {
        let term = term(Arc::new(SystemClock));
        let pass = term.admit();
        term.end();
        let drained = tokio::time::timeout(Duration::from_secs(1), term.drained());
        assert!(drained.await.is_err());
        drop(pass);
        term.drained().await;
    }
}
