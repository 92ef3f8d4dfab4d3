//! What a certificate says, in the words of the host's `sign` lookup.

use std::net::IpAddr;
use std::time::Duration;

use coxswain_sdk::Time;
use coxswain_sdk::x509::{Request, Subject};
use serde::Serialize;

/// How far before now certificates begin, for clocks that are behind.
const BACKDATE: Duration = Duration::from_secs(5 * 60);
/// Below this, the end is not brought forward by as much: five minutes of eight
/// hours are a hundredth.
const SHORT: Duration = Duration::from_secs(8 * 3600);
/// Nothing is signed for less.
const SHORTEST: Duration = Duration::from_secs(10 * 60);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Certificate<'a> {
    request: &'a str,
    subject: &'a Subject,
    dns_names: &'a [String],
    email_addresses: &'a [String],
    ip_addresses: &'a [IpAddr],
    uris: &'a [String],
    not_before: Time,
    not_after: Time,
    key_usage: Vec<&'static str>,
    extended_key_usage: Vec<&'static str>,
}

/// The certificate to ask for, as JSON. `longest` is the operator's limit.
pub(crate) fn wanted(
    pem: &str,
    request: &Request,
    usages: &[String],
    expiration_seconds: Option<i32>,
    longest: Duration,
    now: Time,
) -> Result<String, String> {
    let (key_usage, extended_key_usage) = split(usages)?;
    let (not_before, not_after) = validity(duration(expiration_seconds, longest), now);
    let certificate = Certificate {
        request: pem,
        subject: &request.subject,
        dns_names: &request.dns_names,
        email_addresses: &request.email_addresses,
        ip_addresses: &request.ip_addresses,
        uris: &request.uris,
        not_before,
        not_after,
        key_usage,
        extended_key_usage,
    };
    serde_json::to_string(&certificate).map_err(|error| error.to_string())
}

/// As long as the request says, within bounds.
fn duration(expiration_seconds: Option<i32>, longest: Duration) -> Duration {
    let Some(seconds) = expiration_seconds else { return longest };
    let asked = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    // A limit below the lower bound still is the limit of what exceeds it.
    if asked > longest { longest } else { asked.max(SHORTEST) }
}

fn validity(duration: Duration, now: Time) -> (Time, Time) {
    let not_before = before(now, BACKDATE);
    let end = now + duration;
    (not_before, if duration < SHORT { end } else { before(end, BACKDATE) })
}

fn before(time: Time, by: Duration) -> Time {
    Time::from_unix(time.unix().saturating_sub(i64::try_from(by.as_secs()).unwrap_or(i64::MAX)))
}

/// Key usages by their names in RFC 5280, and extended ones by number, each kind
/// in the order in which Go writes it.
fn split(usages: &[String]) -> Result<(Vec<&'static str>, Vec<&'static str>), String> {
    const EXTENDED: [(&str, &str); 13] = [
        ("any", "2.5.29.37.0"),
        ("server auth", "1.3.6.1.5.5.7.3.1"),
        ("client auth", "1.3.6.1.5.5.7.3.2"),
        ("code signing", "1.3.6.1.5.5.7.3.3"),
        ("email protection", "1.3.6.1.5.5.7.3.4"),
        ("s/mime", "1.3.6.1.5.5.7.3.4"),
        ("ipsec end system", "1.3.6.1.5.5.7.3.5"),
        ("ipsec tunnel", "1.3.6.1.5.5.7.3.6"),
        ("ipsec user", "1.3.6.1.5.5.7.3.7"),
        ("timestamping", "1.3.6.1.5.5.7.3.8"),
        ("ocsp signing", "1.3.6.1.5.5.7.3.9"),
        ("microsoft sgc", "1.3.6.1.4.1.311.10.3.3"),
        ("netscape sgc", "2.16.840.1.113730.4.1"),
    ];
    const PLAIN: [(&str, &str); 10] = [
        ("signing", "digitalSignature"),
        ("digital signature", "digitalSignature"),
        ("content commitment", "nonRepudiation"),
        ("key encipherment", "keyEncipherment"),
        ("data encipherment", "dataEncipherment"),
        ("key agreement", "keyAgreement"),
        ("cert sign", "keyCertSign"),
        ("crl sign", "cRLSign"),
        ("encipher only", "encipherOnly"),
        ("decipher only", "decipherOnly"),
    ];
    let known = |usage: &String| PLAIN.iter().chain(&EXTENDED).any(|(name, _)| name == usage);
    let unknown: Vec<String> =
        usages.iter().filter(|usage| !known(usage)).map(|usage| format!("{usage:?}")).collect();
    if !unknown.is_empty() {
        return Err(format!("unrecognized usage values: [{}]", unknown.join(" ")));
    }
    let pick = |table: &[(&str, &'static str)]| {
        let asked = table.iter().filter(|(name, _)| usages.iter().any(|usage| usage == name));
        let mut picked: Vec<&'static str> = asked.map(|(_, value)| *value).collect();
        picked.dedup();
        picked
    };
    Ok((pick(&PLAIN), pick(&EXTENDED)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: Duration = Duration::from_secs(8760 * 3600);

    #[test]
    fn how_long_a_certificate_holds() {
        for (asked, longest, seconds) in [
            (None, YEAR, YEAR.as_secs()),
            (Some(3600), YEAR, 3600),
            (Some(599), YEAR, 600),
            (Some(-5), YEAR, 600),
            (Some(i32::MAX), YEAR, YEAR.as_secs()),
            (Some(900), Duration::from_secs(600), 600),
            (Some(900), Duration::from_secs(60), 60),
            (Some(30), Duration::from_secs(60), 600),
            (None, Duration::from_secs(60), 60),
        ] {
            assert_eq!(duration(asked, longest).as_secs(), seconds, "{asked:?} {longest:?}");
        }
    }

    #[test]
    fn it_begins_before_now_and_a_long_one_ends_as_much_earlier() {
        let now = Time::parse("2026-01-01T00:00:00.9Z").unwrap();
        for (seconds, end) in [
            (600, "2026-01-01T00:10:00Z"),
            (8 * 3600 - 1, "2026-01-01T07:59:59Z"),
            (8 * 3600, "2026-01-01T07:55:00Z"),
            (8760 * 3600, "2026-12-31T23:55:00Z"),
        ] {
            let (from, to) = validity(Duration::from_secs(seconds), now);
            assert_eq!((from.to_string().as_str(), to.to_string().as_str()), ("2025-12-31T23:55:00Z", end));
        }
    }

    #[test]
    fn usages_are_told_apart() {
        let split = |usages: &[&str]| split(&usages.iter().map(|u| (*u).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            split(&["client auth", "key encipherment", "server auth", "signing", "digital signature"]),
            Ok((vec!["digitalSignature", "keyEncipherment"], vec!["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"]))
        );
        assert_eq!(split(&["s/mime", "email protection"]), Ok((vec![], vec!["1.3.6.1.5.5.7.3.4"])));
        assert_eq!(split(&[]), Ok((vec![], vec![])));
        assert_eq!(split(&["any", "x", "y z"]), Err("unrecognized usage values: [\"x\" \"y z\"]".to_owned()));
    }

    #[test]
    fn the_host_is_told_in_its_words() {
        let subject = Subject { common_name: "a".into(), ..Subject::default() };
        let request = Request {
            subject,
            dns_names: vec!["b".into()],
            ip_addresses: vec![[192, 0, 2, 1].into()],
            ..Request::default()
        };
        let now = Time::parse("2026-01-01T00:00:00Z").unwrap();
        let json = wanted("PEM", &request, &["client auth".into()], Some(3600), YEAR, now).unwrap();
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&json).unwrap(),
            serde_json::json!({
                "request": "PEM", "subject": {"commonName": "a"},
                "dnsNames": ["b"], "emailAddresses": [], "ipAddresses": ["192.0.2.1"], "uris": [],
                "notBefore": "2025-12-31T23:55:00Z", "notAfter": "2026-01-01T01:00:00Z",
                "keyUsage": [], "extendedKeyUsage": ["1.3.6.1.5.5.7.3.2"],
            })
        );
    }
}
