//! IP addresses as Kubernetes reads them, and their families.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Serialize;

use crate::read::FromJson;

/// A family of addresses; in a slice, its address type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, FromJson)]
pub enum Family {
    /// IPv4.
    #[default]
    #[serde(rename = "IPv4")]
    V4,
    /// IPv6.
    #[serde(rename = "IPv6")]
    V6,
}

impl Family {
    /// The family of this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "IPv4" => Some(Self::V4),
            "IPv6" => Some(Self::V6),
            _ => None,
        }
    }

    /// The family of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reads an address the lenient way: numbers of an IPv4 address may begin with
/// zeros (and are decimal all the same), and an IPv4 address within IPv6 is an
/// IPv4 address.
pub fn parse(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        let address: Ipv6Addr = text.parse().ok()?;
        return Some(address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4));
    }
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        *octet = digits
            .then(|| part.trim_start_matches('0'))?
            .parse()
            .or_else(
                |e: std::num::ParseIntError| {
                    if *e.kind() == std::num::IntErrorKind::Empty { Ok(0) } else { Err(e) }
                },
            )
            .ok()?;
    }
    parts.next().is_none().then_some(IpAddr::V4(Ipv4Addr::from(octets)))
}

/// The family of an address given as text; None where it is no address.
pub fn family_of(text: &str) -> Option<Family> {
    parse(text).map(Family::of)
}
