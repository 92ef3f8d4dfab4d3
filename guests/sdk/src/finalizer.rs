//! Finalizers: whether one is due, and the patches that put it on or take it off.
//!
//! Invariant: the patch replaces the whole list, so it is only carried out if
//! the object is still as it was seen.

use serde_json::{Value, json};

use crate::claim::HasMetadata;
use crate::error::Result;
use crate::meta::ObjectMeta;
use crate::plan::Action;
use crate::view::Object;

/// Whether the object is not being deleted and lacks the finalizer.
pub fn is_missing<A>(meta: &ObjectMeta<A>, finalizer: &str) -> bool {
    !meta.is_deleting() && !has(meta, finalizer)
}

/// Whether the object has the finalizer.
pub fn has<A>(meta: &ObjectMeta<A>, finalizer: &str) -> bool {
    meta.finalizers.iter().any(|there| there == finalizer)
}

/// The patch that protects an object by a finalizer: it is put on while the
/// object lives, and taken off once the object is being deleted and nobody uses
/// it any more. None if all is as it should be.
pub fn protect<V: HasMetadata>(
    object: &Object<V>,
    finalizer: &str,
    is_used: impl FnOnce() -> Result<bool>,
) -> Result<Option<Action>> {
    let meta = object.metadata();
    Ok(match (meta.is_deleting(), has(meta, finalizer)) {
        (false, false) => Some(add(object, finalizer)),
        (true, true) if !is_used()? => Some(remove(object, finalizer)),
        _ => None,
    })
}

/// A patch that appends the finalizer.
pub fn add<V: HasMetadata>(object: &Object<V>, finalizer: &str) -> Action {
    let there = object.metadata().finalizers.iter().map(String::as_str);
    set(object, there.chain([finalizer]).collect()).tag("add-finalizer")
}

/// A patch that takes the finalizer off.
pub fn remove<V: HasMetadata>(object: &Object<V>, finalizer: &str) -> Action {
    let there = object.metadata().finalizers.iter().map(String::as_str);
    set(object, there.filter(|there| *there != finalizer).collect()).tag("remove-finalizer")
}

fn set<V: HasMetadata>(object: &Object<V>, finalizers: Vec<&str>) -> Action {
    let meta = object.metadata();
    let list = if finalizers.is_empty() { Value::Null } else { json!(finalizers) };
    let body = json!({ "metadata": { "finalizers": list } });
    Action::merge(V::RESOURCE, &meta.namespace, &meta.name, &body).as_seen(object)
}
