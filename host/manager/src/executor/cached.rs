//! What the executor asks of the cache.
//!
//! Two small traits, so that writes and barriers say what they depend on and
//! are tested without informers.

use std::sync::Arc;

use tokio::sync::watch;

use super::rules::show;
use crate::{
    contract::{ObjectRef, SyncState},
    registry::Registry,
    store::{ModuleView, Seen, Store, UidState},
};

/// The cache as far as writes and barriers are concerned.
pub trait Cached: Send + Sync {
    /// The highest resourceVersion that a resource's informer has passed.
    fn observed(&self, resource: u32) -> Option<u64>;
    /// What the cache holds under this name of this uid.
    fn uid_state(&self, resource: u32, namespace: &str, name: &str, uid: &str) -> UidState;
    /// What the cache holds under this name.
    fn by_name(&self, resource: u32, namespace: &str, name: &str) -> Option<Seen>;
    /// Whether no informer follows a resource (any more), most often because the
    /// cluster does not serve it.
    fn absent(&self, resource: u32) -> bool;
    /// Name of a resource, for people.
    fn show(&self, resource: u32) -> String;
    /// Ticks whenever another answer may have changed.
    fn progress(&self) -> watch::Receiver<u64>;
}

/// What a module saw.
pub trait SeenBy: Send + Sync {
    /// The object behind a ref, if the module's view of it is still that one.
    fn current(&self, object: &ObjectRef) -> Option<Seen>;
    /// Path of an array within a merge patch of which the module sees only part.
    fn pruned_array(&self, resource: u32, patch: &serde_json::Value) -> Option<String>;
}

impl SeenBy for ModuleView {
    fn current(&self, object: &ObjectRef) -> Option<Seen> {
        ModuleView::current(self, object)
    }

    fn pruned_array(&self, resource: u32, patch: &serde_json::Value) -> Option<String> {
        ModuleView::pruned_array(self, resource, patch)
    }
}

/// The real cache.
#[derive(Clone)]
pub struct SharedCache {
    store: Arc<Store>,
    registry: Arc<Registry>,
}

impl SharedCache {
    /// Looks at `store`, and at `registry` for what is absent.
    pub fn new(store: Arc<Store>, registry: Arc<Registry>) -> Self {
        Self { store, registry }
    }
}

impl Cached for SharedCache {
    fn observed(&self, resource: u32) -> Option<u64> {
        self.store.observed(resource)
    }

    fn uid_state(&self, resource: u32, namespace: &str, name: &str, uid: &str) -> UidState {
        self.store.uid_state(resource, namespace, name, uid)
    }

    fn by_name(&self, resource: u32, namespace: &str, name: &str) -> Option<Seen> {
        self.store.current_for_name(resource, namespace, name)
    }

    fn absent(&self, resource: u32) -> bool {
        matches!(self.registry.state(resource), SyncState::Absent | SyncState::Uncached)
    }

    fn show(&self, resource: u32) -> String {
        self.registry.name(resource).map_or_else(|| format!("resource {resource}"), |name| show(&name))
    }

    fn progress(&self) -> watch::Receiver<u64> {
        self.store.progress()
    }
}
