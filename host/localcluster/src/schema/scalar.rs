//! Scalars with a text form of their own: times and base64.
//!
//! In: text as clients send it. Out: the canonical text, or the words of the real decoder's error.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
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

fn parse_time(text: &str, layout: &str) -> Result<Timestamp, String> {
    text.parse::<Timestamp>()
        .map_err(|_| format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\""))
}

/// Base64 in its canonical form.
pub(super) fn base64(text: &str) -> Result<String, String> {
    let clean: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    match STANDARD.decode(&clean) {
        Ok(raw) => Ok(STANDARD.encode(raw)),
        Err(error) => {
            let at = match error {
                base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => at,
                _ => clean.len(),
            };
            Err(format!("illegal base64 data at input byte {at}"))
        }
    }
}
