//! The wall clock is set, or the machine was suspended.
//!
//! In: the clock, and how long timers say it has been. Out: when they disagree
//! that is said, counted, and all keys are looked at anew: a time that a plan
//! named was turned into a timer by the clock as it was then. Elections do not
//! mind: they go by timers, and by how long the machine was suspended.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::Manager;
use crate::key::Cause;

/// Pause between two looks at the clock.
const PERIOD: Duration = Duration::from_secs(5);
/// What a clock that is slewed may be off by, from one look to the next.
const SLEWED: SignedDuration = SignedDuration::from_secs(1);

/// Where the clock and the timers were last seen together.
struct Seen {
    wall: Timestamp,
    timer: Instant,
}

impl Seen {
    /// By how much the clock has moved otherwise than the timers.
    fn jump(&mut self, wall: Timestamp, timer: Instant) -> Option<SignedDuration> {
        let passed = SignedDuration::try_from(timer - self.timer).unwrap_or(SignedDuration::MAX);
        let jump = wall.duration_since(self.wall) - passed;
        *self = Self { wall, timer };
        (jump.abs() > SLEWED).then_some(jump)
    }
}

impl Manager {
    /// Follows the clock until the manager stops.
    pub(super) async fn follow_clock(self: Arc<Self>) {
        let clock = self.config.clock.clone();
        let mut seen = Seen { wall: clock.now(), timer: Instant::now() };
        while self.cancel.run_until_cancelled(tokio::time::sleep(PERIOD)).await.is_some() {
            let Some(jump) = seen.jump(clock.now(), Instant::now()) else { continue };
            self.clock_jumps.fetch_add(1, Ordering::Relaxed);
            let way = if jump.is_negative() { "back" } else { "forward" };
            tracing::warn!(
                "the clock jumped {way} by {:.1?} (it was set, or the machine was suspended); looking at all keys anew",
                jump.unsigned_abs()
            );
            self.running_controllers()
                .iter()
                .for_each(|controller| controller.current().view.rekey(Cause::Bulk));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_is_told_from_one_that_is_slewed() {
        let (wall, timer) = (Timestamp::from_second(1_000_000).unwrap(), Instant::now());
        let mut seen = Seen { wall, timer };
        let mut look = |wall_seconds: f64, timer_seconds: f64| {
            let passed = Duration::from_secs_f64(timer_seconds);
            let now = wall + SignedDuration::from_secs_f64(wall_seconds);
            seen.jump(now, timer + passed).map(|jump| jump.as_secs())
        };
        assert_eq!(look(5.0, 5.0), None);
        assert_eq!(look(10.5, 10.0), None, "it is slewed");
        assert_eq!(look(3615.5, 15.0), Some(3600));
        assert_eq!(look(3620.5, 20.0), None, "said once");
        assert_eq!(look(25.5, 25.0), Some(-3600));
    }
}
