//! Views: what a controller sees of an object, and the memo of parsed ones.
//!
//! Invariant: the memo never changes a result. It is keyed by the reference's
//! id and version, which never name two contents, and forgets by halves, so
//! that it holds at most twice [`Memo::HALF`] objects.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::rc::Rc;

use crate::contract::ObjectRef;
use crate::error::{Error, Result};
use crate::meta::ObjectMeta;
use crate::read::FromJson;
use crate::reader::from_json;
use crate::resource::Resource;
use crate::snapshot::Snapshot;

/// What a controller sees of a resource's objects: a plain `FromJson` struct
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
/// plain vector; one object costs an index rather than a hash. Tables are few.
#[derive(Default)]
pub(crate) struct Memo {
    tables: Vec<Table>,
    /// Counts the halves that were forgotten.
    epoch: u32,
    /// Objects used in this epoch.
    used: usize,
}

/// Objects of one view and resource.
struct Table {
    view: TypeId,
    resource: u32,
    slots: Vec<Slot>,
}

#[derive(Default)]
struct Slot {
    version: u32,
    /// The epoch in which it was last used.
    epoch: u32,
    parsed: Option<Parsed>,
}

/// A view, whichever.
type Parsed = Rc<dyn Any>;

thread_local! {
    static MEMO: RefCell<Memo> = RefCell::default();
}

impl Memo {
    /// Objects in each half.
    const HALF: usize = 32_768;

    /// What is known of these objects.
    fn get(&mut self, view: TypeId, refs: &[ObjectRef]) -> Vec<Option<Parsed>> {
        let mut views = Vec::with_capacity(refs.len());
        for run in refs.chunk_by(|a, b| a.resource == b.resource) {
            let mut table =
                self.tables.iter_mut().find(|table| table.view == view && table.resource == run[0].resource);
            for reference in run {
                let slot = table.as_deref_mut().and_then(|table| table.slots.get_mut(reference.id as usize));
                views.push(slot.filter(|slot| slot.version == reference.version).and_then(|slot| {
                    let parsed = slot.parsed.clone()?;
                    if std::mem::replace(&mut slot.epoch, self.epoch) != self.epoch {
                        self.used += 1;
                    }
                    Some(parsed)
                }));
            }
        }
        views
    }

    fn insert(&mut self, view: TypeId, reference: &ObjectRef, parsed: Parsed) {
        if self.used >= Self::HALF {
            self.forget_older_half();
        }
        let resource = reference.resource;
        let known = self.tables.iter().position(|table| table.view == view && table.resource == resource);
        let table = known.unwrap_or_else(|| {
            self.tables.push(Table { view, resource, slots: Vec::new() });
            self.tables.len() - 1
        });
        let slots = &mut self.tables[table].slots;
        let at = reference.id as usize;
        if slots.len() <= at {
            slots.resize_with(at + 1, Slot::default);
        }
        slots[at] = Slot { version: reference.version, epoch: self.epoch, parsed: Some(parsed) };
        self.used += 1;
    }

    /// Keeps what was used since this was last done.
    fn forget_older_half(&mut self) {
        for Table { slots, .. } in &mut self.tables {
            for slot in slots.iter_mut().filter(|slot| slot.epoch != self.epoch) {
                slot.parsed = None;
            }
            let end = slots.iter().rposition(|slot| slot.parsed.is_some()).map_or(0, |last| last + 1);
            slots.truncate(end);
            slots.shrink_to_fit();
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
    let parse = |text: &str| from_json::<V>(text).map(|view| Rc::new(view) as Parsed);
    let views = read_any(snapshot, &refs, TypeId::of::<V>(), std::any::type_name::<V>(), &parse)?;
    let mut objects = Vec::with_capacity(refs.len());
    for (reference, view) in refs.into_iter().zip(views) {
        if let Some(Ok(view)) = view.map(Rc::downcast) {
            objects.push(Object { reference, view });
        }
    }
    Ok(objects)
}

/// [`read`], compiled once for all views.
fn read_any(
    snapshot: &dyn Snapshot,
    refs: &[ObjectRef],
    view: TypeId,
    name: &str,
    parse: &dyn Fn(&str) -> Result<Parsed, String>,
) -> Result<Vec<Option<Parsed>>> {
    let mut views = MEMO.with_borrow_mut(|memo| memo.get(view, refs));
    let mut wanted = Vec::new();
    for (reference, view) in refs.iter().zip(&views) {
        if view.is_none() {
            wanted.push(*reference);
        }
    }
    if wanted.is_empty() {
        return Ok(views);
    }
    let texts = snapshot.read(&wanted).map_err(Error::Retry)?;
    if texts.len() != wanted.len() {
        return Err(Error::Retry(format!("asked for {} objects, got {}", wanted.len(), texts.len())));
    }
    let mut read = wanted.iter().zip(&texts);
    for unread in views.iter_mut().filter(|view| view.is_none()) {
        let Some((reference, text)) = read.next() else { break };
        let parsed =
            parse(text).map_err(|e| Error::Terminal(format!("cannot read {name} {}: {e}", name_in(text))))?;
        MEMO.with_borrow_mut(|memo| memo.insert(view, reference, Rc::clone(&parsed)));
        *unread = Some(parsed);
    }
    Ok(views)
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

    fn insert<V: 'static>(memo: &mut Memo, reference: &ObjectRef, view: V) {
        memo.insert(TypeId::of::<V>(), reference, Rc::new(view));
    }

    fn get<V: Clone + 'static>(memo: &mut Memo, refs: &[ObjectRef]) -> Vec<Option<V>> {
        let views = memo.get(TypeId::of::<V>(), refs).into_iter();
        views.map(|view| view.map(|view| view.downcast_ref::<V>().unwrap().clone())).collect()
    }

    #[test]
    fn what_is_known_is_of_one_view_one_version_and_one_resource() {
        let memo = &mut Memo::default();
        insert(memo, &of(7, 1), "seven");
        assert_eq!(get::<&str>(memo, &[of(7, 1)]), [Some("seven")]);
        let others = [of(7, 2), of(6, 1), of(8, 1), ObjectRef { resource: 2, ..of(7, 1) }];
        assert_eq!(get::<&str>(memo, &others), [None, None, None, None]);
        assert_eq!(get::<u32>(memo, &[of(7, 1)]), [None]);
        insert(memo, &of(7, 2), "another");
        assert_eq!(get::<&str>(memo, &[of(7, 1)]), [None]);
    }

    #[test]
    fn what_is_not_used_is_forgotten_and_what_is_used_is_not() {
        let memo = &mut Memo::default();
        let all = 3 * Memo::HALF as u32;
        for id in 0..all {
            insert(memo, &of(id, 1), id);
            assert_eq!(get::<u32>(memo, &[of(0, 1)]), [Some(0)], "it is used all the time");
        }
        let refs: Vec<_> = (0..all).map(|id| of(id, 1)).collect();
        let kept = get::<u32>(memo, &refs).into_iter().flatten().count();
        assert!((Memo::HALF..=2 * Memo::HALF + 1).contains(&kept), "{kept} are kept");
        assert_eq!(get::<u32>(memo, &[of(1, 1)]), [None]);
    }
}
