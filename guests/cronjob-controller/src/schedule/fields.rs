//! The five fields of a schedule, and the next local time that fits them.

use coxswain_sdk::civil::{DAY, date_of, days_of, weekday_of};

/// The five fields, as sets of numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Fields {
    /// Minutes, 0 to 59.
    pub minutes: Set,
    /// Hours, 0 to 23.
    pub hours: Set,
    /// Days of the month, 1 to 31.
    pub days: Set,
    /// Months, 1 to 12.
    pub months: Set,
    /// Days of the week, 0 (Sunday) to 6.
    pub weekdays: Set,
}

/// A set of small numbers, and whether it was written as a star.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Set {
    /// A bit for each number.
    pub bits: u64,
    /// Whether it was written as `*` or `?`, without a step.
    pub star: bool,
}

impl Set {
    /// Whether a number is in it.
    pub fn has(self, number: u32) -> bool {
        self.bits >> number & 1 == 1
    }

    /// The first number in it from `number` on.
    fn from(self, number: u32) -> Option<u32> {
        let rest = if number > 63 { 0 } else { self.bits >> number << number };
        (rest != 0).then(|| rest.trailing_zeros())
    }
}

impl Fields {
    /// Whether it runs in every hour of a day.
    pub fn every_hour(&self) -> bool {
        self.hours.bits == (1 << 24) - 1
    }

    /// The first local time that fits, from this one on (in seconds since 1970,
    /// were it UTC), in this year at the latest.
    pub fn next(&self, local: i64, last_year: i64) -> Option<i64> {
        // Runs are at whole minutes.
        let minute = local.checked_add(59)?.div_euclid(60);
        let mut days = minute.div_euclid(24 * 60);
        let mut rest = minute.rem_euclid(24 * 60) as u32;
        loop {
            let (year, month, day) = date_of(days);
            if year > last_year {
                return None;
            }
            if !self.months.has(month) {
                (days, rest) = match self.months.from(month + 1) {
                    Some(month) => (days_of(year, month, 1), 0),
                    None => (days_of(year + 1, self.months.from(1)?, 1), 0),
                };
                continue;
            }
            if self.has_day(day, weekday_of(days))
                && let Some(rest) = self.time_from(rest)
            {
                return Some(days * DAY + i64::from(rest) * 60);
            }
            (days, rest) = (days + 1, 0);
        }
    }

    /// Days of the month and of the week must both fit if one of them is a
    /// star; else one of them is enough.
    fn has_day(&self, day: u32, weekday: u32) -> bool {
        let (day, weekday) = (self.days.has(day), self.weekdays.has(weekday));
        if self.days.star || self.weekdays.star { day && weekday } else { day || weekday }
    }

    /// The first minute of a day that fits, from this one on.
    fn time_from(&self, minute: u32) -> Option<u32> {
        let hour = minute / 60;
        if self.hours.has(hour)
            && let Some(minute) = self.minutes.from(minute % 60)
        {
            return Some(hour * 60 + minute);
        }
        Some(self.hours.from(hour + 1)? * 60 + self.minutes.from(0)?)
    }
}
