//! The versioned store: tables of encoded objects under one global version.
//!
//! In: drafts. Out: stored versions, lists, events. Invariant: versions are given in the order in which changes become
//! visible, one at a time, over all tables.

mod history;
mod object;
mod persist;
pub(crate) mod raw;
mod table;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

pub use history::{Compacted, Event, HistoryLimits};
pub use object::{Change, Draft, Stored};
pub use persist::PersistError;
pub use table::{Batch, Listing, Range, Table, WriteError};

use crate::rest::strategy::StorageId;

/// What all tables share.
struct Shared {
    /// Held for the length of one write: the order of writes is the order of versions.
    commit: Mutex<Commit>,
    rv: AtomicU64,
    limits: HistoryLimits,
}

#[derive(Default)]
struct Commit {
    log: Option<persist::Log>,
}

impl Shared {
    fn version(&self) -> u64 {
        self.rv.load(Ordering::Acquire)
    }

    fn set_version(&self, rv: u64) {
        self.rv.store(rv, Ordering::Release);
    }
}

struct Tables {
    by_id: BTreeMap<StorageId, Arc<Table>>,
    names: Vec<StorageId>,
}

/// All objects.
pub struct Store {
    shared: Arc<Shared>,
    tables: RwLock<Tables>,
}

impl Store {
    /// An empty store.
    pub fn new(limits: HistoryLimits) -> Arc<Self> {
        let shared = Shared { commit: Mutex::default(), rv: AtomicU64::new(1), limits };
        Arc::new(Self {
            shared: Arc::new(shared),
            tables: RwLock::new(Tables { by_id: BTreeMap::new(), names: Vec::new() }),
        })
    }

    /// A store that is read from `dir` and writes every change to it.
    pub fn open(limits: HistoryLimits, dir: &Path) -> Result<Arc<Self>, PersistError> {
        let store = Self::new(limits);
        persist::open(dir, &store)?;
        Ok(store)
    }

    /// The table of a resource, made if need be. `type_meta` is `"apiVersion":"v1","kind":"Pod",` of the stored form.
    pub fn table(&self, id: &StorageId, type_meta: &str) -> Arc<Table> {
        if let Some(table) = self.tables.read().by_id.get(id) {
            return table.clone();
        }
        let mut tables = self.tables.write();
        if let Some(table) = tables.by_id.get(id) {
            return table.clone();
        }
        // The log names tables by number.
        let number = tables.names.iter().position(|n| n == id).unwrap_or_else(|| {
            tables.names.push(id.clone());
            tables.names.len() - 1
        });
        if let Some(log) = &mut self.shared.commit.lock().log {
            log.name(number as u32, id, type_meta);
        }
        let table = Arc::new(Table::new(number as u32, type_meta.into(), self.shared.clone()));
        tables.by_id.insert(id.clone(), table.clone());
        table
    }

    /// The table of a resource that exists already.
    pub fn existing(&self, id: &StorageId) -> Option<Arc<Table>> {
        self.tables.read().by_id.get(id).cloned()
    }

    /// Forgets an empty table, and its history with it.
    pub fn drop_table(&self, id: &StorageId) {
        self.tables.write().by_id.remove(id);
    }

    /// The newest version.
    pub fn version(&self) -> u64 {
        self.shared.version()
    }

    /// Forgets the history of all tables up to a version.
    pub fn compact(&self, rv: u64) {
        let tables: Vec<_> = self.tables.read().by_id.values().cloned().collect();
        tables.iter().for_each(|table| table.compact(rv));
    }

    /// Resources and their number of objects.
    pub fn stats(&self) -> Vec<(StorageId, usize)> {
        self.tables.read().by_id.iter().map(|(id, table)| (id.clone(), table.len())).collect()
    }

    /// Waits until everything written so far is on the disk; nothing without a data directory.
    pub fn flush(&self) {
        let waiter = self.shared.commit.lock().log.as_ref().map(persist::Log::flush);
        if let Some(waiter) = waiter {
            // An error means that the writer is gone, which it has logged.
            let _ = waiter.recv();
        }
    }

    fn snapshot(&self) -> Vec<(u32, StorageId, Arc<Table>)> {
        self.tables.read().numbered()
    }
}

impl Tables {
    fn numbered(&self) -> Vec<(u32, StorageId, Arc<Table>)> {
        let entry = |(id, table): (&StorageId, &Arc<Table>)| {
            let number = self.names.iter().position(|n| n == id)?;
            Some((number as u32, id.clone(), table.clone()))
        };
        self.by_id.iter().filter_map(entry).collect()
    }
}

#[cfg(test)]
mod tests;
