//! The resources of the cluster, each under a number.
//!
//! In: what discovery found, what manifests declare, how far each informer has
//! come. Out: numbers, names, and the list that guests are shown. Invariant: a
//! number belongs to one group, version and resource for as long as the process
//! lives, whether the cluster serves that resource or not.

mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};

use crate::contract::{GroupResource, ResourceInfo, Scope, SyncState};
use table::Table;

/// Whether a declaration names every resource.
pub fn is_wildcard(resource: &GroupResource) -> bool {
    resource.group == "*" && resource.resource == "*"
}

/// A resource that the API server serves.
#[derive(Clone, Debug, PartialEq)]
pub struct Discovered {
    /// Its name.
    pub name: GroupResource,
    /// Kind of its objects.
    pub kind: String,
    /// Whether it is namespaced.
    pub scope: Scope,
    /// Verbs, as discovery lists them.
    pub verbs: Vec<String>,
    /// Whether this is the version of the resource that its group prefers. One
    /// version of each resource should be; it is what a wildcard reads.
    pub preferred: bool,
}

/// A version of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersion {
    /// Group; empty for the core group.
    pub group: String,
    /// Version.
    pub version: String,
}

impl std::fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.version)
        } else {
            write!(f, "{}/{}", self.group, self.version)
        }
    }
}

/// What one discovery changed. A resource that is still served, but with
/// another kind or scope, has vanished and appeared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveryDiff {
    /// Numbers that are served now and were not.
    pub appeared: Vec<u32>,
    /// Numbers that were served and are no more.
    pub vanished: Vec<u32>,
}

/// The table of resources. Shared; every method is quick.
pub struct Registry {
    table: RwLock<Table>,
    list: Mutex<(u32, Arc<[ResourceInfo]>)>,
    changes: watch::Sender<u32>,
    rediscover: Notify,
}

impl Registry {
    /// A registry that knows nothing yet.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            table: RwLock::default(),
            list: Mutex::new((0, Arc::from([]))),
            changes: watch::Sender::new(0),
            rediscover: Notify::new(),
        })
    }

    /// The number of a declared resource, given at once even if the cluster
    /// lacks it. Not for the wildcard, which is no resource: that yields 0, the
    /// number of nothing.
    pub fn declare(&self, resource: &GroupResource) -> u32 {
        if is_wildcard(resource) {
            return 0;
        }
        self.change(|table| table.declare(resource))
    }

    /// The number of a resource that the cluster serves in exactly this version.
    pub fn resolve(&self, resource: &GroupResource) -> Option<u32> {
        self.table.read().resolve(resource)
    }

    /// What is known of a resource, be it absent.
    pub fn info(&self, number: u32) -> Option<ResourceInfo> {
        self.table.read().info(number)
    }

    /// Name of a resource, be it absent.
    pub fn name(&self, number: u32) -> Option<GroupResource> {
        self.table.read().entry(number).map(|entry| entry.name.clone())
    }

    /// All resources, by number, as guests see them: each that is served in its
    /// preferred version, and each that is declared.
    pub fn all(&self) -> Arc<[ResourceInfo]> {
        let table = self.table.read();
        let mut list = self.list.lock();
        if list.0 != table.version {
            *list = (table.version, table.list());
        }
        list.1.clone()
    }

    /// Moves whenever [`Registry::all`] would differ.
    pub fn version(&self) -> u32 {
        self.table.read().version
    }

    /// Notes how far the cache of a resource has come. A resource that is not
    /// served stays absent, and one that is served cannot be made so: that is
    /// for discovery alone to say.
    pub fn set_state(&self, number: u32, state: SyncState) {
        self.change(|table| table.set_state(number, state));
    }

    /// State of the cache of a resource; absent if the number is unknown.
    pub fn state(&self, number: u32) -> SyncState {
        self.table.read().state(number)
    }

    /// Whether a resource is namespaced; false if nothing is known of it.
    pub fn namespaced(&self, number: u32) -> bool {
        self.table.read().served(number).is_some_and(|served| served.scope == Scope::Namespaced)
    }

    /// apiVersion and kind of a resource's objects, once it was served.
    pub fn kind_of(&self, number: u32) -> Option<(String, String)> {
        let table = self.table.read();
        let entry = table.entry(number)?;
        let served = table.served(number)?;
        let version = GroupVersion { group: entry.name.group.clone(), version: entry.name.version.clone() };
        Some((version.to_string(), served.kind.clone()))
    }

    /// Whether a resource is served with the verbs that an informer needs.
    pub fn watchable(&self, number: u32) -> bool {
        let table = self.table.read();
        table.state(number) != SyncState::Absent
            && table
                .served(number)
                .is_some_and(|s| ["list", "watch"].iter().all(|verb| s.verbs.iter().any(|v| v == verb)))
    }

    /// Whether a wildcard reads this resource: it is served, in its group's
    /// preferred version, and can be watched. Events are left out, as
    /// kube-controller-manager leaves them out of its garbage collector: they
    /// are many, own nothing, and go by themselves.
    pub fn in_wildcard(&self, number: u32) -> bool {
        let table = self.table.read();
        let preferred = table.served(number).is_some_and(|served| served.preferred && served.kind != "Event");
        drop(table);
        preferred && self.watchable(number)
    }

    /// Takes the result of a complete discovery.
    pub fn update(&self, discovered: Vec<Discovered>) -> DiscoveryDiff {
        self.update_except(discovered, &[])
    }

    /// Takes the result of a discovery that got no, or no current, answer for
    /// some group versions: those keep what they had.
    pub fn update_except(&self, discovered: Vec<Discovered>, unanswered: &[GroupVersion]) -> DiscoveryDiff {
        self.change(|table| table.update(discovered, unanswered))
    }

    /// Follows [`Registry::version`].
    pub fn changes(&self) -> watch::Receiver<u32> {
        self.changes.subscribe()
    }

    /// Asks for a discovery soon: something was refused as if it were not there.
    pub fn request_discovery(&self) {
        self.rediscover.notify_one();
    }

    /// Waits for [`Registry::request_discovery`].
    pub async fn discovery_requested(&self) {
        self.rediscover.notified().await;
    }

    fn change<T>(&self, work: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = self.table.write();
        let before = table.version;
        let result = work(&mut table);
        // Sent under the lock, so that receivers never see the number go back.
        if table.version != before {
            self.changes.send_replace(table.version);
        }
        result
    }
}
