//! Who belongs to a controller: adoption of orphans that match its selector,
//! release of its own that no longer do.
//!
//! Invariant: nothing is adopted before an uncached read has shown the owner
//! alive, of the same uid and not being deleted; or else the garbage collector
//! might miss what was adopted.

use serde_json::{Value, json};

use crate::contract::PatchKind;
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::lookup::Ask;
use crate::meta::{ObjectMeta, OwnerReference};
use crate::plan::Action;
use crate::query::Query;
use crate::reader::from_json;
use crate::resource::Resource;
use crate::selector::Selector;
use crate::view::{JustMetadata, Object, View};

/// A view with metadata.
pub trait HasMetadata: View {
    /// What it asks for of the annotations.
    type Annotations;

    /// The metadata.
    fn metadata(&self) -> &ObjectMeta<Self::Annotations>;
}

/// The outcome of a claim.
#[derive(Debug)]
pub struct Claims<V> {
    /// What belongs to the owner once `writes` are done.
    pub owned: Vec<Object<V>>,
    /// Adoptions and releases.
    pub writes: Vec<Action>,
}

/// What a claim looks at: the objects of the owner's namespace that it
/// controls, and the orphans that match.
pub fn candidates<V: HasMetadata>(
    ctx: &Ctx<'_>,
    namespace: &str,
    owner_uid: &str,
    selector: &Selector,
) -> Result<Vec<Object<V>>> {
    let mut found = ctx.list::<V>(Query::all().namespace(namespace).controlled_by(owner_uid))?;
    if !selector.is_nothing() {
        found.extend(ctx.list::<V>(Query::all().namespace(namespace).orphans().matching(selector))?);
    }
    Ok(found)
}

/// Sorts out who of the candidates belongs to the owner. While the owner is
/// being deleted nothing is adopted or released.
pub fn claim<O: HasMetadata, V: HasMetadata>(
    ctx: &Ctx<'_>,
    owner: &O,
    selector: &Selector,
    candidates: Vec<Object<V>>,
) -> Result<Claims<V>> {
    claim_if(ctx, owner, candidates, |object| selector.matches(&object.metadata().labels))
}

/// [`claim`], where more than a selector says what belongs to the owner.
pub fn claim_if<O: HasMetadata, V: HasMetadata>(
    ctx: &Ctx<'_>,
    owner: &O,
    candidates: Vec<Object<V>>,
    belongs: impl Fn(&V) -> bool,
) -> Result<Claims<V>> {
    claim_marked(ctx, owner, candidates, None, belongs)
}

/// [`claim`], where what is adopted gets a finalizer and what is released loses
/// it.
pub fn claim_tracked<O: HasMetadata, V: HasMetadata>(
    ctx: &Ctx<'_>,
    owner: &O,
    selector: &Selector,
    candidates: Vec<Object<V>>,
    finalizer: &str,
) -> Result<Claims<V>> {
    let belongs = |object: &V| selector.matches(&object.metadata().labels);
    claim_marked(ctx, owner, candidates, Some(finalizer), belongs)
}

fn claim_marked<O: HasMetadata, V: HasMetadata>(
    ctx: &Ctx<'_>,
    owner: &O,
    candidates: Vec<Object<V>>,
    finalizer: Option<&str>,
    belongs: impl Fn(&V) -> bool,
) -> Result<Claims<V>> {
    let me = owner.metadata();
    let mut claims = Claims { owned: Vec::new(), writes: Vec::new() };
    for object in candidates {
        let meta = object.metadata();
        match meta.controller() {
            Some(controller) if controller.uid != me.uid => {}
            Some(_) if belongs(&object) => claims.owned.push(object),
            Some(_) if me.is_deleting() => {}
            Some(_) => claims.writes.push(release(&Named::of(V::RESOURCE, meta), &me.uid, finalizer)),
            None if me.is_deleting() || meta.is_deleting() || !belongs(&object) => {}
            None if !me.namespace.is_empty() && me.namespace != meta.namespace => {}
            None => {
                let owner = Named::of(O::RESOURCE, me);
                if let Err(reason) = can_adopt(ctx, &owner)? {
                    let kind = V::RESOURCE.kind;
                    return Err(Error::Retry(format!(
                        "can't adopt {kind} {}/{} ({}): {reason}",
                        meta.namespace, meta.name, meta.uid
                    )));
                }
                claims.writes.push(adopt(&owner, &Named::of(V::RESOURCE, meta), finalizer));
                claims.owned.push(object);
            }
        }
    }
    Ok(claims)
}

/// Whom a write is about.
struct Named<'a> {
    resource: Resource,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
}

impl<'a> Named<'a> {
    fn of<A>(resource: Resource, meta: &'a ObjectMeta<A>) -> Self {
        Self { resource, namespace: &meta.namespace, name: &meta.name, uid: &meta.uid }
    }
}

/// Reads the owner past the cache.
fn can_adopt(ctx: &Ctx<'_>, me: &Named<'_>) -> Result<Result<(), String>> {
    let kind = me.resource.kind;
    let text = match ctx.look_up(Ask::get(me.resource, me.namespace, me.name))? {
        Ok(text) => text,
        Err(failure) => return Ok(Err(failure.message)),
    };
    let live: JustMetadata = from_json(&text).map_err(|e| {
        Error::Retry(format!("cannot read the live {kind} {}/{}: {e}", me.namespace, me.name))
    })?;
    Ok(if live.metadata.uid != me.uid {
        Err(format!(
            "original {kind} {}/{} is gone: got uid {}, wanted {}",
            me.namespace, me.name, live.metadata.uid, me.uid
        ))
    } else if let Some(since) = live.metadata.deletion_timestamp {
        Err(format!("{}/{} has just been deleted at {since}", me.namespace, me.name))
    } else {
        Ok(())
    })
}

// Strategic patches, since they add to or take from the list of owners whatever
// else is in it; the uid in the body makes the server refuse a namesake.

fn adopt(me: &Named<'_>, object: &Named<'_>, finalizer: Option<&str>) -> Action {
    let owner = OwnerReference::controller(me.resource, me.name, me.uid);
    let mut body = json!({ "metadata": { "uid": object.uid, "ownerReferences": [owner.to_json()] } });
    if let Some(finalizer) = finalizer {
        body["metadata"]["finalizers"] = json!([finalizer]);
    }
    strategic(object, &body, "adopt")
}

fn release(object: &Named<'_>, owner_uid: &str, finalizer: Option<&str>) -> Action {
    let mut body = json!({ "metadata": {
        "uid": object.uid,
        "ownerReferences": [{ "$patch": "delete", "uid": owner_uid }],
    } });
    if let Some(finalizer) = finalizer {
        body["metadata"]["$deleteFromPrimitiveList/finalizers"] = json!([finalizer]);
    }
    strategic(object, &body, "release")
}

fn strategic(object: &Named<'_>, body: &Value, tag: &str) -> Action {
    Action::patch(object.resource, object.namespace, object.name, PatchKind::Strategic, body)
        .uid(object.uid)
        .tag(tag)
}
