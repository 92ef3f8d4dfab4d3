//! Ranges of addresses.

use std::net::IpAddr;

/// A range of addresses: those that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    bits: u32,
}

impl Prefix {
    /// Reads `10.0.0.0/24`.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let plain = bits.bytes().all(|b| b.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
        let bits: u32 = bits.parse().ok().filter(|_| plain)?;
        (bits <= width(address)).then_some(Self { address, bits })
    }

    /// Whether its addresses are IPv6.
    pub fn is_v6(&self) -> bool {
        self.address.is_ipv6()
    }

    /// Whether all addresses of the other are in this.
    pub fn covers(&self, other: &Self) -> bool {
        self.bits <= other.bits && self.begins(other.address)
    }

    /// Whether a service can have this address of it: neither the first, nor for
    /// IPv4 the last.
    pub fn serves(&self, address: IpAddr) -> bool {
        let rest = self.rest(number(address));
        let last = self.rest(u128::MAX);
        self.begins(address) && rest != 0 && (address.is_ipv6() || rest != last)
    }

    /// Whether an address begins with its bits.
    fn begins(&self, address: IpAddr) -> bool {
        let same_family = self.address.is_ipv4() == address.is_ipv4();
        let host = width(self.address) - self.bits;
        let head = |number: u128| number.checked_shr(host).unwrap_or(0);
        same_family && head(number(self.address)) == head(number(address))
    }

    /// The bits of a number after its own.
    fn rest(&self, number: u128) -> u128 {
        let host = width(self.address) - self.bits;
        number & 1_u128.checked_shl(host).unwrap_or(0).wrapping_sub(1)
    }
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}
