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

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.whole, self.share)
    }
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// First and last share of each run, in which no share is twice.
    runs: BTreeMap<u64, u64>,
}

impl Taken {
    /// Shares in these runs, in any order.
    pub fn new(mut runs: Vec<(u64, u64)>) -> Self {
        sort_by(&mut runs, Ord::cmp);
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (first, last) in runs {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self { runs: map_of(merged) }
    }

    /// First and last share of each run.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> {
        self.runs.iter().map(|(first, last)| (*first, *last))
    }

    /// How many shares are taken.
    pub fn len(&self) -> u64 {
        self.runs().fold(0, |sum, run| sum.saturating_add(length(run)))
    }

    /// How many shares are taken here and there.
    pub fn shared_with(&self, other: &Self) -> u64 {
        let (mut ours, mut theirs) = (self.runs().peekable(), other.runs().peekable());
        let mut shared: u64 = 0;
        while let (Some(a), Some(b)) = (ours.peek().copied(), theirs.peek().copied()) {
            let (first, last) = (a.0.max(b.0), a.1.min(b.1));
            if first <= last {
                shared = shared.saturating_add(length((first, last)));
            }
            if a.1 < b.1 {
                ours.next()
            } else {
                theirs.next()
            };
        }
        shared
    }

    /// Takes the first free share from this one on, and from the beginning once
    /// the end is reached, and says how many it passed. None if none is free.
    pub fn take(&mut self, range: &Range, from: u64) -> Option<(u64, u64)> {
        let end = range.shares();
        let from = if from < end { from } else { 0 };
        let free = self.free_in(from, end).or_else(|| self.free_in(0, from))?;
        self.runs.insert(free, free);
        let passed = if free >= from { free - from } else { (end - from).saturating_add(free) };
        Some((free, passed))
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

/// How many shares a run has.
fn length((first, last): (u64, u64)) -> u64 {
    (last - first).saturating_add(1)
}
