//! Reads schedules. The texts of errors reach users as events, so they are those
//! that users of kube-controller-manager know.

use coxswain_sdk::duration;

use super::Schedule;
use super::fields::{Fields, Set};
use crate::zone::{UTC, Zone};

/// What a field may hold.
struct Bounds {
    min: u32,
    max: u32,
    names: &'static [&'static str],
}

const MINUTES: Bounds = Bounds { min: 0, max: 59, names: &[] };
const HOURS: Bounds = Bounds { min: 0, max: 23, names: &[] };
const DAYS: Bounds = Bounds { min: 1, max: 31, names: &[] };
const MONTHS: Bounds = Bounds {
    min: 1,
    max: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const WEEKDAYS: Bounds = Bounds { min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

impl Schedule {
    /// Reads a schedule. Without a zone in it, it is one of UTC.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("empty spec string".to_owned());
        }
        let Some(named) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) else {
            return Self::parse_in(text, &UTC);
        };
        let (name, rest) =
            named.split_once(' ').ok_or("invalid schedule format: nothing follows the time zone")?;
        let zone = Zone::named(name).map_err(|e| format!("provided bad location {name}: {e}"))?;
        Self::parse_in(rest.trim(), zone)
    }

    /// Reads a schedule of a zone.
    pub fn parse_in(text: &str, zone: &'static Zone) -> Result<Self, String> {
        if text.starts_with('@') {
            return descriptor(text, zone);
        }
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = parts.as_slice() else {
            return Err(format!("expected exactly 5 fields, found {}: [{}]", parts.len(), parts.join(" ")));
        };
        let fields = Fields {
            minutes: set(minutes, &MINUTES)?,
            hours: set(hours, &HOURS)?,
            days: set(days, &DAYS)?,
            months: set(months, &MONTHS)?,
            weekdays: set(weekdays, &WEEKDAYS)?,
        };
        Ok(Self::Local(fields, zone))
    }
}

fn descriptor(text: &str, zone: &'static Zone) -> Result<Schedule, String> {
    let fields = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => {
            let every =
                text.strip_prefix("@every ").ok_or_else(|| format!("unrecognized descriptor: {text}"))?;
            return Ok(Schedule::Every(seconds(every)?));
        }
    };
    Schedule::parse_in(fields, zone)
}

/// Whole seconds of a duration, at least one.
fn seconds(text: &str) -> Result<i64, String> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let refused = || format!("failed to parse duration {text}: time: invalid duration {text:?}");
    let duration = duration::parse(unsigned).ok_or_else(refused)?;
    // Go's durations end after 292 years.
    if duration.as_nanos() > i64::MAX as u128 {
        return Err(refused());
    }
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    Ok(if text.starts_with('-') { 1 } else { seconds.max(1) })
}

fn set(field: &str, bounds: &Bounds) -> Result<Set, String> {
    let mut set = Set::default();
    for part in field.split(',').filter(|part| !part.is_empty()) {
        let Set { bits, star } = range(part, bounds)?;
        set.bits |= bits;
        set.star |= star;
    }
    Ok(set)
}

/// `*`, `N`, `N-M`, each perhaps with `/STEP`; `N/STEP` goes on to the end.
fn range(text: &str, bounds: &Bounds) -> Result<Set, String> {
    let mut parts = text.split('/');
    let ends: Vec<&str> = parts.next().unwrap_or_default().split('-').collect();
    let any = matches!(ends.as_slice(), ["*" | "?", ..]);
    let (start, mut end) = match ends.as_slice() {
        _ if any => (bounds.min, bounds.max),
        [start] => {
            let start = number_or_name(start, bounds)?;
            (start, start)
        }
        [start, end] => (number_or_name(start, bounds)?, number_or_name(end, bounds)?),
        _ => {
            number_or_name(ends.first().copied().unwrap_or_default(), bounds)?;
            return Err(format!("too many hyphens: {text}"));
        }
    };
    let step = match (parts.next(), parts.next()) {
        (None, _) => 1,
        (Some(step), None) => {
            let step = number(step)?;
            if ends.len() == 1 {
                end = bounds.max;
            }
            step
        }
        (Some(_), Some(_)) => return Err(format!("too many slashes: {text}")),
    };
    let Bounds { min, max, .. } = bounds;
    if start < *min {
        return Err(format!("beginning of range ({start}) below minimum ({min}): {text}"));
    }
    if end > *max {
        return Err(format!("end of range ({end}) above maximum ({max}): {text}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    let step_by = usize::try_from(step).unwrap_or(usize::MAX);
    let bits = (start..=end).step_by(step_by).fold(0, |bits, number| bits | 1 << number);
    Ok(Set { bits, star: any && step == 1 })
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u32, String> {
    let named = bounds.names.iter().zip(bounds.min..).find(|(name, _)| name.eq_ignore_ascii_case(text));
    named.map_or_else(|| number(text), |(_, number)| Ok(number))
}

fn number(text: &str) -> Result<u32, String> {
    let failed =
        |why: &str| format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}");
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(failed("invalid syntax"));
    }
    let number: i64 = text.parse().map_err(|_| failed("value out of range"))?;
    if number < 0 {
        return Err(format!("negative number ({number}) not allowed: {text}"));
    }
    // Larger than every bound either way.
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}
