//! From the kind that an owner reference names to the resource.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use coxswain_sdk::Ctx;
use coxswain_sdk::contract::{Scope, SyncState};

/// A resource that an owner reference can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Number of the resource.
    pub resource: u32,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

/// The resources of the cluster, by group and kind. Any served version will do:
/// objects are the same in all of them.
#[derive(Debug, Default)]
pub struct Kinds {
    by_name: HashMap<(String, String), Kind>,
    /// Whether the first list of some resource is still under way.
    pub syncing: bool,
}

thread_local! {
    static KINDS: RefCell<Option<(u32, Rc<Kinds>)>> = const { RefCell::new(None) };
}

impl Kinds {
    /// The kinds as they are now. Subscribes to them.
    pub fn of(ctx: &Ctx<'_>) -> Rc<Self> {
        let version = ctx.resources_version();
        let known = KINDS
            .with_borrow(|kinds| kinds.as_ref().filter(|(v, _)| *v == version).map(|(_, k)| Rc::clone(k)));
        known.unwrap_or_else(|| {
            let made = Rc::new(Self::read(ctx));
            KINDS.with_borrow_mut(|kinds| *kinds = Some((version, Rc::clone(&made))));
            made
        })
    }

    fn read(ctx: &Ctx<'_>) -> Self {
        let mut kinds = Self::default();
        for info in ctx.resources() {
            kinds.syncing |= info.state == SyncState::Syncing;
            if info.state == SyncState::Absent || !info.verbs.iter().any(|verb| verb == "get") {
                continue;
            }
            let kind = Kind { resource: info.number, namespaced: info.scope == Scope::Namespaced };
            kinds.by_name.entry((info.group, info.kind)).or_insert(kind);
        }
        kinds
    }

    /// The resource of a kind; none if the cluster does not serve it.
    pub fn find(&self, api_version: &str, kind: &str) -> Option<Kind> {
        self.by_name.get(&(group_of(api_version).to_owned(), kind.to_owned())).copied()
    }
}

/// The group in an API version; empty for the core group.
pub fn group_of(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

/// Forgets what was remembered; tests that start another world need it.
#[cfg(test)]
pub fn forget() {
    KINDS.with_borrow_mut(|kinds| *kinds = None);
}
