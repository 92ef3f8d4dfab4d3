//! Sets of completion indexes, as intervals, and their text: `1,3-5,7`.
//!
//! Invariant: intervals are in order, do not touch and are not empty. Whatever
//! is done costs by the number of intervals, not of indexes.

use coxswain_sdk::sort::sort_by_key;

/// A set of indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexes(Vec<Interval>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval {
    first: i64,
    last: i64,
}

impl FromIterator<i64> for Indexes {
    fn from_iter<I: IntoIterator<Item = i64>>(indexes: I) -> Self {
        Self::joined(indexes.into_iter().map(|index| Interval { first: index, last: index }).collect())
    }
}

impl Indexes {
    fn joined(mut intervals: Vec<Interval>) -> Self {
        sort_by_key(&mut intervals, |interval| interval.first);
        let mut joined: Vec<Interval> = Vec::with_capacity(intervals.len());
        for interval in intervals {
            match joined.last_mut() {
                Some(last) if interval.first <= last.last.saturating_add(1) => {
                    last.last = last.last.max(interval.last);
                }
                _ => joined.push(interval),
            }
        }
        Self(joined)
    }

    /// Reads the text form. Indexes of `completions` and above are left out, as
    /// are parts that cannot be read.
    pub fn parse(text: &str, completions: i64) -> Self {
        let interval = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (i64, i64) = (first.parse().ok()?, last.parse().ok()?);
            let last = last.min(completions.saturating_sub(1));
            (0 <= first && first <= last).then_some(Interval { first, last })
        };
        Self::joined(text.split(',').filter_map(interval).collect())
    }

    /// The indexes of either.
    pub fn union(&self, other: &Self) -> Self {
        Self::joined(self.0.iter().chain(&other.0).copied().collect())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn total(&self) -> i64 {
        self.0.iter().map(|interval| interval.last - interval.first + 1).sum()
    }

    /// Whether an index is among them.
    pub fn has(&self, index: i64) -> bool {
        let at = self.0.partition_point(|interval| interval.last < index);
        self.0.get(at).is_some_and(|interval| interval.first <= index)
    }

    /// How many are in both.
    pub fn in_common(&self, other: &Self) -> i64 {
        let (mut mine, mut others) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut common = 0;
        while let (Some(a), Some(b)) = (mine.peek(), others.peek()) {
            common += (a.last.min(b.last) - a.first.max(b.first) + 1).max(0);
            if a.last < b.last {
                mine.next();
            } else {
                others.next();
            }
        }
        common
    }

    /// The first `count` indexes below `completions` that are not among them.
    pub fn first_missing(&self, count: usize, completions: i64) -> Vec<i64> {
        let mut missing = Vec::new();
        let mut next = 0;
        let end = Interval { first: completions, last: completions };
        for interval in self.0.iter().chain([&end]) {
            let gap = next..interval.first.min(completions);
            missing.extend(gap.take(count - missing.len()));
            next = interval.last.saturating_add(1);
        }
        missing
    }
}

impl std::fmt::Display for Indexes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, interval) in self.0.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            write!(f, "{comma}{}", interval.first)?;
            match interval.last - interval.first {
                0 => {}
                1 => write!(f, ",{}", interval.last)?,
                _ => write!(f, "-{}", interval.last)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
