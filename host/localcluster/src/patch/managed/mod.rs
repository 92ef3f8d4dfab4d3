//! Ownership of fields: recorded on every write, enforced by server-side apply.
//!
//! In: the present object, the wanted one, who writes. Out: the object with `metadata.managedFields`, or the conflicts.
//! Invariant: fields the server fills in itself belong to nobody.

mod apply;
mod compare;
mod entries;
mod merge;
mod set;
mod shape;

pub use apply::apply_ssa;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::RwLock;
use serde_json::{Value, json};

use crate::kinds::value::{at, child, items, remove, set as put, text};
use crate::rest::strategy::Kind;
use compare::compare;
use entries::{Manager, Managers, Owned};
use set::{Element, FieldSet};
use shape::Node;

/// Updates by more managers than this are joined into one entry.
const MAX_UPDATERS: usize = 10;
const JOINED: &str = "ancient-changes";

/// Fields that belong to nobody.
const STRIPPED: [&[&str]; 11] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "clusterName"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
];

/// Drops what belongs to nobody, and what this subresource does not write.
fn strip(kind: &Kind, sub: &str, fields: FieldSet) -> FieldSet {
    written(kind, sub, fields.without(&STRIPPED))
}

/// Drops what a write through this subresource does not change.
fn written(kind: &Kind, sub: &str, fields: FieldSet) -> FieldSet {
    if kind.subresource("status").is_none() {
        return fields;
    }
    let always = match sub {
        "" => "status",
        "status" => "spec",
        _ => return fields,
    };
    let kept = kind.strategy.kept(sub);
    let paths: Vec<Vec<&str>> = kept.iter().map(|p| p.split('.').collect()).collect();
    let paths: Vec<&[&str]> = paths.iter().map(Vec::as_slice).collect();
    fields.without(&[&[always]]).without(&paths)
}

/// The managers an update starts from: those it sends if they make sense, else the present ones.
fn starting_point(old: Option<&Value>, new: &Value, sub: &str) -> Managers {
    let live = || old.and_then(|o| Managers::decode(&o["metadata"]["managedFields"])).unwrap_or_default();
    if !sub.is_empty() {
        return live();
    }
    let sent = items(&new["metadata"], "managedFields");
    if let [one] = sent {
        let blank =
            one.as_object().is_some_and(|entry| entry.values().all(|v| v.is_null() || *v == json!("")));
        if blank {
            return Managers::default();
        }
    }
    match Managers::decode(&new["metadata"]["managedFields"]) {
        Some(managers) if !managers.is_empty() => managers,
        _ => live(),
    }
}

/// Records a write that is not an apply.
pub fn on_write(kind: &Kind, old: Option<&Value>, new: &mut Value, manager: &str, sub: &str, now: &str) {
    let mut managers = starting_point(old, new, sub);
    if !new["metadata"].is_object() {
        return;
    }
    remove(&mut new["metadata"], "managedFields");
    // Its own managedFields differ from none at all, but they are nobody's field.
    let empty;
    let before = match old {
        Some(old) => old,
        None => {
            empty = blank(kind);
            &*empty
        }
    };
    let tracked = old.is_none() || !managers.is_empty();
    if tracked && sub == "scale" {
        scaled(kind, before, new, &mut managers, manager, "Update");
    } else if tracked {
        let writer = Manager {
            name: if manager.is_empty() { "unknown".into() } else { manager.into() },
            operation: "Update".into(),
            api_version: kind.api_version(),
            subresource: sub.into(),
        };
        update(kind, before, new, &mut managers, &writer, now);
        cap(&mut managers);
    }
    store(&managers, new);
}

/// Records an apply of the scale of an object.
pub fn on_scale_apply(kind: &Kind, old: &Value, new: &mut Value, manager: &str) {
    let mut managers = starting_point(Some(old), new, "scale");
    if !managers.is_empty() {
        remove(&mut new["metadata"], "managedFields");
        scaled(kind, old, new, &mut managers, manager, "Apply");
        store(&managers, new);
    }
}

/// Who owns the replicas of an object, as managers of its scale.
pub fn owners_of_scale(kind: &Kind, object: &Value) -> Vec<Value> {
    let path = replicas_path(kind);
    let mut replicas = FieldSet::default();
    replicas.insert(&[Element::Field("spec".into()), Element::Field("replicas".into())]);
    let mut managers = Managers::decode(&object["metadata"]["managedFields"]).unwrap_or_default();
    managers.all.retain(|owned| owned.fields.contains(&path));
    for owned in &mut managers.all {
        owned.manager.api_version = "autoscaling/v1".into();
        owned.fields = replicas.clone();
    }
    managers.encode()
}

fn replicas_path(kind: &Kind) -> Vec<Element> {
    kind.strategy.replicas_path().split('.').map(|step| Element::Field(step.to_owned())).collect()
}

fn store(managers: &Managers, object: &mut Value) {
    let list = managers.encode();
    if list.is_empty() {
        remove(&mut object["metadata"], "managedFields");
    } else {
        put(child(object, "metadata"), "managedFields", list);
    }
}

/// What a new object of the kind is compared with: one with nothing but what is always there.
fn blank(kind: &Kind) -> Arc<Value> {
    static BLANKS: LazyLock<RwLock<HashMap<String, Arc<Value>>>> = LazyLock::new(RwLock::default);
    let make = || {
        let mut out = json!({"metadata": {}});
        crate::schema::normalize(kind, &mut out);
        Arc::new(out)
    };
    if kind.custom {
        return make();
    }
    let key = kind.type_meta();
    if let Some(blank) = BLANKS.read().get(&key) {
        return blank.clone();
    }
    BLANKS.write().entry(key).or_insert_with(make).clone()
}

fn update(kind: &Kind, old: &Value, new: &Value, managers: &mut Managers, writer: &Manager, now: &str) {
    let found = compare(Node::root(kind), old, new);
    let sub = &writer.subresource;
    let touched = written(kind, sub, found.modified.joined(found.added));
    let removed = written(kind, sub, found.removed);
    for owned in &mut managers.all {
        owned.fields = owned.fields.difference(&touched).difference(&removed);
    }
    let taken = strip(kind, &writer.subresource, touched);
    if !taken.is_empty() {
        match managers.find(writer) {
            Some(owned) => {
                owned.fields = owned.fields.union(&taken);
                owned.time = now.into();
            }
            None => {
                managers.all.push(Owned { manager: writer.clone(), fields: taken, time: now.into() });
            }
        }
    }
    managers.all.retain(|o| !o.fields.is_empty());
}

/// A scale takes the replicas from whoever owns them; if nobody does, nothing is recorded.
fn scaled(kind: &Kind, old: &Value, new: &Value, managers: &mut Managers, manager: &str, operation: &str) {
    let path = replicas_path(kind);
    let changed = {
        let found = compare(Node::root(kind), old, new);
        found.modified.union(&found.added).union(&found.removed).contains(&path)
    };
    let owned = managers.all.iter().any(|o| o.fields.contains(&path));
    // An apply shares what it finds as it wants it.
    if !owned || !(changed || operation == "Apply") {
        return;
    }
    let mut replicas = FieldSet::default();
    replicas.insert(&path);
    let scaler = Manager {
        name: manager.into(),
        operation: operation.into(),
        api_version: kind.api_version(),
        subresource: "scale".into(),
    };
    for owned in managers.all.iter_mut().filter(|o| changed && o.manager != scaler) {
        owned.fields = owned.fields.difference(&replicas);
    }
    // A Scale leaves zero out, so that whoever scales down to it owns nothing.
    let zero = operation == "Update" && at(new, kind.strategy.replicas_path()) == 0;
    if zero {
        managers.all.iter_mut().for_each(|owned| owned.fields = owned.fields.difference(&replicas));
    } else if managers.find(&scaler).is_none() {
        managers.all.push(Owned { manager: scaler, fields: replicas, time: Value::Null });
    }
    managers.all.retain(|o| !o.fields.is_empty());
}

/// Joins the oldest updates of the same version when there are too many.
fn cap(managers: &mut Managers) {
    let mut updates: Vec<Owned> = Vec::new();
    managers.all.retain(|o| {
        let update = o.manager.operation == "Update";
        if update {
            updates.push(o.clone());
        }
        !update
    });
    updates.sort_by(|a, b| text(&json!({"t": a.time}), "t").cmp(text(&json!({"t": b.time}), "t")));
    while updates.len() > MAX_UPDATERS {
        let oldest = updates.remove(0);
        let version = oldest.manager.api_version.clone();
        let joined = Manager {
            name: JOINED.into(),
            operation: "Update".into(),
            api_version: version,
            subresource: String::new(),
        };
        match updates.iter_mut().find(|o| o.manager == joined) {
            Some(owned) => owned.fields = owned.fields.union(&oldest.fields),
            None => updates.insert(0, Owned { manager: joined.clone(), ..oldest }),
        }
        if updates.len() > MAX_UPDATERS && updates[0].manager == joined {
            // The joined entry is kept; the next oldest joins it.
            let next = updates.remove(1);
            updates[0].fields = updates[0].fields.union(&next.fields);
        }
    }
    managers.all.extend(updates);
}
