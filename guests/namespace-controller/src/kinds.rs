//! The resources whose objects live in namespaces and can be deleted.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use coxswain_sdk::Ctx;
use coxswain_sdk::contract::{Scope, SyncState};
use coxswain_sdk::sort::sort_by_key;

/// A resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its number.
    pub number: u32,
    /// Lower-case plural.
    pub resource: String,
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Whether the cache shows what there is of it.
    pub is_cached: bool,
    /// Whether all its objects in a namespace can be deleted at once.
    pub has_collection: bool,
    /// Whether its objects can be listed.
    pub is_listable: bool,
}

impl Kind {
    /// Whether these are pods.
    pub fn is_pods(&self) -> bool {
        self.group.is_empty() && self.resource == "pods"
    }

    /// Group and version, as in `apiVersion`.
    pub fn group_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

/// By group and resource, each in one version: objects are the same in all.
pub type Kinds = BTreeMap<(String, String), Kind>;

thread_local! {
    static KINDS: RefCell<Option<(u32, Rc<Kinds>)>> = const { RefCell::new(None) };
}

/// The resources as they are now. Subscribes to them.
pub fn of(ctx: &Ctx<'_>) -> Rc<Kinds> {
    let version = ctx.resources_version();
    let known =
        KINDS.with_borrow(|kinds| kinds.as_ref().filter(|(v, _)| *v == version).map(|(_, k)| Rc::clone(k)));
    known.unwrap_or_else(|| {
        let made = Rc::new(read(ctx));
        KINDS.with_borrow_mut(|kinds| *kinds = Some((version, Rc::clone(&made))));
        made
    })
}

fn read(ctx: &Ctx<'_>) -> Kinds {
    let mut kinds = Kinds::new();
    // The host follows, or tries to follow, a group's preferred version: that one counts.
    let mut resources = ctx.resources();
    sort_by_key(&mut resources, |info| match info.state {
        SyncState::Synced => 0,
        SyncState::Syncing | SyncState::Failed => 1,
        SyncState::Uncached | SyncState::Absent => 2,
    });
    for info in resources {
        let serves = |verb: &str| info.verbs.iter().any(|served| served == verb);
        if info.scope != Scope::Namespaced || info.state == SyncState::Absent || !serves("delete") {
            continue;
        }
        let kind = Kind {
            number: info.number,
            is_cached: info.state == SyncState::Synced,
            has_collection: serves("deletecollection"),
            is_listable: serves("list"),
            resource: info.resource,
            group: info.group,
            version: info.version,
        };
        kinds.entry((kind.group.clone(), kind.resource.clone())).or_insert(kind);
    }
    kinds
}
