//! Time zones: which offset holds when.
//!
//! The data comes from the IANA database by way of the build script, which says
//! what it leaves out. Before 2014 a zone is taken to have the offset that it had
//! at the end of 2013.

mod rule;
#[cfg(test)]
mod tests;

use rule::{Change, Day, Rule, Summer};

include!(concat!(env!("OUT_DIR"), "/zones.rs"));

/// A time zone.
#[derive(Debug, PartialEq)]
pub struct Zone {
    /// Offset before the first change, in seconds east of Greenwich.
    first: i32,
    /// Changes: when, and the offset from then on.
    changes: &'static [(i64, i32)],
    /// What holds after the last change.
    rule: Rule,
}

/// UTC.
pub static UTC: Zone = Zone { first: 0, changes: &[], rule: Rule { standard: 0, summer: None } };

/// A time in which the offset stays the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// When it began, and the offset before.
    pub begin: Option<(i64, i32)>,
    /// The offset.
    pub offset: i32,
    /// When it ends: the first second that is no longer of it.
    pub end: Option<i64>,
}

impl Zone {
    /// The zone of a name, as Go's `time.LoadLocation` takes it. There is no
    /// machine here whose zone `Local` could be: it is UTC.
    pub fn named(name: &str) -> Result<&'static Self, String> {
        if matches!(name, "" | "UTC" | "Local") {
            return Ok(&UTC);
        }
        if name.contains("..") || name.starts_with(['/', '\\']) {
            return Err("time: invalid location name".to_owned());
        }
        let found = NAMES.binary_search_by_key(&name, |(known, _)| known).ok();
        let zone = found.and_then(|at| ZONES.get(usize::from(NAMES[at].1)));
        zone.ok_or_else(|| format!("unknown time zone {name}"))
    }

    /// The span of time around a time.
    pub fn span(&self, utc: i64) -> Span {
        let next = self.changes.partition_point(|(at, _)| *at <= utc);
        let end = self.changes.get(next).map(|(at, _)| *at);
        let before = |at: usize| at.checked_sub(1).map_or(self.first, |at| self.changes[at].1);
        let begin = next.checked_sub(1).map(|at| (self.changes[at].0, before(at)));
        if end.is_some() {
            return Span { begin, offset: before(next), end };
        }
        self.ruled(utc, begin)
    }

    /// The span around a time after the last change, which began with `begin`.
    fn ruled(&self, utc: i64, begin: Option<(i64, i32)>) -> Span {
        let by_rule = self.rule.around(utc);
        let next = by_rule.partition_point(|(at, _)| *at <= utc);
        let end = by_rule.get(next).map(|(at, _)| *at);
        let Some(last) = next.checked_sub(1) else {
            return Span { begin, offset: self.rule.standard, end };
        };
        let (at, offset) = by_rule[last];
        let before = last.checked_sub(1).map_or(self.rule.standard, |before| by_rule[before].1);
        // The rule takes over where the last change was, which may be in the middle of a span.
        let begin = begin.filter(|begin| begin.0 >= at).unwrap_or((at, before));
        Span { begin: Some(begin), offset, end }
    }

    /// The offset at a time, in seconds east of Greenwich.
    pub fn offset(&self, utc: i64) -> i32 {
        self.span(utc).offset
    }
}
