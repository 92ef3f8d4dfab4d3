//! Cron schedules: when the next run is.
//!
//! The syntax is that of `spec.schedule`: five fields (minute, hour, day of the
//! month, month, weekday) with lists, ranges, steps and names, or `@yearly`,
//! `@monthly`, `@weekly`, `@daily`, `@hourly`, `@every DURATION`, with `TZ=ZONE`
//! or `CRON_TZ=ZONE` before either.
//!
//! # When clocks are changed
//!
//! A schedule is about local time:
//!
//! * In spring, when clocks go forward, local times are left out. A run due at
//!   one of them does not take place that day; the next is the next day's. This
//!   is what kube-controller-manager does.
//! * In autumn, when clocks go back, local times come twice. A run due at one of
//!   them takes place the first time only, as in Vixie's cron;
//!   kube-controller-manager runs it twice (report 121594). A schedule that runs
//!   in every hour of the day goes by real time instead, and so neither pauses
//!   nor repeats.
//!
//! `@every` goes by real time altogether.

mod fields;
mod missed;
mod parse;
#[cfg(test)]
mod tests;

use coxswain_sdk::Time;
use coxswain_sdk::civil::{DAY, date_of};

use crate::zone::{Span, Zone};

pub use fields::Fields;
pub use missed::{Missed, Overdue, next_after_now, overdue};

/// A schedule.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// Every so many seconds, at least one.
    Every(i64),
    /// Whenever the local time fits.
    Local(Fields, &'static Zone),
}

/// Years after which a time that has not come is taken to come never.
const YEARS: i64 = 5;

impl Schedule {
    /// The first run after a time. None if there is none within five years.
    pub fn next(&self, after: Time) -> Option<Time> {
        let at = match self {
            Self::Every(seconds) => after.unix().checked_add(*seconds)?,
            Self::Local(fields, zone) => next_local(fields, zone, after.unix().checked_add(1)?)?,
        };
        Some(Time::from_unix(at))
    }
}

fn next_local(fields: &Fields, zone: &Zone, from: i64) -> Option<i64> {
    // Far beyond any calendar that objects could mean.
    const LIMIT: i64 = 400_000 * 365 * DAY;
    if !(-LIMIT..LIMIT).contains(&from) {
        return None;
    }
    let mut span = zone.span(from);
    let mut local = from + i64::from(span.offset);
    let last_year = date_of(local.div_euclid(DAY)).0 + YEARS;
    loop {
        local = fields.next(local.max(first_new(fields, &span)), last_year)?;
        let utc = local - i64::from(span.offset);
        match span.end {
            Some(end) if utc >= end => {
                span = zone.span(end);
                local = end + i64::from(span.offset);
            }
            _ => return Some(utc),
        }
    }
}

/// The first local time of a span that the span before has not had already.
fn first_new(fields: &Fields, span: &Span) -> i64 {
    match span.begin {
        Some((begin, before)) if before > span.offset && !fields.every_hour() => begin + i64::from(before),
        _ => i64::MIN,
    }
}
