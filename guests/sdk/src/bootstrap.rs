//! Bootstrap tokens: Secrets with which new nodes introduce themselves.
//!
//! Format: <https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/>.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::time::Time;

/// Type of such Secrets.
pub const TOKEN: &str = "bootstrap.kubernetes.io/token";
/// Namespace of such Secrets.
pub const NAMESPACE: &str = "kube-system";

/// Text in a Secret's data; None if it is absent or no text.
pub fn text(data: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(data).ok()?).ok().filter(|text| !text.is_empty())
}

/// Until when a token holds, given its `expiration` as the Secret has it. None:
/// for ever. What is no time counts as past.
pub fn expiration(data: &str) -> Option<Time> {
    const PAST: Time = Time::from_unix(i64::MIN);
    if data.is_empty() {
        return None;
    }
    match STANDARD.decode(data) {
        Ok(bytes) if bytes.is_empty() => None,
        Ok(bytes) => Some(String::from_utf8(bytes).ok().and_then(|text| strict(&text)).unwrap_or(PAST)),
        Err(_) => Some(PAST),
    }
}

/// RFC 3339 in the one form that Go takes: capital letters, no leap second.
fn strict(text: &str) -> Option<Time> {
    let usual =
        text.as_bytes().get(10) == Some(&b'T') && !text.contains('z') && text.get(17..19) != Some("60");
    Time::parse(text).filter(|_| usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_end() {
        for (text, end) in [
            ("", None),
            ("2026-01-01T00:00:00Z", Some("2026-01-01T00:00:00Z")),
            ("2026-01-01T01:00:00.5+01:00", Some("2026-01-01T00:00:00Z")),
        ] {
            let found = expiration(&STANDARD.encode(text));
            assert_eq!(found.map(|time| time.to_string()).as_deref(), end, "{text}");
        }
        for text in [
            "soon",
            "2026-01-01 00:00:00Z",
            "2026-01-01T00:00:00z",
            "2026-01-01t00:00:00Z",
            "2026-01-01T00:00:60Z",
        ] {
            assert!(
                expiration(&STANDARD.encode(text)).unwrap() < Time::from_unix(-1_000_000_000_000),
                "{text}"
            );
        }
        assert!(expiration("!").is_some() && expiration(&STANDARD.encode([0xff])).is_some());
    }

    #[test]
    fn text_is_text() {
        assert_eq!(text("YWJj").as_deref(), Some("abc"));
        assert_eq!((text(""), text("!"), text(&STANDARD.encode([0xff]))), (None, None, None));
    }
}
