//! The status of an autoscaler.

use coxswain_sdk::Time;
use coxswain_sdk::condition::{self, Condition};

use crate::view::Status;

/// Condition: whether the target's scale can be read and written.
pub const ABLE: &str = "AbleToScale";
/// Condition: whether metrics call for anything.
pub const ACTIVE: &str = "ScalingActive";
/// Condition of clusters that let autoscalers scale to zero; a stale one is taken away.
pub const SCALED_TO_ZERO: &str = "ScaledToZero";
/// Condition: whether bounds or rates hold the size back.
pub const LIMITED: &str = "ScalingLimited";

/// Sets a condition. Reason and text always follow; the time only if the
/// status is not the one that was `seen`.
pub fn set(
    status: &mut Status,
    seen: &Status,
    kind: &str,
    holds: bool,
    reason: &str,
    message: impl Into<String>,
    now: Time,
) {
    let conditions = status.conditions.get_or_insert_with(Vec::new);
    let mut new = Condition::new(kind, if holds { "True" } else { "False" }, reason, message, now);
    new.last_update_time = None;
    let before = seen.conditions.iter().flatten().find(|condition| condition.kind == kind);
    if let Some(before) = before {
        if before.status == new.status {
            new.last_transition_time = before.last_transition_time;
        }
        new.rest = before.rest.clone();
    }
    match conditions.iter_mut().find(|condition| condition.kind == kind) {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

/// Takes a condition away.
pub fn unset(status: &mut Status, kind: &str) {
    if let Some(conditions) = &mut status.conditions {
        condition::remove(conditions, kind);
    }
}
