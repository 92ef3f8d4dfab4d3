//! Lengths of time in the short form of kubectl: `65s`, `3m20s`, `5d`, `2y30d`.

use jiff::Timestamp;

/// How long before `now` a time was; `<unknown>` without one.
pub fn since(then: &str, now: &str) -> String {
    match (then.parse::<Timestamp>(), now.parse::<Timestamp>()) {
        (Ok(then), Ok(now)) => duration(now.as_second() - then.as_second()),
        _ => "<unknown>".into(),
    }
}

/// A number of seconds.
pub fn duration(seconds: i64) -> String {
    let (minute, hour, day) = (60, 3600, 86_400);
    let two = |large: i64, unit: char, small: i64, small_unit: char| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{small_unit}") }
    };
    match seconds {
        i64::MIN..-1 => "<invalid>".into(),
        -1 => "0s".into(),
        s if s < 120 => format!("{s}s"),
        s if s < 10 * minute => two(s / minute, 'm', s % minute, 's'),
        s if s < 3 * hour => format!("{}m", s / minute),
        s if s < 8 * hour => two(s / hour, 'h', s % hour / minute, 'm'),
        s if s < 48 * hour => format!("{}h", s / hour),
        s if s < 8 * day => two(s / day, 'd', s % day / hour, 'h'),
        s if s < 2 * 365 * day => format!("{}d", s / day),
        s if s < 8 * 365 * day => two(s / (365 * day), 'y', s % (365 * day) / day, 'd'),
        s => format!("{}y", s / (365 * day)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_shorten_with_size() {
        for (seconds, want) in [
            (0, "0s"),
            (65, "65s"),
            (125, "2m5s"),
            (600, "10m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (50 * 3600, "2d2h"),
            (9 * 86_400, "9d"),
            (800 * 86_400, "2y70d"),
            (-5, "<invalid>"),
        ] {
            assert_eq!(duration(seconds), want);
        }
    }
}
