//! Runs that are due or overdue, and when the next one is.
//!
//! The count of missed runs is an estimate from the distance of the first two,
//! as kube-controller-manager makes it: an object that was last run years ago must
//! not cost a walk through all the years.

use coxswain_sdk::Time;

use super::Schedule;

/// Offset by which a run is looked for late, so that a clock that is set back a
/// little does not make it come too early.
pub const PADDING: std::time::Duration = std::time::Duration::from_millis(100);

/// What was missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// Nothing, or just the run that is due.
    None,
    /// Some runs.
    Few,
    /// More than a hundred.
    Many,
}

/// The run that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// When it should have been. None if none is due.
    pub run: Option<Time>,
    /// What was missed.
    pub missed: Missed,
}

/// The latest run after `earliest` that should have been by `now`. An error for
/// schedules of dates that there are not, such as 31 February.
pub fn overdue(schedule: &Schedule, earliest: Time, now: Time) -> Result<Overdue, String> {
    let never = || "time difference between two schedules is less than 1 second".to_owned();
    let first = schedule.next(earliest).ok_or_else(never)?;
    if now < first {
        return Ok(Overdue { run: None, missed: Missed::None });
    }
    let second = schedule.next(first).ok_or_else(never)?;
    if now < second {
        return Ok(Overdue { run: Some(first), missed: Missed::None });
    }
    let distance = second.unix().saturating_sub(first.unix());
    if distance < 1 {
        return Err(never());
    }
    let count = now.unix().saturating_sub(first.unix()) / distance + 1;
    let missed = if count > 100 { Missed::Many } else { Missed::Few };
    // Two distances before now, in step with the first run.
    let near = first.unix().saturating_add((count - 2).saturating_mul(distance));
    let mut run = None;
    let mut next = schedule.next(Time::from_unix(near));
    while let Some(at) = next.filter(|at| *at <= now) {
        run = Some(at);
        next = schedule.next(at);
    }
    Ok(Overdue { run, missed })
}

/// When to look again, after the runs up to `now` are done with.
pub fn next_after_now(schedule: &Schedule, earliest: Time, now: Time) -> Option<Time> {
    let from = match overdue(schedule, earliest, now) {
        Ok(Overdue { run: Some(run), .. }) => run,
        Ok(Overdue { run: None, missed: Missed::None }) => earliest,
        Ok(_) | Err(_) => now,
    };
    Some(schedule.next(from)? + PADDING)
}
