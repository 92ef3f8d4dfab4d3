//! What modules may do: what their manifests declare, cut by what the operator
//! allows.
//!
//! ```text
//! policy file ─► Policies ─► Grants, one a controller ─► store (reads), executor (writes, lookups, events)
//! ```
//!
//! In: a policy. Out: yes or no, at each door of the host. Invariants: with no
//! policy everything that a manifest declares is granted; a policy that cannot
//! be used never takes the place of one that can; each refusal is counted.

mod follow;
mod path;
mod policy;
mod rules;

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};

pub use follow::Policies;
pub use path::{ResourceRequest, request_of_path};
pub use policy::{Policy, PolicyError};
pub use rules::{Access, Entry, Place, Rule};

use crate::contract::{GroupResource, display_name};

/// Whether the entries of a policy allow something.
pub fn allow(entries: &[Entry], access: &Access<'_>) -> bool {
    rules::allow(entries, access)
}

/// Refusals that are told in the log one by one, for each controller. The rest
/// is counted.
const TOLD: usize = 100;

/// What was refused, counted since the start.
#[derive(Debug, Default)]
pub struct Refusals {
    /// Reads of the cache.
    pub reads: AtomicU64,
    /// Plans with writes that are not declared or not granted.
    pub writes: AtomicU64,
    /// Lookups.
    pub lookups: AtomicU64,
    /// Events.
    pub events: AtomicU64,
    /// Keys that the policy leaves no controller.
    pub keys: AtomicU64,
}

/// The same for `coxswain status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RefusalCounts {
    /// Reads of the cache.
    pub reads: u64,
    /// Plans with writes that are not declared or not granted.
    pub writes: u64,
    /// Lookups.
    pub lookups: u64,
    /// Events.
    pub events: u64,
    /// Keys in places that are not granted.
    pub keys: u64,
}

impl RefusalCounts {
    /// What was refused at all, in words; none if nothing was.
    pub fn summary(&self) -> Option<String> {
        let all = self.named();
        let some: Vec<String> = all
            .iter()
            .filter(|(_, times)| *times > 0)
            .map(|(what, times)| format!("{what} {times}"))
            .collect();
        (!some.is_empty()).then(|| some.join(", "))
    }

    /// Each count with its name.
    pub fn named(&self) -> [(&'static str, u64); 5] {
        let Self { reads, writes, lookups, events, keys } = *self;
        [("keys", keys), ("reads", reads), ("plans", writes), ("lookups", lookups), ("events", events)]
    }
}

/// What one controller is granted, over all versions of its module.
#[derive(Debug, Default)]
pub struct Grants {
    controller: String,
    /// Whether no rule is about it.
    open: AtomicBool,
    entries: RwLock<Arc<[Entry]>>,
    /// What was refused.
    pub refusals: Refusals,
    told: Mutex<HashSet<String>>,
}

impl Grants {
    /// Everything that the manifest declares.
    pub fn everything(controller: &str) -> Arc<Self> {
        Arc::new(Self { controller: controller.to_owned(), open: AtomicBool::new(true), ..Self::default() })
    }

    /// What these entries allow.
    pub fn with(controller: &str, entries: Vec<Entry>) -> Arc<Self> {
        let grants = Self::everything(controller);
        grants.set(entries);
        grants
    }

    /// Puts other rules in place. Says whether they differ.
    pub fn set(&self, entries: Vec<Entry>) -> bool {
        let mut current = self.entries.write();
        if **current == *entries {
            return false;
        }
        self.open.store(entries.is_empty(), Ordering::Release);
        *current = entries.into();
        self.told.lock().clear();
        true
    }

    /// Whether nothing is cut.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Whether something is allowed.
    pub fn allow(&self, access: &Access<'_>) -> bool {
        self.is_open() || rules::allow(&self.entries.read(), access)
    }

    /// Whether objects of a resource may be read from the cache: that is what
    /// list and watch are.
    pub fn allow_read(&self, resource: &GroupResource, place: Place<'_>) -> bool {
        self.is_open()
            || ["list", "watch"]
                .iter()
                .all(|verb| self.allow(&Access::Resource { verb, resource, subresource: "", place }))
    }

    /// Why a read is refused.
    pub fn no_read(&self, resource: &GroupResource, place: Place<'_>) -> String {
        format!(
            "the operator's policy does not grant {} list and watch of {}{}",
            self.controller,
            display_name(resource),
            show(place)
        )
    }

    /// Counts a refusal, and tells it the first time.
    pub fn refuse(&self, what: &'static str, counter: &AtomicU64, reason: &str) {
        counter.fetch_add(1, Ordering::Relaxed);
        let mut told = self.told.lock();
        if told.len() < TOLD && told.insert(reason.to_owned()) {
            tracing::warn!(controller = self.controller, reason, "{what} refused");
        }
    }

    /// The counts.
    pub fn counts(&self) -> RefusalCounts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Refusals { reads, writes, lookups, events, keys } = &self.refusals;
        RefusalCounts {
            reads: count(reads),
            writes: count(writes),
            lookups: count(lookups),
            events: count(events),
            keys: count(keys),
        }
    }
}

/// A place for people, with a space before it.
pub(crate) fn show(place: Place<'_>) -> String {
    match place {
        Place::Cluster | Place::Somewhere => String::new(),
        Place::Namespace(name) => format!(" in namespace {name}"),
        Place::Everywhere => " in all namespaces".to_owned(),
    }
}
