//! Until when a request is kept.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use coxswain_sdk::Time;
use coxswain_sdk::condition::Condition;
use coxswain_sdk::x509;

/// For requests with a certificate, denied ones and failed ones.
const DONE: Duration = Duration::from_secs(3600);
/// For those that nobody decided on, or nobody signed.
const PENDING: Duration = Duration::from_secs(24 * 3600);

/// After this time the request goes; the earliest reason counts.
pub(crate) fn of(made: Option<Time>, certificate: &str, conditions: &[Condition]) -> Option<Time> {
    if conditions.is_empty() {
        return made.map(|made| made + PENDING);
    }
    let decided = conditions.iter().filter_map(|condition| {
        let keep = match condition.kind.as_str() {
            "Approved" if certificate.is_empty() => PENDING,
            "Approved" | "Denied" | "Failed" => DONE,
            _ => return None,
        };
        condition.last_update_time.map(|at| at + keep)
    });
    let approved = conditions.iter().any(|condition| condition.kind == "Approved");
    let expired = Some(certificate)
        .filter(|_| approved)
        .and_then(|certificate| x509::not_after(&STANDARD.decode(certificate).ok()?));
    decided.chain(expired).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `openssl req -x509 -days 10`.
    const CERTIFICATE: &str = include_str!("certificate.pem");
    const END: &str = include_str!("certificate.end");

    #[test]
    fn each_state_has_its_time() {
        let at = |text: &str| Time::parse(text).unwrap();
        let made = at("2026-01-01T00:00:00Z");
        let condition = |kind: &str, decided: Option<&str>| Condition {
            kind: kind.to_owned(),
            last_update_time: decided.map(at),
            ..Condition::default()
        };
        let noon = Some("2026-01-01T12:00:00Z");
        let (one, expired) = (STANDARD.encode("no certificate"), STANDARD.encode(CERTIFICATE));
        for (certificate, conditions, end) in [
            ("", vec![], Some("2026-01-02T00:00:00Z")),
            ("", vec![condition("Approved", noon)], Some("2026-01-02T12:00:00Z")),
            (&one, vec![condition("Approved", noon)], Some("2026-01-01T13:00:00Z")),
            (&one, vec![condition("Approved", None)], None),
            (&expired, vec![condition("Approved", None)], Some(END.trim())),
            (&expired, vec![condition("Denied", None)], None),
            ("", vec![condition("Denied", noon)], Some("2026-01-01T13:00:00Z")),
            ("", vec![condition("Failed", noon)], Some("2026-01-01T13:00:00Z")),
            ("", vec![condition("Failed", noon), condition("Approved", noon)], Some("2026-01-01T13:00:00Z")),
            ("", vec![condition("Other", noon)], None),
            ("", vec![condition("Denied", None)], None),
        ] {
            assert_eq!(of(Some(made), certificate, &conditions), end.map(at), "{certificate} {conditions:?}");
        }
        assert_eq!(of(None, "", &[]), None);
    }
}
