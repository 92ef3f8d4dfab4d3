//! What becomes of an event in view of those before it.
//!
//! In: occurrences, one at a time. Out: write a new Event, count an existing
//! one up, or nothing. Many that differ only in their message become one; the
//! same one again is counted; a source that says too much about one object is
//! not heard for a while. The figures are those that users know from other
//! controllers. Invariant: memory is bounded; the least recent is forgotten.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use lru::LruCache;

use super::Occurrence;
use crate::contract::EventKind;

/// How much is remembered of each source, of each kind.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// So many different messages within [`SIMILAR_WITHIN`] of the one before are
/// combined.
const SIMILAR: usize = 10;

/// See [`SIMILAR`].
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);

/// What a source may say about one object at once.
const BURST: f64 = 25.0;

/// What it may say more for each second that passes.
const REFILL: f64 = 1.0 / 300.0;

/// Before the message of a combined event.
const COMBINED: &str = "(combined from similar events): ";

/// What makes two events ones of the same object, source and type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct About {
    component: String,
    kind: String,
    namespace: String,
    name: String,
    uid: String,
    api_version: String,
    warning: bool,
}

/// What makes two events similar; with a message, what makes them the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    about: About,
    reason: String,
    message: Option<String>,
}

struct Similar {
    messages: HashSet<String>,
    last: Timestamp,
}

/// An Event that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written {
    /// Its name.
    pub(super) name: String,
    /// How often it happened.
    pub(super) count: i32,
    /// When it happened first.
    pub(super) first: Timestamp,
}

struct Tokens {
    left: f64,
    at: Timestamp,
}

/// What is to be done about an occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Under what [`Correlator::wrote`] is told of the result.
    pub(super) identity: Identity,
    /// Name, count and first time of the Event.
    pub(super) written: Written,
    /// Its message.
    pub(super) message: String,
}

/// Remembers what was said.
#[derive(Default)]
pub(super) struct Correlator {
    /// By component: one that says much makes none of the others forgotten.
    sources: HashMap<String, Source>,
    names: Names,
}

/// What names of Events end with: the time, later for each, so that no two are
/// the same, whichever controllers they come from.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(Arc<AtomicI64>);

impl Names {
    fn next(&self, now: Timestamp) -> i64 {
        let now = i64::try_from(now.as_nanosecond()).unwrap_or(i64::MAX - 1);
        let later = |last: i64| Some(now.max(last.saturating_add(1)));
        let last = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later).unwrap_or_default();
        later(last).unwrap_or(now)
    }
}

/// What one source has said.
struct Source {
    similar: LruCache<Identity, Similar>,
    written: LruCache<Identity, Written>,
    tokens: LruCache<About, Tokens>,
}

impl Default for Source {
    fn default() -> Self {
        Self { similar: remembering(), written: remembering(), tokens: remembering() }
    }
}

/// An empty cache. It is given its size afterwards, so as to take memory for
/// what it holds and not for what it may hold.
fn remembering<K: Hash + Eq, V>() -> LruCache<K, V> {
    let mut cache = LruCache::unbounded();
    cache.resize(REMEMBERED);
    cache
}

impl Correlator {
    /// One that has heard nothing yet and names Events by `names`.
    pub(super) fn new(names: Names) -> Self {
        Self { names, ..Self::default() }
    }

    /// Decides about an occurrence. A count of 1 is a new Event, more are an
    /// existing one. None: it is not to be heard.
    pub(super) fn judge(&mut self, occurrence: &Occurrence, now: Timestamp) -> Option<Verdict> {
        let about = About {
            component: occurrence.component.clone(),
            kind: occurrence.involved.kind.clone(),
            namespace: occurrence.involved.namespace.clone(),
            name: occurrence.involved.name.clone(),
            uid: occurrence.involved.uid.clone(),
            api_version: occurrence.involved.api_version.clone(),
            warning: occurrence.kind == EventKind::Warning,
        };
        let group = Identity { about: about.clone(), reason: occurrence.reason.clone(), message: None };
        let source = self.sources.entry(about.component.clone()).or_default();
        let (identity, message) = if source.combine(&group, &occurrence.message, now) {
            (group, format!("{COMBINED}{}", occurrence.message))
        } else {
            (Identity { message: Some(occurrence.message.clone()), ..group }, occurrence.message.clone())
        };
        let written = match source.written.get(&identity) {
            Some(before) => Written { count: before.count.saturating_add(1), ..before.clone() },
            None => {
                let name = event_name(&occurrence.involved.name, self.names.next(now));
                Written { name, count: 1, first: now }
            }
        };
        // Counted even if it is not heard, so that the count is right once it
        // is again. The first one is remembered only when it has been written.
        if written.count > 1 {
            source.written.put(identity.clone(), written.clone());
        }
        source.heard(about, now).then_some(Verdict { identity, written, message })
    }

    /// Notes an Event that now exists.
    pub(super) fn wrote(&mut self, identity: Identity, written: Written) {
        let source = self.sources.entry(identity.about.component.clone()).or_default();
        source.written.put(identity, written);
    }
}

impl Source {
    /// Whether an event is one of too many similar ones.
    fn combine(&mut self, group: &Identity, message: &str, now: Timestamp) -> bool {
        let fresh = || Similar { messages: HashSet::new(), last: now };
        let similar = self.similar.get_or_insert_mut(group.clone(), fresh);
        if now.duration_since(similar.last).unsigned_abs() > SIMILAR_WITHIN {
            *similar = fresh();
        }
        similar.last = now;
        if similar.messages.contains(message) {
            return false;
        }
        // No more need be remembered to know that there are too many.
        let many = similar.messages.len() + 1 >= SIMILAR;
        if !many {
            similar.messages.insert(message.to_owned());
        }
        many
    }

    /// Whether a source may still speak about an object.
    fn heard(&mut self, about: About, now: Timestamp) -> bool {
        let tokens = self.tokens.get_or_insert_mut(about, || Tokens { left: BURST, at: now });
        let passed = now.duration_since(tokens.at).as_secs_f64().max(0.0);
        tokens.left = (tokens.left + passed * REFILL).min(BURST);
        tokens.at = now;
        let heard = tokens.left >= 1.0;
        if heard {
            tokens.left -= 1.0;
        }
        heard
    }
}

/// Name of a new Event: the object's, and the time in nanoseconds. Names of
/// some objects are odder or longer than those of Events may be.
fn event_name(object: &str, nanos: i64) -> String {
    let suffix = format!(".{nanos:x}");
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let fits = object.len() + suffix.len() <= 253
        && object.split('.').all(|part| {
            part.chars().all(|c| plain(c) || c == '-') && part.starts_with(plain) && part.ends_with(plain)
        });
    if fits {
        return format!("{object}{suffix}");
    }
    let mut name: String =
        object.chars().map(|c| if plain(c) { c } else { '-' }).take(253 - suffix.len()).collect();
    name = name.trim_matches('-').to_owned();
    if name.is_empty() { format!("event{suffix}") } else { name + &suffix }
}

#[cfg(test)]
#[path = "correlate_tests.rs"]
mod tests;
