//! Jobs as whoever waits for their end sees them.

use crate::condition::HasStatus;

/// Type of the condition of a Job that has succeeded.
pub const COMPLETE: &str = "Complete";
/// Type of the condition of a Job that has failed.
pub const FAILED: &str = "Failed";

/// The condition that says how a Job has ended. None while it has not.
pub fn end<C: HasStatus>(conditions: &[C]) -> Option<&C> {
    conditions.iter().find(|condition| matches!(condition.kind(), COMPLETE | FAILED) && condition.is_true())
}
