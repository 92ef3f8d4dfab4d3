//! Views: what a controller sees of an object, and the memo of parsed ones.
//!
//! Invariant: the memo never changes a result. It is keyed by the reference's
//! id and version, which never name two contents, and forgets by halves, so
//! that it holds at most twice [`Memo::HALF`] objects.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::contract::ObjectRef;
use crate::error::{Error, Result};
use crate::meta::ObjectMeta;
use crate::read::FromJson;
use crate::reader::from_json;
use crate::resource::Resource;
use crate::snapshot::Snapshot;

/// What a controller sees of a resource's objects: a plain `Deserialize` struct
/// with the fields it uses. The manifest's paths are derived from it.
pub trait View: FromJson + 'static {
    /// The resource.
    const RESOURCE: Resource;
}

/// A cached object: its view, and the reference that preconditions name.
#[derive(Debug)]
pub struct Object<V> {
    reference: ObjectRef,
    view: Rc<V>,
}

impl<V> Object<V> {
    /// An object from its parts, for tests.
    pub fn new(reference: ObjectRef, view: V) -> Self {
        Self { reference, view: Rc::new(view) }
    }

    /// The reference, as the snapshot gave it.
    pub fn reference(&self) -> ObjectRef {
        self.reference
    }
}

impl<V> Clone for Object<V> {
    fn clone(&self) -> Self {
        Self { reference: self.reference, view: Rc::clone(&self.view) }
    }
}

impl<V> std::ops::Deref for Object<V> {
    type Target = V;

    #[inline]
    fn deref(&self) -> &V {
        &self.view
    }
}

impl<V> AsRef<V> for Object<V> {
    fn as_ref(&self) -> &V {
        &self.view
    }
}

/// Parsed objects by view, resource and id. Ids are dense slots, so a table is a
/// plain vector; one object costs an index rather than a hash.
#[derive(Default)]
pub(crate) struct Memo {
    tables: HashMap<(TypeId, u32), Vec<Slot>>,
    /// Counts the halves that were forgotten.
    epoch: u32,
    /// Objects used in this epoch.
    used: usize,
}

#[derive(Default)]
struct Slot {
    version: u32,
    /// The epoch in which it was last used.
    epoch: u32,
    parsed: Option<Rc<dyn Any>>,
}

thread_local! {
    static MEMO: RefCell<Memo> = RefCell::default();
}

impl Memo {
    /// Objects in each half.
    const HALF: usize = 32_768;

    /// What is known of these objects.
    fn get<V: 'static>(&mut self, refs: &[ObjectRef]) -> Vec<Option<Rc<V>>> {
        let mut views = Vec::with_capacity(refs.len());
        for run in refs.chunk_by(|a, b| a.resource == b.resource) {
            let mut table = self.tables.get_mut(&(TypeId::of::<V>(), run[0].resource));
            for reference in run {
                let slot = table.as_deref_mut().and_then(|table| table.get_mut(reference.id as usize));
                views.push(slot.filter(|slot| slot.version == reference.version).and_then(|slot| {
                    let parsed = slot.parsed.clone()?;
                    if std::mem::replace(&mut slot.epoch, self.epoch) != self.epoch {
                        self.used += 1;
                    }
                    parsed.downcast().ok()
                }));
            }
        }
        views
    }

    fn insert<V: 'static>(&mut self, reference: &ObjectRef, parsed: Rc<V>) {
        if self.used >= Self::HALF {
            self.forget_older_half();
        }
        let table = self.tables.entry((TypeId::of::<V>(), reference.resource)).or_default();
        let at = reference.id as usize;
        if table.len() <= at {
            table.resize_with(at + 1, Slot::default);
        }
        table[at] = Slot { version: reference.version, epoch: self.epoch, parsed: Some(parsed) };
        self.used += 1;
    }

    /// Keeps what was used since this was last done.
    fn forget_older_half(&mut self) {
        for table in self.tables.values_mut() {
            for slot in table.iter_mut().filter(|slot| slot.epoch != self.epoch) {
                slot.parsed = None;
            }
            let end = table.iter().rposition(|slot| slot.parsed.is_some()).map_or(0, |last| last + 1);
            table.truncate(end);
            table.shrink_to_fit();
        }
        self.epoch += 1;
        self.used = 0;
    }
}

/// Forgets every parsed object. Tests that start another world need it, since
/// references mean nothing outside the process that gave them.
pub fn forget_parsed() {
    MEMO.with_borrow_mut(|memo| *memo = Memo::default());
}

/// Runs something without what was parsed before, and without leaving anything:
/// to prove that the memo changes nothing.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn without_memo<T>(run: impl FnOnce() -> T) -> T {
    let kept = MEMO.take();
    let outcome = run();
    MEMO.set(kept);
    outcome
}

/// Reads the views of these objects, in one call for those not parsed yet.
pub(crate) fn read<V: FromJson + 'static>(
    snapshot: &dyn Snapshot,
    refs: Vec<ObjectRef>,
) -> Result<Vec<Object<V>>> {
    let mut views: Vec<Option<Rc<V>>> = MEMO.with_borrow_mut(|memo| memo.get(&refs));
    let unread: Vec<usize> = (0..refs.len()).filter(|&i| views[i].is_none()).collect();
    if !unread.is_empty() {
        let wanted: Vec<ObjectRef> = unread.iter().map(|&i| refs[i]).collect();
        let texts = snapshot.read(&wanted).map_err(Error::Retry)?;
        if texts.len() != wanted.len() {
            return Err(Error::Retry(format!("asked for {} objects, got {}", wanted.len(), texts.len())));
        }
        for (i, text) in unread.into_iter().zip(texts) {
            let view: Rc<V> = Rc::new(from_json(&text).map_err(|e| {
                Error::Terminal(format!("cannot read {} {}: {e}", std::any::type_name::<V>(), name_in(&text)))
            })?);
            MEMO.with_borrow_mut(|memo| memo.insert(&refs[i], Rc::clone(&view)));
            views[i] = Some(view);
        }
    }
    Ok(refs
        .into_iter()
        .zip(views)
        .filter_map(|(reference, view)| Some(Object { reference, view: view? }))
        .collect())
}

/// `namespace/name` of an object that does not parse as its view.
fn name_in(text: &str) -> String {
    from_json::<JustMetadata>(text)
        .map(|object| format!("{}/{}", object.metadata.namespace, object.metadata.name))
        .unwrap_or_default()
}

/// The least that every object has.
#[derive(FromJson)]
pub(crate) struct JustMetadata {
    pub(crate) metadata: ObjectMeta,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: u32, version: u32) -> ObjectRef {
        ObjectRef { resource: 1, id, version }
    }

    #[test]
    fn what_is_known_is_of_one_view_one_version_and_one_resource() {
        let mut memo = Memo::default();
        memo.insert(&of(7, 1), Rc::new("seven".to_owned()));
        assert_eq!(memo.get::<String>(&[of(7, 1)]), [Some(Rc::new("seven".to_owned()))]);
        let others = [of(7, 2), of(6, 1), of(8, 1), ObjectRef { resource: 2, ..of(7, 1) }];
        assert_eq!(memo.get::<String>(&others), [None, None, None, None]);
        assert_eq!(memo.get::<u32>(&[of(7, 1)]), [None]);
        memo.insert(&of(7, 2), Rc::new("another".to_owned()));
        assert_eq!(memo.get::<String>(&[of(7, 1)]), [None]);
    }

    #[test]
    fn what_is_not_used_is_forgotten_and_what_is_used_is_not() {
        let mut memo = Memo::default();
        let all = 3 * Memo::HALF as u32;
        for id in 0..all {
            memo.insert(&of(id, 1), Rc::new(id));
            assert_eq!(memo.get::<u32>(&[of(0, 1)]), [Some(Rc::new(0))], "it is used all the time");
        }
        let refs: Vec<_> = (0..all).map(|id| of(id, 1)).collect();
        let kept = memo.get::<u32>(&refs).into_iter().flatten().count();
        assert!((Memo::HALF..=2 * Memo::HALF + 1).contains(&kept), "{kept} are kept");
        assert_eq!(memo.get::<u32>(&[of(1, 1)]), [None]);
    }
}
