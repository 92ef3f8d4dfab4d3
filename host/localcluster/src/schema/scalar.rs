//! Scalars with a text form of their own: times and base64.
//!
//! In: text as clients send it. Out: the canonical text, or the words of the real decoder's error.

use base64::DecodeError;
use base64::alphabet::STANDARD;
use base64::engine::Engine as _;
use base64::engine::general_purpose::{self, GeneralPurpose, GeneralPurposeConfig};
use jiff::Timestamp;

/// A time in whole seconds.
pub(super) fn time(text: &str) -> Result<String, String> {
    let at = parse_time(text, "2006-01-02T15:04:05Z07:00")?;
    Ok(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// A time with microseconds.
pub(super) fn micro_time(text: &str) -> Result<String, String> {
    let at = parse_time(text, "2006-01-02T15:04:05.000000Z07:00")?;
    Ok(at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string())
}

/// Reads a time by a layout of Go's, piece by piece; the error names the piece that does not fit.
fn parse_time(text: &str, layout: &str) -> Result<Timestamp, String> {
    let whole_seconds = !layout.contains('.');
    let pieces: &[(&str, usize)] = &[
        ("2006", 4),
        ("-", 0),
        ("01", 2),
        ("-", 0),
        ("02", 2),
        ("T", 0),
        ("15", 2),
        (":", 0),
        ("04", 2),
        (":", 0),
        ("05", 2),
    ];
    let mut rest = text;
    let fail = |rest: &str, piece: &str| {
        Err(format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {piece:?}"))
    };
    for (piece, digits) in pieces {
        let length = if *digits == 0 { piece.len() } else { *digits };
        let fits = rest.get(..length).is_some_and(|head| match digits {
            0 => head == *piece,
            _ => head.bytes().all(|b| b.is_ascii_digit()),
        });
        if !fits {
            return fail(rest, piece);
        }
        rest = &rest[length..];
    }
    let fraction =
        rest.strip_prefix(['.', ',']).map_or(0, |after| after.bytes().take_while(u8::is_ascii_digit).count());
    if whole_seconds {
        // Go takes a fraction here though the layout has none.
        rest = if fraction > 0 { &rest[1 + fraction..] } else { rest };
    } else if fraction < 6 {
        return fail(rest, ".000000");
    } else {
        rest = &rest[7..];
    }
    let zone = match rest.as_bytes() {
        [b'Z', ..] => 1,
        [b'+' | b'-', h1, h2, b':', m1, m2, ..] if [h1, h2, m1, m2].iter().all(|b| b.is_ascii_digit()) => 6,
        _ => return fail(rest, "Z07:00"),
    };
    if rest.len() > zone {
        return Err(format!("parsing time {text:?}: extra text: {:?}", &rest[zone..]));
    }
    text.replace(',', ".").parse::<Timestamp>().map_err(|_| {
        let part =
            |range: std::ops::Range<usize>| text.get(range).and_then(|t| t.parse::<u32>().ok()).unwrap_or(0);
        let what = match (part(5..7), part(11..13), part(14..16), part(17..19)) {
            (0 | 13.., ..) => "month",
            (_, 24.., ..) => "hour",
            (_, _, 60.., _) => "minute",
            (_, _, _, 60..) => "second",
            _ => "day",
        };
        format!("parsing time {text:?}: {what} out of range")
    })
}

/// Bits of the last letter that belong to no byte mean nothing to Go.
const PADDED: GeneralPurposeConfig = GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
/// Base64 without padding, read as Go reads it.
pub(crate) const NO_PAD: GeneralPurposeConfig = general_purpose::NO_PAD.with_decode_allow_trailing_bits(true);
const BASE64: GeneralPurpose = GeneralPurpose::new(&STANDARD, PADDED);

/// Base64 in its canonical form.
pub(super) fn base64(text: &str) -> Result<String, String> {
    from_base64(&BASE64, text).map(|raw| BASE64.encode(raw))
}

/// Decodes base64, which may have line breaks; the error is in the words of Go's decoder.
pub(crate) fn from_base64(engine: &GeneralPurpose, text: &str) -> Result<Vec<u8>, String> {
    let clean: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    engine.decode(&clean).map_err(|error| {
        // Go reads from the front, our decoder looks at the end first.
        let foreign =
            |b: u8| !matches!(b, b'\r' | b'\n' | b'=') && engine.decode([b, b'A', b'A', b'A']).is_err();
        let at = text.bytes().position(foreign).unwrap_or(match error {
            DecodeError::InvalidByte(at, _) => at,
            // What breaks off is wrong from its last group of four on.
            _ => clean.len() / 4 * 4,
        });
        format!("illegal base64 data at input byte {at}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_as_go_reads_it() {
        assert_eq!(base64("AB=="), Ok("AA==".into()));
        assert_eq!(base64("QUJD\r\nRA=="), Ok("QUJDRA==".into()));
        for (text, at) in
            [("!!!!a", 0), ("ab!!a", 2), ("ab\n!a", 3), ("a!a!!", 1), ("abcdab", 4), ("ab=d", 2)]
        {
            assert_eq!(base64(text), Err(format!("illegal base64 data at input byte {at}")), "{text}");
        }
    }

    #[test]
    fn times_are_read_by_their_layout() {
        assert_eq!(time("2026-01-01T02:00:00.5+02:00"), Ok("2026-01-01T00:00:00Z".into()));
        assert_eq!(micro_time("2026-01-01T00:00:00.123456Z"), Ok("2026-01-01T00:00:00.123456Z".into()));
        for (text, want) in [
            ("2026-01-01T00:00:00.5Z", r#"cannot parse ".5Z" as ".000000""#),
            ("2026-01-01T00:00:00Z", r#"cannot parse "Z" as ".000000""#),
            ("2026-01-01T00:00:00.1234567Z", r#"cannot parse "7Z" as "Z07:00""#),
            ("2026-01-01", r#"cannot parse "" as "T""#),
            ("", r#"cannot parse "" as "2006""#),
            ("2026-13-01T00:00:00.000000Z", "month out of range"),
            ("2026-02-30T00:00:00.000000Z", "day out of range"),
            ("2026-02-03T00:00:00.000000Zx", r#"extra text: "x""#),
            ("20\u{e9}6", r#"as "2006""#),
        ] {
            let error = micro_time(text).expect_err(text);
            assert!(error.ends_with(want), "{error}");
        }
    }
}
