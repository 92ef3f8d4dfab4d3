//! How fast one controller may send requests.
//!
//! In: requests about to be sent. Out: the moment they may be. Writes come
//! first: a lookup waits while a write does. Time is tokio's, so that tests and
//! simulations move it.

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use governor::{
    Quota, RateLimiter,
    clock::Clock,
    middleware::NoOpMiddleware,
    nanos::Nanos,
    state::{InMemoryState, NotKeyed},
};
use tokio::{sync::Notify, time::Instant};

/// Tokio's clock for governor.
#[derive(Clone, Copy, Debug)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::from(self.0.elapsed())
    }
}

type Bucket = RateLimiter<NotKeyed, InMemoryState, TokioClock, NoOpMiddleware<Nanos>>;

/// A token bucket with two kinds of customers.
pub(super) struct Limiter {
    bucket: Option<(Bucket, TokioClock)>,
    /// Held while one waits, so that those of a kind are served in order.
    write_turn: tokio::sync::Mutex<()>,
    lookup_turn: tokio::sync::Mutex<()>,
    waiting_writes: AtomicUsize,
    no_write_waits: Notify,
}

/// Counts a waiting write, also if the wait is given up.
struct Waiting<'a>(&'a Limiter);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.0.waiting_writes.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.no_write_waits.notify_one();
        }
    }
}

impl Limiter {
    /// `qps` requests a second, `burst` at once; no limit if `qps` is not above
    /// 0.
    pub(super) fn new(qps: f64, burst: u32) -> Self {
        let bucket = if qps.is_finite() && qps > 0.0 {
            Quota::with_period(Duration::from_secs_f64((1.0 / qps).clamp(1e-9, 1e9)))
        } else {
            None
        }
        .map(|quota| {
            let clock = TokioClock(Instant::now());
            let burst = NonZeroU32::new(burst).unwrap_or(NonZeroU32::MIN);
            (RateLimiter::direct_with_clock(quota.allow_burst(burst), clock), clock)
        });
        Self {
            bucket,
            write_turn: tokio::sync::Mutex::default(),
            lookup_turn: tokio::sync::Mutex::default(),
            waiting_writes: AtomicUsize::new(0),
            no_write_waits: Notify::new(),
        }
    }

    /// Waits until a write may be sent.
    pub(super) async fn write(&self) {
        let Some((bucket, clock)) = &self.bucket else { return };
        self.waiting_writes.fetch_add(1, Ordering::AcqRel);
        let _waiting = Waiting(self);
        let _turn = self.write_turn.lock().await;
        while let Err(until) = bucket.check() {
            tokio::time::sleep(until.wait_time_from(clock.now())).await;
        }
    }

    /// Waits until a lookup may be sent.
    pub(super) async fn lookup(&self) {
        let Some((bucket, clock)) = &self.bucket else { return };
        let _turn = self.lookup_turn.lock().await;
        loop {
            while self.waiting_writes.load(Ordering::Acquire) > 0 {
                self.no_write_waits.notified().await;
            }
            match bucket.check() {
                Ok(()) => return,
                Err(until) => tokio::time::sleep(until.wait_time_from(clock.now())).await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_then_the_rate() {
        let limiter = Limiter::new(10.0, 5);
        let started = Instant::now();
        for _ in 0..5 {
            limiter.write().await;
        }
        assert_eq!(started.elapsed(), Duration::ZERO);
        for _ in 0..10 {
            limiter.write().await;
        }
        let took = started.elapsed();
        assert!((950..1100).contains(&took.as_millis()), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn no_rate_is_no_limit() {
        for qps in [0.0, -1.0, f64::NAN] {
            let limiter = Limiter::new(qps, 0);
            let started = Instant::now();
            for _ in 0..1000 {
                limiter.write().await;
                limiter.lookup().await;
            }
            assert_eq!(started.elapsed(), Duration::ZERO, "{qps}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn writes_come_before_lookups() {
        let limiter = Arc::new(Limiter::new(1.0, 1));
        limiter.write().await;
        let order = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for what in ["lookup", "lookup", "write", "write", "write"] {
            let (limiter, order) = (limiter.clone(), order.clone());
            tasks.push(tokio::spawn(async move {
                if what == "write" {
                    limiter.write().await
                } else {
                    limiter.lookup().await
                }
                order.lock().push(what);
            }));
            // Each is waiting before the next one comes.
            tokio::task::yield_now().await;
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock(), ["write", "write", "write", "lookup", "lookup"]);
    }
}
