//! A range of addresses that is dealt out in equal shares, by number.

use coxswain_sdk::sort::{map_of, sort_by};
use std::collections::BTreeMap;

use crate::cidr::Cidr;

/// A range, and how large a share of it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The range.
    pub whole: Cidr,
    /// Prefix of a share.
    pub share: u32,
}

impl Range {
    /// How many shares there are.
    pub fn shares(&self) -> u64 {
        1_u64.checked_shl(self.share.saturating_sub(self.whole.prefix)).unwrap_or(u64::MAX)
    }

    /// The share of this number.
    pub fn share(&self, number: u64) -> Cidr {
        let family = self.whole.family;
        let offset = u128::from(number).checked_shl(family.bits() - self.share).unwrap_or(0);
        Cidr::new(family, self.whole.first | offset, self.share)
    }

    /// The first and the last share that a block has a part of; None if it has
    /// none.
    pub fn shares_of(&self, block: &Cidr) -> Option<(u64, u64)> {
        if !self.whole.overlaps(block) {
            return None;
        }
        if block.prefix <= self.whole.prefix {
            return Some((0, self.shares() - 1));
        }
        Some((self.number_of(block.first)?, self.number_of(block.last())?))
    }

    fn number_of(&self, address: u128) -> Option<u64> {
        let offset = address.checked_sub(self.whole.first)?;
        u64::try_from(offset.checked_shr(self.whole.family.bits() - self.share).unwrap_or(0)).ok()
    }
}

/// Which shares of a range are taken.
#[derive(Debug, Default)]
pub struct Taken {
    /// First and last share of each run, no two of which touch the same share.
    runs: BTreeMap<u64, u64>,
}

impl Taken {
    /// Shares in these runs, in any order.
    pub fn new(mut runs: Vec<(u64, u64)>) -> Self {
        sort_by(&mut runs, Ord::cmp);
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (first, last) in runs {
            match merged.last_mut() {
                Some(before) if first <= before.1 => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self { runs: map_of(merged) }
    }

    /// Takes the first free share from this one on, and from the beginning once
    /// the end is reached. None if none is free.
    pub fn take(&mut self, range: &Range, from: u64) -> Option<u64> {
        let end = range.shares();
        let from = if from < end { from } else { 0 };
        let free = self.free_in(from, end).or_else(|| self.free_in(0, from))?;
        self.runs.insert(free, free);
        Some(free)
    }

    fn free_in(&self, from: u64, end: u64) -> Option<u64> {
        let mut candidate = from;
        while candidate < end {
            match self.runs.range(..=candidate).next_back() {
                Some((_, last)) if *last >= candidate => candidate = last.checked_add(1)?,
                _ => return Some(candidate),
            }
        }
        None
    }
}
