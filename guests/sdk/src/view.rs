//! Views: what a controller sees of an object, and the memo of parsed ones.
//!
//! Invariant: the memo never changes a result. It is keyed by the reference's
//! id and version, which never name two contents, and forgets by halves, so
//! that it holds at most twice [`Memo::HALF`] objects.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::contract::ObjectRef;
use crate::error::{Error, Result};
use crate::meta::ObjectMeta;
use crate::reader::from_json;
use crate::resource::Resource;
use crate::snapshot::Snapshot;

/// What a controller sees of a resource's objects: a plain `Deserialize` struct
/// with the fields it uses. The manifest's paths are derived from it.
pub trait View: DeserializeOwned + 'static {
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

    fn deref(&self) -> &V {
        &self.view
    }
}

impl<V> AsRef<V> for Object<V> {
    fn as_ref(&self) -> &V {
        &self.view
    }
}

type MemoKey = (TypeId, u32, u32);
type Parsed = (u32, Rc<dyn Any>);

/// Parsed objects by view, resource and id.
#[derive(Default)]
pub(crate) struct Memo {
    young: HashMap<MemoKey, Parsed>,
    old: HashMap<MemoKey, Parsed>,
}

thread_local! {
    static MEMO: RefCell<Memo> = RefCell::default();
}

impl Memo {
    /// Objects in each half.
    const HALF: usize = 32_768;

    fn get<V: 'static>(&mut self, reference: &ObjectRef) -> Option<Rc<V>> {
        let key = (TypeId::of::<V>(), reference.resource, reference.id);
        if let Some((version, parsed)) = self.young.get(&key) {
            return if *version == reference.version { Rc::clone(parsed).downcast().ok() } else { None };
        }
        let (version, parsed) = self.old.remove(&key)?;
        if version != reference.version {
            return None;
        }
        self.insert(key, version, Rc::clone(&parsed));
        parsed.downcast().ok()
    }

    fn insert(&mut self, key: MemoKey, version: u32, parsed: Rc<dyn Any>) {
        if self.young.len() >= Self::HALF {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, (version, parsed));
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
pub(crate) fn read<V: DeserializeOwned + 'static>(
    snapshot: &dyn Snapshot,
    refs: Vec<ObjectRef>,
) -> Result<Vec<Object<V>>> {
    let mut views: Vec<Option<Rc<V>>> =
        MEMO.with_borrow_mut(|memo| refs.iter().map(|reference| memo.get(reference)).collect());
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
            let key = (TypeId::of::<V>(), refs[i].resource, refs[i].id);
            let parsed: Rc<dyn Any> = Rc::clone(&view) as Rc<dyn Any>;
            MEMO.with_borrow_mut(|memo| memo.insert(key, refs[i].version, parsed));
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
#[derive(Deserialize)]
pub(crate) struct JustMetadata {
    pub(crate) metadata: ObjectMeta,
}
