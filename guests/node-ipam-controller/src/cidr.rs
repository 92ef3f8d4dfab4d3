//! Blocks of addresses, such as `10.244.0.0/16`.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A block of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// Family.
    pub family: Family,
    /// First address; its low bits count.
    pub first: u128,
    /// How many bits all addresses have in common.
    pub prefix: u32,
}

/// Family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    /// Bits of an address.
    pub fn bits(self) -> u32 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

impl Cidr {
    /// Parses a block. As in old Kubernetes, numbers of IPv4 may begin with
    /// zeros. Bits of the address beyond the prefix are dropped.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let digits = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix: u32 = prefix.parse().ok().filter(|_| digits)?;
        let (family, address) = if address.contains(':') {
            (Family::V6, address.parse::<Ipv6Addr>().ok()?.to_bits())
        } else {
            (Family::V4, v4(address)?.into())
        };
        (prefix <= family.bits()).then(|| Self::new(family, address, prefix))
    }

    /// The block of an address.
    pub fn new(family: Family, address: u128, prefix: u32) -> Self {
        Self { family, first: address & !low_bits(family.bits() - prefix), prefix }
    }

    /// Last address.
    pub fn last(&self) -> u128 {
        self.first | low_bits(self.family.bits() - self.prefix)
    }

    /// Whether the two have addresses in common; one is within the other then.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.family == other.family && self.first <= other.last() && other.first <= self.last()
    }
}

/// A number of this many low bits.
fn low_bits(bits: u32) -> u128 {
    1_u128.checked_shl(bits).map_or(u128::MAX, |bit| bit - 1)
}

fn v4(text: &str) -> Option<u32> {
    let mut address: u32 = 0;
    let mut parts = 0;
    for part in text.split('.') {
        let plain = (1..=16).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        let number: u64 = part.parse().ok().filter(|number| plain && *number <= 255)?;
        address = address << 8 | number as u32;
        parts += 1;
        if parts > 4 {
            return None;
        }
    }
    (parts == 4).then_some(address)
}

impl std::fmt::Display for Cidr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.family {
            Family::V4 => write!(f, "{}/{}", Ipv4Addr::from_bits(self.first as u32), self.prefix),
            Family::V6 => write!(f, "{}/{}", Ipv6Addr::from_bits(self.first), self.prefix),
        }
    }
}
