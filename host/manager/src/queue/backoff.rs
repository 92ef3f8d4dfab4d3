//! How long a key waits after it failed, and how a key that never comes to
//! rest is slowed.

use std::time::Duration;

/// First wait after a failure, as client-go's default rate limiter has it.
pub const BASE: Duration = Duration::from_millis(5);
/// Longest wait after repeated failures, as client-go's default has it.
pub const MAX: Duration = Duration::from_secs(1000);
/// What is left of a wait, at most, once something else that the key read changed. With client-go nothing is left of it;
/// then a key whose failing plans change what it reads never waits at all.
pub const CAP_AFTER_WAKE: Duration = Duration::from_secs(1);
/// Failures in a row that a plan which failed after some progress counts for at most: 80 ms. Started from one, a key that
/// gets on bit by bit (a quota that frees pod after pod) would ask several times for each bit.
pub const AFTER_PROGRESS: u32 = 5;
/// Failures in a row that conflicts count for at most: 640 ms. kube-controller-manager's controllers try such a write
/// again within the sync (`retry.RetryOnConflict`, mostly five times), so their queues see few of them.
pub const AFTER_CONFLICTS: u32 = 8;
/// Plans with writes and without a change of the key's own object that are
/// free of any slowing. A scale-up by 10,000 in bursts of 500 needs 20.
pub const FREE_WRITES: u32 = 30;
/// Longest wait between the plans of a key that goes on writing.
pub const MAX_SLOWING: Duration = Duration::from_secs(10);

/// The wait after the `failures`th failure in a row (the first is 1).
pub fn after_failures(failures: u32) -> Duration {
    doubled(failures, MAX)
}

/// The wait after `plans` plans with writes in a row.
pub fn after_writes(plans: u32) -> Duration {
    doubled(plans.saturating_sub(FREE_WRITES), MAX_SLOWING)
}

fn doubled(times: u32, max: Duration) -> Duration {
    match times {
        0 => Duration::ZERO,
        n => BASE.checked_mul(1u32.checked_shl(n - 1).unwrap_or(u32::MAX)).map_or(max, |d| d.min(max)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_double_from_five_milliseconds_to_a_thousand_seconds() {
        let table = [
            (0, 0),
            (1, 5),
            (2, 10),
            (3, 20),
            (10, 2560),
            (18, 655_360),
            (19, 1_000_000),
            (40, 1_000_000),
            (u32::MAX, 1_000_000),
        ];
        for (failures, millis) in table {
            assert_eq!(after_failures(failures), Duration::from_millis(millis), "{failures} failures");
        }
    }

    #[test]
    fn writing_is_free_for_a_while_and_then_slowed() {
        assert_eq!(after_writes(FREE_WRITES), Duration::ZERO);
        assert_eq!(after_writes(FREE_WRITES + 1), BASE);
        assert_eq!(after_writes(FREE_WRITES + 100), MAX_SLOWING);
    }
}
