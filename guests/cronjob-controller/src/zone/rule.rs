//! What a time zone does for ever: the POSIX rule at the end of its data.
//!
//! The build script uses this file too, to leave out what a rule says as well;
//! `crate::civil` is there in both.

use crate::civil::{DAY, date_of, days_of, is_leap, weekday_of};

/// A standard offset, and perhaps summers with another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Seconds east of Greenwich.
    pub standard: i32,
    /// Summers.
    pub summer: Option<Summer>,
}

/// A summer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summer {
    /// Seconds east of Greenwich.
    pub offset: i32,
    /// When it begins, in standard time.
    pub begin: Change,
    /// When it ends, in summer time.
    pub end: Change,
}

/// A day of each year, and seconds after its midnight (perhaps before it, or
/// past its end).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The day.
    pub day: Day,
    /// Seconds after midnight.
    pub time: i32,
}

/// A day of each year.
#[allow(dead_code, reason = "the database of the day may have only some of them")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Day {
    /// The n-th day from 1, of a year without a 29 February.
    Julian(u32),
    /// The n-th day from 0.
    FromZero(u32),
    /// Month, week (5 is the last), weekday (0 is Sunday).
    Weekday(u32, u32, u32),
}

impl Rule {
    /// Changes around a time, in order: when, and the offset from then on.
    pub fn around(&self, utc: i64) -> Vec<(i64, i32)> {
        let Some(summer) = self.summer else { return Vec::new() };
        let (year, _, _) = date_of(utc.div_euclid(DAY));
        let mut changes = Vec::with_capacity(6);
        for year in year - 1..=year + 1 {
            changes.push((summer.begin.local(year) - i64::from(self.standard), summer.offset));
            changes.push((summer.end.local(year) - i64::from(summer.offset), self.standard));
        }
        changes.sort_unstable();
        changes
    }

    /// The offset at a time.
    #[allow(dead_code, reason = "only the build script asks")]
    pub fn offset(&self, utc: i64) -> i32 {
        let changes = self.around(utc);
        changes.iter().rev().find(|(at, _)| *at <= utc).map_or(self.standard, |(_, offset)| *offset)
    }
}

impl Change {
    /// Seconds since 1970 in local time.
    fn local(&self, year: i64) -> i64 {
        let new_year = days_of(year, 1, 1);
        let days = match self.day {
            Day::Julian(n) => new_year + i64::from(n) - 1 + i64::from(is_leap(year) && n >= 60),
            Day::FromZero(n) => new_year + i64::from(n),
            Day::Weekday(month, week, weekday) => {
                let first = days_of(year, month, 1);
                let next = if month == 12 { days_of(year + 1, 1, 1) } else { days_of(year, month + 1, 1) };
                let ahead = (7 + i64::from(weekday) - i64::from(weekday_of(first))) % 7;
                let day = first + ahead + 7 * (i64::from(week) - 1);
                if day >= next { day - 7 } else { day }
            }
        };
        days * DAY + i64::from(self.time)
    }
}
