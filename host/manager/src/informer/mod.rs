//! Informers: one for each resource that the store wants, each a list and a
//! watch that keep the store at what the API server holds.
//!
//! In: the store's wishes, the registry's resources, the API server's answers.
//! Out: objects in the store, states in the registry. Invariant: one writer for
//! each resource, and none for a resource that nobody wants or nobody serves.
//!
//! Our own loop instead of kube-runtime's watcher, because the read-your-writes
//! barrier needs bookmarks and the resourceVersion of each list.

mod backoff;
mod catch_up;
mod follow;
mod reader;
mod status;
pub(crate) mod stream;
mod supervise;
#[cfg(test)]
mod tests;
pub(crate) mod trouble;
pub(crate) mod wire;

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::{sync::watch, task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    api::{ApiClient, ApiError},
    clock::SharedClock,
    contract::{GroupResource, SyncState},
    entropy::Entropy,
    registry::Registry,
    store::Store,
};

pub use status::InformerStatus;
use status::StatusTable;

/// What all informers share.
struct Shared {
    api: ApiClient,
    registry: Arc<Registry>,
    store: Arc<Store>,
    clock: SharedClock,
    entropy: Entropy,
    status: StatusTable,
    /// For each informer, what somebody waits for.
    targets: Mutex<HashMap<u32, watch::Sender<Target>>>,
    /// When the list was begun that each cache stands on.
    lists_begun: Mutex<HashMap<u32, Instant>>,
}

/// What somebody waits for.
#[derive(Clone, Copy, Debug, Default)]
struct Target {
    /// That the cache has come to this resourceVersion.
    version: u64,
    /// A list is the quickest way there, rather than a watch's bookmark.
    by_list: bool,
}

impl Shared {
    /// Notes state and trouble; tells the store of a new state. Returns whether
    /// anything is new.
    fn set(&self, number: u32, state: SyncState, trouble: Option<String>) -> bool {
        let before = self.registry.state(number);
        self.registry.set_state(number, state);
        if self.registry.state(number) != before {
            self.store.sync_changed(number);
        }
        self.status.set(number, state, trouble, self.clock.now())
    }
}

/// The informers of a process.
#[derive(Clone)]
pub struct Informers(Arc<Shared>);

impl Informers {
    /// Begins to follow what the store wants, until cancelled. The handle ends
    /// once every informer has.
    pub fn start(
        api: ApiClient,
        registry: Arc<Registry>,
        store: Arc<Store>,
        clock: SharedClock,
        entropy: Entropy,
        cancel: CancellationToken,
    ) -> (Self, JoinHandle<()>) {
        let shared = Arc::new(Shared {
            api,
            registry,
            store,
            clock,
            entropy,
            status: StatusTable::default(),
            targets: Mutex::default(),
            lists_begun: Mutex::default(),
        });
        let handle = tokio::spawn(supervise::run(shared.clone(), cancel));
        (Self(shared), handle)
    }

    /// How each informer fares, by number of the resource.
    pub fn status(&self) -> Vec<InformerStatus> {
        self.0.status.all()
    }

    /// Informers that run.
    pub fn running(&self) -> usize {
        self.0.targets.lock().len()
    }

    /// The newest resourceVersion the API server has for a resource.
    pub async fn latest(&self, resource: u32) -> Result<String, ApiError> {
        let name = self
            .0
            .registry
            .name(resource)
            .ok_or_else(|| ApiError::no_answer(format!("no resource has the number {resource}")))?;
        reader::latest(&self.0.api, &name).await
    }

    /// Waits until the cache of a resource has come to `resource_version`.
    /// Without events a watch says where it stands about once a minute, so one
    /// that is behind is opened anew in a way that has the server say it soon.
    /// Returns at once, and false, if no informer follows the resource.
    pub async fn reach(&self, resource: u32, resource_version: u64) -> bool {
        self.come_to(resource, Target { version: resource_version, by_list: false }).await
    }

    async fn come_to(&self, resource: u32, wanted: Target) -> bool {
        let resource_version = wanted.version;
        let mut progress = self.0.store.progress();
        loop {
            if self.0.store.observed(resource).is_some_and(|observed| observed >= resource_version) {
                return true;
            }
            {
                let targets = self.0.targets.lock();
                let Some(target) = targets.get(&resource) else { return false };
                target.send_if_modified(|target| {
                    let further = target.version < resource_version || wanted.by_list && !target.by_list;
                    target.version = resource_version.max(target.version);
                    target.by_list |= wanted.by_list;
                    further
                });
            }
            if progress.changed().await.is_err() {
                return false;
            }
        }
    }
}

/// How a resource is called in logs: `deployments.apps`.
pub(crate) fn label(name: &GroupResource) -> String {
    if name.group.is_empty() { name.resource.clone() } else { format!("{}.{}", name.resource, name.group) }
}
