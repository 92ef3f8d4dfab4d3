//! Points in time, as the API writes them (RFC 3339).
//!
//! Written out here since a date library would be a third of a small guest.

use std::time::Duration;

use serde::ser::{Serialize, Serializer};

use crate::civil::{DAY, date_of, days_in_month, days_of};
use crate::contract::Timestamp;
use crate::read::{Failed, FromJson, Reader};

const NANOS: i128 = 1_000_000_000;

/// A point in time, UTC, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    seconds: i64,
    nanos: u32,
}

impl Time {
    /// Seconds since the Unix epoch.
    pub const fn from_unix(seconds: i64) -> Self {
        Self { seconds, nanos: 0 }
    }

    /// Whole seconds since the Unix epoch.
    pub const fn unix(self) -> i64 {
        self.seconds
    }

    /// Milliseconds since the Unix epoch.
    pub const fn from_unix_millis(millis: i64) -> Self {
        Self { seconds: millis.div_euclid(1000), nanos: millis.rem_euclid(1000) as u32 * 1_000_000 }
    }

    /// Whole milliseconds since the Unix epoch.
    pub fn unix_millis(self) -> i64 {
        self.seconds.saturating_mul(1000).saturating_add((self.nanos / 1_000_000).into())
    }

    /// Without the part of a second, as the API keeps most times.
    pub const fn whole_seconds(self) -> Self {
        Self::from_unix(self.seconds)
    }

    /// Parses RFC 3339, with or without a fraction, in any offset.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let digits = |from: usize, len: usize| -> Option<u32> {
            let part = bytes.get(from..from + len)?;
            part.iter().try_fold(0, |sum, b| b.is_ascii_digit().then(|| sum * 10 + u32::from(b - b'0')))
        };
        let is = |at: usize, wanted: &[u8]| bytes.get(at).is_some_and(|b| wanted.contains(b));
        if !(is(4, b"-") && is(7, b"-") && is(10, b"Tt ") && is(13, b":") && is(16, b":")) {
            return None;
        }
        let (year, month, day) = (digits(0, 4)?.into(), digits(5, 2)?, digits(8, 2)?);
        let (hour, minute, second) = (digits(11, 2)?, digits(14, 2)?, digits(17, 2)?);
        if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
            return None;
        }
        if hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let mut at = 19;
        let mut nanos = 0;
        if is(at, b".") {
            let fraction: Vec<u8> = bytes[at + 1..].iter().copied().take_while(u8::is_ascii_digit).collect();
            if fraction.is_empty() {
                return None;
            }
            at += 1 + fraction.len();
            nanos = (0..9).fold(0, |sum, i| sum * 10 + fraction.get(i).map_or(0, |b| u32::from(b - b'0')));
        }
        let offset = match bytes.get(at)? {
            b'Z' | b'z' if bytes.len() == at + 1 => 0,
            sign @ (b'+' | b'-') if bytes.len() == at + 6 && is(at + 3, b":") => {
                let (hours, minutes) = (digits(at + 1, 2)?, digits(at + 4, 2)?);
                if hours > 23 || minutes > 59 {
                    return None;
                }
                i64::from(hours * 3600 + minutes * 60) * if *sign == b'+' { 1 } else { -1 }
            }
            _ => return None,
        };
        let rest = i64::from(hour * 3600 + minute * 60 + second);
        Some(Self { seconds: days_of(year, month, day) * DAY + rest - offset, nanos })
    }

    /// Time from `earlier` to this, zero if it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        let nanos = (self.total_nanos() - earlier.total_nanos()).max(0);
        Duration::new((nanos / NANOS) as u64, (nanos % NANOS) as u32)
    }

    /// Nanoseconds since the Unix epoch.
    pub fn total_nanos(self) -> i128 {
        i128::from(self.seconds) * NANOS + i128::from(self.nanos)
    }

    /// With a fraction of microseconds, as the API's MicroTime is written.
    pub fn to_micro(self) -> String {
        let text = self.whole_seconds().to_string();
        format!("{}.{:06}Z", text.trim_end_matches('Z'), self.nanos / 1000)
    }

    /// The contract's form, rounded up to a millisecond so that coming back at
    /// that time is never too early. None before 1970 and after 2106.
    pub fn to_wire(self) -> Option<Timestamp> {
        let millis = (self.total_nanos() + 999_999).div_euclid(1_000_000);
        let seconds = u32::try_from(millis.div_euclid(1000)).ok()?;
        Some(Timestamp { seconds, millis: millis.rem_euclid(1000) as u32 })
    }
}

impl From<Timestamp> for Time {
    fn from(wire: Timestamp) -> Self {
        Self { seconds: wire.seconds.into(), nanos: wire.millis.min(999) * 1_000_000 }
    }
}

impl std::ops::Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let nanos = self.nanos + duration.subsec_nanos();
        let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        Self {
            seconds: self.seconds.saturating_add(seconds).saturating_add((nanos / 1_000_000_000).into()),
            nanos: nanos % 1_000_000_000,
        }
    }
}

/// In whole seconds, as the API writes a Time.
impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (year, month, day) = date_of(self.seconds.div_euclid(DAY));
        let rest = self.seconds.rem_euclid(DAY);
        let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

impl FromJson for Time {
    fn blank() -> Self {
        Self::from_unix(0)
    }

    fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
        let text = reader.text()?;
        match Self::parse(&text) {
            Some(time) => *self = time,
            None => return Err(Failed::new(["not an RFC 3339 time: ", &text].concat())),
        }
        Ok(())
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_go_there_and_back() {
        for (millis, text) in [(0, "1970-01-01T00:00:00.000000Z"), (-1, "1969-12-31T23:59:59.999000Z")] {
            assert_eq!(Time::from_unix_millis(millis).to_micro(), text);
        }
        for millis in [-1000, 1, 1_767_225_600_123, i64::MAX] {
            assert_eq!(Time::from_unix_millis(millis).unix_millis(), millis);
        }
        assert_eq!(Time::from_unix(i64::MAX).unix_millis(), i64::MAX);
    }

    #[test]
    fn times_read_as_they_are_written() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T23:59:59Z", 951_868_799),
            ("1969-12-31T23:59:59Z", -1),
            ("2106-02-07T06:28:15Z", 4_294_967_295),
        ] {
            let time = Time::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(time.to_string(), text);
            assert_eq!(time.unix(), seconds, "{text}");
        }
    }

    #[test]
    fn offsets_and_fractions_count() {
        let utc = Time::parse("2026-01-01T00:30:00Z").unwrap();
        assert_eq!(Time::parse("2026-01-01T02:00:00+01:30"), Some(utc));
        assert_eq!(Time::parse("2025-12-31T23:30:00-01:00"), Some(utc));
        let fine = Time::parse("2026-01-01T00:30:00.25Z").unwrap();
        assert_eq!(fine.since(utc), Duration::from_millis(250));
        assert_eq!(fine.to_micro(), "2026-01-01T00:30:00.250000Z");
        assert_eq!(utc.since(fine), Duration::ZERO);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "2026-01-01",
            "2026-13-01T00:00:00Z",
            "2026-02-30T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+0100",
            "2026-01-01T00:00:00Zjunk",
            "zzzz-01-01T00:00:00Z",
        ] {
            assert_eq!(Time::parse(text), None, "{text}");
        }
    }

    #[test]
    fn coming_back_is_never_too_early() {
        let time = Time { seconds: 7, nanos: 1 };
        assert_eq!(time.to_wire(), Some(Timestamp { seconds: 7, millis: 1 }));
        assert_eq!(
            Time { seconds: 7, nanos: 999_999_999 }.to_wire(),
            Some(Timestamp { seconds: 8, millis: 0 })
        );
        assert_eq!(Time::from_unix(-1).to_wire(), None);
    }
}
