//! Addresses and ranges as clients write them.
//!
//! In: text. Out: what is wrong with it, and what is said of forms that are on their way out. Source of the rules:
//! strict validation of IPs and CIDRs (KEP-4858): leading zeros and IPv4 in IPv6 are refused, bits behind a prefix too.

use std::borrow::Cow;
use std::net::IpAddr;

use serde_json::{Value, json};

use crate::status::FieldError;

/// What an address that is none is told.
pub(super) const BAD_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const BAD_RANGE: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// Decimal numbers without leading zeros.
fn plain(text: &str) -> Cow<'_, str> {
    let padded = |part: &str| part.len() > 1 && part.starts_with('0') && !text.contains(':');
    if !text.split('.').any(padded) {
        return Cow::Borrowed(text);
    }
    let shorter = text.split('.').map(|part| match part.trim_start_matches('0') {
        "" => "0",
        rest => rest,
    });
    Cow::Owned(shorter.collect::<Vec<_>>().join("."))
}

/// An address, also with leading zeros.
fn parse(text: &str) -> Option<IpAddr> {
    plain(text).parse().ok()
}

fn mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

/// An IP address at `field`.
pub(super) fn address(out: &mut Vec<FieldError>, value: &Value, field: &str) {
    let text = value.as_str().unwrap_or("");
    let detail = match parse(text) {
        None => BAD_ADDRESS,
        Some(_) if text.parse::<IpAddr>().is_err() => "must not have leading 0s",
        Some(address) if mapped(address) => "must not be an IPv4-mapped IPv6 address",
        Some(_) => return,
    };
    out.push(FieldError::invalid(field, &json!(text), detail));
}

/// Address, length of the prefix and width of the family.
fn parse_range(text: &str) -> Option<(IpAddr, u32, u32)> {
    let (address, bits) = text.split_once('/')?;
    let address = parse(address)?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.bytes().all(|b| b.is_ascii_digit()).then(|| bits.parse::<u32>().ok())??;
    (bits <= width).then_some((address, bits, width))
}

fn first_of(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            IpAddr::V4((u32::from(v4) & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            IpAddr::V6((u128::from(v6) & mask).into())
        }
    }
}

/// A range of addresses at `field`.
pub(super) fn range(out: &mut Vec<FieldError>, text: &str, field: &str) {
    let detail = match parse_range(text) {
        None => BAD_RANGE,
        Some((address, bits, _)) => {
            let (base, length) = text.split_once('/').unwrap_or((text, ""));
            if base.parse::<IpAddr>().is_err() || (length.len() > 1 && length.starts_with('0')) {
                "must not have leading 0s in IP or prefix length"
            } else if mapped(address) {
                "must not have an IPv4-mapped IPv6 address"
            } else if first_of(address, bits) != address {
                "must not have bits set beyond the prefix length"
            } else {
                return;
            }
        }
    };
    out.push(FieldError::invalid(field, &json!(text), detail));
}

/// An address in the one form that its family has for it.
pub(super) fn canonical_address(out: &mut Vec<FieldError>, text: &str, field: &str) {
    let before = out.len();
    address(out, &json!(text), field);
    if let Some(address) = parse(text).filter(|_| out.len() == before) {
        canonical(out, text, &address.to_string(), field);
    }
}

/// What keeps an address from being a name.
pub(super) fn name(_: &Value, text: &str) -> Vec<String> {
    let mut out = Vec::new();
    canonical_address(&mut out, text, "");
    let shown = format!("Invalid value: {text:?}: ");
    out.into_iter().map(|error| error.message.replacen(&shown, "", 1)).collect()
}

/// The same for a range.
pub(super) fn canonical_range(out: &mut Vec<FieldError>, text: &str, field: &str) {
    let before = out.len();
    range(out, text, field);
    if let Some((address, bits, _)) = parse_range(text).filter(|_| out.len() == before) {
        canonical(out, text, &format!("{address}/{bits}"), field);
    }
}

fn canonical(out: &mut Vec<FieldError>, text: &str, form: &str, field: &str) {
    if text != form {
        let detail = format!("must be in canonical form ({form:?})");
        out.push(FieldError::invalid(field, &json!(text), &detail));
    }
}

/// What is said of an address that is accepted for now, or not in its usual form.
pub(super) fn address_warnings(out: &mut Vec<String>, text: &str, field: &str) {
    let Some(address) = parse(text) else { return };
    let strict = text.parse::<IpAddr>().is_ok();
    if !strict || mapped(address) {
        let address = address.to_canonical();
        out.push(format!("{field}: non-standard IP address {text:?} is invalid: use \"{address}\""));
    } else if address.is_ipv6() && address.to_string() != text {
        out.push(format!(
            "{field}: IPv6 address {text:?} should be in RFC 5952 canonical format (\"{address}\")"
        ));
    }
}

/// The same of a range.
pub(super) fn range_warnings(out: &mut Vec<String>, text: &str, field: &str) {
    let Some((address, bits, width)) = parse_range(text) else { return };
    let whole = format!("{}/{bits}", first_of(address, bits));
    let before = out.len();
    if first_of(address, bits) != address {
        out.push(format!(
            "{field}: CIDR value {text:?} is ambiguous in this context (should be \"{whole}\" or \
             \"{address}/{width}\"?)"
        ));
    }
    let mut strict = Vec::new();
    range(&mut strict, text, field);
    if strict.iter().any(|e| !e.message.contains("bits set")) {
        out.push(format!("{field}: non-standard CIDR value {text:?} is invalid: use \"{whole}\""));
    }
    let canonical = format!("{address}/{bits}");
    if out.len() == before && address.is_ipv6() && canonical != text {
        out.push(format!(
            "{field}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format (\"{canonical}\")"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_ranges_are_strict() {
        let told = |check: fn(&mut Vec<FieldError>, &str), text: &str| {
            let mut out = Vec::new();
            check(&mut out, text);
            out.first().map(|e: &FieldError| e.message.rsplit(": ").next().unwrap_or("").to_owned())
        };
        let ip = |out: &mut Vec<FieldError>, text: &str| address(out, &json!(text), "f");
        for (text, want) in [
            ("10.0.0.1", None),
            ("fd00::1", None),
            ("010.0.0.5", Some("must not have leading 0s")),
            ("::ffff:1.2.3.4", Some("must not be an IPv4-mapped IPv6 address")),
            ("x", Some(BAD_ADDRESS)),
            ("", Some(BAD_ADDRESS)),
        ] {
            assert_eq!(told(ip, text).as_deref(), want, "{text}");
        }
        let cidr = |out: &mut Vec<FieldError>, text: &str| range(out, text, "f");
        for (text, want) in [
            ("10.0.0.0/8", None),
            ("::/0", None),
            ("10.0.0.1/8", Some("must not have bits set beyond the prefix length")),
            ("10.0.0.0/08", Some("must not have leading 0s in IP or prefix length")),
            ("10.0.0.0/33", Some("(e.g. 10.9.8.0/24 or 2001:db8::/64)")),
            ("10.0.0.0", Some("(e.g. 10.9.8.0/24 or 2001:db8::/64)")),
        ] {
            let found = told(cidr, text);
            assert_eq!(found.is_some(), want.is_some(), "{text}");
            assert!(found.unwrap_or_default().ends_with(want.unwrap_or_default()), "{text}");
        }
        let mut said = Vec::new();
        address_warnings(&mut said, "010.0.0.5", "f");
        address_warnings(&mut said, "FD00::1", "f");
        range_warnings(&mut said, "10.0.0.1/8", "f");
        assert_eq!(
            said,
            [
                r#"f: non-standard IP address "010.0.0.5" is invalid: use "10.0.0.5""#,
                r#"f: IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")"#,
                r#"f: CIDR value "10.0.0.1/8" is ambiguous in this context (should be "10.0.0.0/8" or "10.0.0.1/32"?)"#,
            ]
        );
    }
}
