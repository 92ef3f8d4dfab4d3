//! Values of flags as Go writes them, which is how kube-controller-manager's
//! command lines, unit files and pod manifests have them.
//!
//! Rules: `strconv.ParseBool` and `time.ParseDuration`.

use std::time::Duration;

/// A truth value: `true`, `True`, `t`, `1` and their opposites.
///
/// # Errors
///
/// Says what is expected.
pub fn boolean(text: &str) -> Result<bool, &'static str> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false"),
    }
}

/// Nanoseconds of each unit. Longer names first: `ms` is no `m`.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3), // U+00B5, micro sign
    ("μs", 1e3), // U+03BC, Greek letter mu
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// A duration of 0 or more: `0`, `30s`, `1h30m`, `1.5h`, `100ms`.
///
/// # Errors
///
/// Says what is expected.
pub fn duration(text: &str) -> Result<Duration, &'static str> {
    match nanoseconds(text) {
        Some(nanoseconds) if nanoseconds < 0.0 => Err("expected a duration that is not negative"),
        Some(nanoseconds) => Ok(Duration::from_nanos(nanoseconds as u64)),
        None => Err("expected a duration such as 30s, 5m or 1h30m"),
    }
}

/// A duration that may be negative, in nanoseconds; none if it is no duration,
/// or one longer than 292 years.
fn nanoseconds(text: &str) -> Option<f64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0.0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let count: f64 = rest[..number].parse().ok()?;
        rest = &rest[number..];
        let (unit, nanoseconds) = UNITS.iter().find(|(unit, _)| rest.starts_with(unit))?;
        total += count * nanoseconds;
        rest = &rest[unit.len()..];
    }
    (total <= i64::MAX as f64).then_some(sign * total)
}

/// A duration as Go prints it: `1h0m0s`, `1m30s`, `1.5s`, `100ms`, `0s`.
pub fn print_duration(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos();
    if nanoseconds == 0 {
        return "0s".into();
    }
    let fraction = |unit: u128| {
        let text = format!("{:.9}", nanoseconds as f64 / unit as f64);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match nanoseconds {
        0..1_000 => format!("{nanoseconds}ns"),
        1_000..1_000_000 => format!("{}µs", fraction(1_000)),
        1_000_000..1_000_000_000 => format!("{}ms", fraction(1_000_000)),
        _ => {
            let (hours, minutes) = (duration.as_secs() / 3600, duration.as_secs() / 60 % 60);
            let seconds = Duration::new(duration.as_secs() % 60, duration.subsec_nanos()).as_secs_f64();
            match (hours, minutes) {
                (0, 0) => format!("{seconds}s"),
                (0, _) => format!("{minutes}m{seconds}s"),
                _ => format!("{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_values_are_gos() {
        for text in ["1", "t", "T", "true", "TRUE", "True"] {
            assert_eq!(boolean(text), Ok(true), "{text}");
        }
        for text in ["0", "f", "F", "false", "FALSE", "False"] {
            assert_eq!(boolean(text), Ok(false), "{text}");
        }
        for text in ["", "yes", "tRUE", "on", "2"] {
            assert!(boolean(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_gos() {
        for (text, milliseconds) in [
            ("0", 0),
            ("0s", 0),
            ("5m0s", 300_000),
            ("1h30m", 5_400_000),
            ("1.5s", 1_500),
            (".5s", 500),
            ("100ms", 100),
            ("8760h0m0s", 31_536_000_000),
            ("+2s", 2_000),
            ("2000us", 2),
            ("2000µs", 2),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "30", "5 m", "1x", "s", ".s", "1..5s", "-1s", "1m30", "9999999h", "1d", "--1s"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert_eq!(nanoseconds("-1.5s"), Some(-1.5e9));
    }

    #[test]
    fn durations_are_printed_as_go_prints_them() {
        for text in ["0s", "1ns", "1.5µs", "100ms", "10s", "1.5s", "1m30s", "5m0s", "1h0m0s", "8760h0m0s"] {
            assert_eq!(print_duration(duration(text).unwrap()), text);
        }
    }
}
