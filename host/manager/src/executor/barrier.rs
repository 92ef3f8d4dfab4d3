//! Read your own writes: what the cache must have seen before a key that wrote
//! is reconciled again.
//!
//! In: answers to writes. Out: whether the cache has caught up. Invariant: what
//! was written is waited for without an end. It passes, or its resource becomes
//! absent; a barrier that takes long is reported and goes on holding. Only a
//! conflict, which wrote nothing, holds for a limited time.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

use super::cached::Cached;
use crate::{key::Key, store::UidState};

/// How long a key waits until that is worth a warning.
const SLOW: Duration = Duration::from_secs(30);

/// The least pause between two looks at the barriers when nothing is heard from
/// the store: a resource that becomes absent need not tick it.
const POLL: Duration = Duration::from_secs(1);

/// How long a conflict holds a key. Where the object really had moved the cache
/// shows that long before; a proxy or a webhook may answer 409 about an object
/// that never moves, and then the key's backoff is all that is needed.
const CONFLICT_HOLD: Duration = Duration::from_millis(200);

/// Something the cache has to show first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// The informer of a resource has passed this resourceVersion.
    Version {
        /// Number of the resource.
        resource: u32,
        /// The resourceVersion.
        version: u64,
    },
    /// The object of this uid is gone.
    Gone {
        /// Number of the resource.
        resource: u32,
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// Uid.
        uid: String,
        /// Whether it does as well if it is being deleted.
        or_deleting: bool,
    },
    /// The cached object is another than the one a write took it for, or gone.
    Moved {
        /// Number of the resource.
        resource: u32,
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// The resourceVersion that was sent.
        sent: String,
    },
}

impl Barrier {
    /// Number of the resource it is about.
    pub fn resource(&self) -> u32 {
        match self {
            Self::Version { resource, .. } | Self::Gone { resource, .. } | Self::Moved { resource, .. } => {
                *resource
            }
        }
    }

    /// Whether the cache has got there.
    pub fn passed(&self, cache: &dyn Cached) -> bool {
        if cache.absent(self.resource()) {
            return true;
        }
        match self {
            Self::Version { resource, version } => {
                cache.observed(*resource).is_some_and(|seen| seen >= *version)
            }
            Self::Gone { resource, namespace, name, uid, or_deleting } => {
                match cache.uid_state(*resource, namespace, name, uid) {
                    UidState::Live => false,
                    UidState::Deleting => *or_deleting,
                    UidState::Gone => true,
                }
            }
            Self::Moved { resource, namespace, name, sent } => cache
                .by_name(*resource, namespace, name)
                .is_none_or(|seen| differs(&seen.resource_version, sent)),
        }
    }
}

/// Whether the cache has moved on from what was sent. What was sent may be
/// newer than the cache, since writes of one plan build upon each other: an
/// older object is then no news.
fn differs(cached: &str, sent: &str) -> bool {
    match (cached.parse::<u64>(), sent.parse::<u64>()) {
        (Ok(cached), Ok(sent)) => cached > sent,
        _ => cached != sent,
    }
}

impl Barrier {
    /// What it waits for, in words.
    pub fn describe(&self, cache: &dyn Cached) -> String {
        let resource = cache.show(self.resource());
        match self {
            Self::Version { version, .. } => format!("{resource} to reach resourceVersion {version}"),
            Self::Gone { namespace, name, uid, or_deleting, .. } => {
                let deleting = if *or_deleting { " or deleting" } else { "" };
                format!("{resource} {namespace}/{name} (uid {uid}) to be gone{deleting}")
            }
            Self::Moved { namespace, name, sent, .. } => {
                format!("{resource} {namespace}/{name} to move on from resourceVersion {sent}")
            }
        }
    }
}

/// The barriers of one key. They outlive the forgetting of the key and a new
/// object of its name.
#[derive(Clone, Debug, Default)]
pub struct Barriers {
    versions: HashMap<u32, u64>,
    others: Vec<Barrier>,
}

impl Barriers {
    /// Adds what a plan left, keeping only the highest version per resource.
    pub fn merge(&mut self, more: impl IntoIterator<Item = Barrier>) {
        for barrier in more {
            match barrier {
                Barrier::Version { resource, version } => {
                    let highest = self.versions.entry(resource).or_default();
                    *highest = version.max(*highest);
                }
                other => {
                    if !self.others.contains(&other) {
                        self.others.push(other);
                    }
                }
            }
        }
    }

    /// Drops what has passed. True if nothing is left.
    pub fn settle(&mut self, cache: &dyn Cached) -> bool {
        self.versions.retain(|&resource, &mut version| !Barrier::Version { resource, version }.passed(cache));
        self.others.retain(|barrier| !barrier.passed(cache));
        self.is_empty()
    }

    /// Drops what only holds because of a conflict. True if there was any.
    fn end_conflicts(&mut self) -> bool {
        let before = self.others.len();
        self.others.retain(|barrier| !matches!(barrier, Barrier::Moved { .. }));
        self.others.len() < before
    }

    /// Whether nothing holds the key.
    pub fn is_empty(&self) -> bool {
        self.versions.is_empty() && self.others.is_empty()
    }

    /// What holds the key, in words; not all of it where that is much.
    pub fn describe(&self, cache: &dyn Cached) -> String {
        let versions =
            self.versions.iter().map(|(&resource, &version)| Barrier::Version { resource, version });
        let mut waits: Vec<String> =
            versions.chain(self.others.iter().cloned()).take(4).map(|b| b.describe(cache)).collect();
        let left = self.versions.len() + self.others.len() - waits.len();
        if left > 0 {
            waits.push(format!("{left} more"));
        }
        waits.join(", ")
    }
}

/// Waits until all barriers have passed.
pub async fn wait_passed(barriers: &mut Barriers, cache: &dyn Cached, controller: &str, key: &Key) {
    let mut progress = cache.progress();
    let started = Instant::now();
    let mut warned = false;
    while !barriers.settle(cache) {
        if started.elapsed() >= CONFLICT_HOLD && barriers.end_conflicts() {
            continue;
        }
        if !warned && started.elapsed() >= SLOW {
            warned = true;
            tracing::warn!(controller, %key, waits_for = barriers.describe(cache), "the cache has not shown this key's own writes for a while; still waiting");
        }
        let hold = CONFLICT_HOLD.saturating_sub(started.elapsed());
        let pause = if hold.is_zero() { POLL } else { hold };
        tokio::select! {
            changed = progress.changed() => if changed.is_err() {
                // The store is gone and will show nothing any more.
                std::future::pending::<()>().await;
            },
            () = tokio::time::sleep(pause) => {}
        }
    }
    if warned {
        tracing::info!(controller, %key, waited = ?started.elapsed(), "the cache has caught up");
    }
}

#[cfg(test)]
#[path = "barrier_tests.rs"]
mod tests;
