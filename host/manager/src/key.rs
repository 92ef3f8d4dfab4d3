//! What is reconciled: keys, and why one is woken.

use std::{fmt, sync::Arc};

use crate::contract::WireKey;

/// A key of one controller.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Position of the key source in the manifest.
    pub source: u32,
    /// Number of the resource; 0 for index values and single keys.
    pub resource: u32,
    /// Namespace; empty if there is none.
    pub namespace: Arc<str>,
    /// Name of the object, value of the index, or name of the single key.
    pub name: Arc<str>,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{self}", self.source, self.resource)
    }
}

impl From<&Key> for WireKey {
    fn from(key: &Key) -> Self {
        WireKey {
            source: key.source,
            resource: key.resource,
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
        }
    }
}

/// Why a key is woken. Only for scheduling and logs: a guest never learns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The key's own object appeared, or its view of it changed.
    Primary {
        /// Its resourceVersion now; 0 if it is not a number. Tells a change of
        /// our own from one of somebody else's.
        resource_version: u64,
    },
    /// The key's own object is gone (or the source yields the key no more).
    PrimaryGone,
    /// Something that the key's last reconcile read has changed.
    Read,
    /// Bulk: a first list, a relist, a swap, an option. Taken after all others.
    Bulk,
}

/// Who is told that a key has something to do. Implemented by a controller's
/// queue. Must be quick and must not call back into the store.
pub trait Wake: Send + Sync {
    /// Marks the key dirty.
    fn wake(&self, key: &Key, cause: Cause);
}
