//! One copy of what many objects repeat: namespaces, label sets, owners.
//!
//! Invariant: an entry lives as long as an object uses it; what nobody uses any
//! more is swept out whenever the table has doubled.

use std::{
    borrow::Borrow,
    collections::HashSet,
    hash::{BuildHasherDefault, DefaultHasher, Hash},
    sync::Arc,
};

use parking_lot::Mutex;

use super::object::{Labels, Owners};

/// Hashes alike in each run, so that a simulation can be repeated.
pub(super) type Hasher = BuildHasherDefault<DefaultHasher>;

/// The shared values of a store.
#[derive(Default)]
pub(super) struct Interner {
    texts: Mutex<Pool<str>>,
    labels: Mutex<Pool<Labels>>,
    owners: Mutex<Pool<Owners>>,
    lists: Mutex<Pool<[Arc<str>]>>,
}

struct Pool<T: ?Sized> {
    entries: HashSet<Arc<T>, Hasher>,
    sweep_at: usize,
}

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self { entries: HashSet::default(), sweep_at: 1024 }
    }
}

impl<T: ?Sized + Hash + Eq> Pool<T> {
    fn get<Q>(&mut self, value: &Q, make: impl FnOnce() -> Arc<T>) -> Arc<T>
    where
        Arc<T>: Borrow<Q>,
        Q: ?Sized + Hash + Eq,
    {
        if let Some(found) = self.entries.get(value) {
            return found.clone();
        }
        if self.entries.len() >= self.sweep_at {
            self.entries.retain(|entry| Arc::strong_count(entry) > 1);
            self.sweep_at = (self.entries.len() * 2).max(1024);
        }
        let made = make();
        self.entries.insert(made.clone());
        made
    }
}

impl Interner {
    pub(super) fn text(&self, text: &str) -> Arc<str> {
        self.texts.lock().get(text, || text.into())
    }

    pub(super) fn labels(&self, labels: Labels) -> Arc<Labels> {
        self.labels.lock().get(&labels, || Arc::new(labels.clone()))
    }

    pub(super) fn owners(&self, owners: Owners) -> Arc<Owners> {
        self.owners.lock().get(&owners, || Arc::new(owners.clone()))
    }

    pub(super) fn list(&self, texts: Vec<Arc<str>>) -> Arc<[Arc<str>]> {
        self.lists.lock().get(&*texts, || texts.as_slice().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_texts_are_one_and_unused_ones_go() {
        let interner = Interner::default();
        let kept = interner.text("kept");
        assert!(Arc::ptr_eq(&kept, &interner.text("kept")));
        for n in 0..5000 {
            interner.text(&n.to_string());
        }
        assert!(interner.texts.lock().entries.len() <= 1025);
        assert!(Arc::ptr_eq(&kept, &interner.text("kept")));
    }
}
