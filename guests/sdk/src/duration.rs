//! Durations as Go writes them: `1h2m3.5s`, `300ms`.

use std::time::Duration;

/// Parses a duration; signs are refused.
pub fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut nanos: u128 = 0;
    while !rest.is_empty() || text.is_empty() {
        let number = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let (digits, tail) = rest.split_at(number);
        let unit = tail.len() - tail.trim_start_matches(|c: char| !c.is_ascii_digit() && c != '.').len();
        let scale: u128 = match &tail[..unit] {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.len() > 18 {
            return None;
        }
        let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        nanos = nanos.checked_add(whole.checked_mul(scale)?)?;
        if !fraction.is_empty() {
            nanos += fraction.parse::<u128>().ok()? * scale / 10u128.pow(fraction.len() as u32);
        }
        rest = &tail[unit..];
    }
    let seconds = u64::try_from(nanos / 1_000_000_000).ok()?;
    Some(Duration::new(seconds, (nanos % 1_000_000_000) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_parse() {
        for (text, wanted) in [
            ("0", Some(Duration::ZERO)),
            ("1m30s", Some(Duration::from_secs(90))),
            ("1.5h", Some(Duration::from_secs(5400))),
            (".5s", Some(Duration::from_millis(500))),
            ("300ms", Some(Duration::from_millis(300))),
            ("2µs", Some(Duration::from_micros(2))),
            ("", None),
            ("5", None),
            ("s", None),
            ("-1s", None),
            ("1d", None),
            ("1.2.3s", None),
            ("99999999999999999999999999999999999999999h", None),
        ] {
            assert_eq!(parse(text), wanted, "{text}");
        }
    }
}
