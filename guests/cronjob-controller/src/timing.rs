//! The schedule of a CronJob, and times as users read them.

use crate::schedule::Schedule;
use crate::view::Spec;
use crate::zone::{UTC, Zone};
use coxswain_sdk::Time;
use coxswain_sdk::civil::{DAY, date_of, weekday_of};

/// The zone that a spec names; UTC if it names none.
pub fn zone_of(spec: &Spec) -> Result<&'static Zone, String> {
    spec.time_zone.as_deref().map_or(Ok(&UTC), Zone::named)
}

/// The schedule of a spec. A zone in the schedule itself is not supported, but
/// some old objects have one; it counts then.
pub fn schedule_of(spec: &Spec) -> Result<Schedule, String> {
    if names_zone(spec) {
        return Schedule::parse(&spec.schedule);
    }
    match spec.time_zone.as_deref().map(Zone::named) {
        Some(Ok(zone)) => Schedule::parse_in(spec.schedule.trim(), zone),
        Some(Err(_)) | None => Schedule::parse(&spec.schedule),
    }
}

/// Whether the schedule seems to have a zone in itself.
pub fn names_zone(spec: &Spec) -> bool {
    spec.schedule.contains("TZ")
}

/// What a spec says about times, to tell whether that has changed.
pub fn fingerprint(spec: &Spec) -> String {
    match &spec.time_zone {
        Some(zone) => format!("{} in {zone}", spec.schedule),
        None => spec.schedule.clone(),
    }
}

/// RFC 3339 in a zone.
pub fn rfc3339(time: Time, zone: &Zone) -> String {
    let offset = zone.offset(time.unix());
    let local = Time::from_unix(time.unix().saturating_add(offset.into())).to_string();
    if offset == 0 {
        return local;
    }
    let sign = if offset < 0 { '-' } else { '+' };
    let minutes = offset.unsigned_abs() / 60;
    format!("{}{sign}{:02}:{:02}", local.trim_end_matches('Z'), minutes / 60, minutes % 60)
}

/// RFC 1123 with a numeric zone, in UTC: `Thu, 01 Jan 2026 00:00:00 +0000`.
pub fn rfc1123(time: Time) -> String {
    const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let days = time.unix().div_euclid(DAY);
    let rest = time.unix().rem_euclid(DAY);
    let (year, month, day) = date_of(days);
    let weekday = WEEKDAYS[weekday_of(days) as usize % 7];
    let month = MONTHS[(month as usize).saturating_sub(1) % 12];
    format!(
        "{weekday}, {day:02} {month} {year:04} {:02}:{:02}:{:02} +0000",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}
