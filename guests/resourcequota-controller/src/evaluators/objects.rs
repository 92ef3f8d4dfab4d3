//! Any namespaced resource: the number of its objects.

use std::cell::RefCell;
use std::rc::Rc;

use coxswain_sdk::Ctx;
use coxswain_sdk::contract::{ResourceInfo, Scope, SyncState};

use super::object_count;

/// Names that are older than `count/…`.
const ALIASES: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];
/// What a resource must serve to be counted.
const VERBS: [&str; 4] = ["create", "list", "watch", "delete"];
/// Resources that were never counted.
const IGNORED: [(&str, &str); 10] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("events.k8s.io", "events"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];

/// Resources that can be counted, by the name under which they are.
type Countable = Vec<(String, Counted)>;

/// A resource that can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The cache follows the resource of this number.
    Known(u32),
    /// It is served, and cannot be listed at present.
    Unreadable,
}

thread_local! {
    static COUNTABLE: RefCell<Option<(u32, Rc<Countable>)>> = const { RefCell::new(None) };
}

/// Whether a name of a quota may stand for a number of objects.
pub fn may_count(name: &str) -> bool {
    name.starts_with("count/") || ALIASES.contains(&name)
}

/// The resource whose objects a name of a quota counts, if there is one.
/// Subscribes to the list of resources.
pub fn find(ctx: &Ctx<'_>, name: &str) -> Option<Counted> {
    let alias = ALIASES.contains(&name).then(|| object_count(name, ""));
    let name = alias.as_deref().unwrap_or(name);
    countable(ctx).iter().find(|(there, _)| there == name).map(|(_, counted)| *counted)
}

fn countable(ctx: &Ctx<'_>) -> Rc<Countable> {
    let version = ctx.resources_version();
    let known =
        COUNTABLE.with_borrow(|c| c.as_ref().filter(|(v, _)| *v == version).map(|(_, c)| Rc::clone(c)));
    known.unwrap_or_else(|| {
        let made = Rc::new(read(ctx.resources()));
        COUNTABLE.with_borrow_mut(|countable| *countable = Some((version, Rc::clone(&made))));
        made
    })
}

fn read(resources: Vec<ResourceInfo>) -> Countable {
    let mut countable = Countable::new();
    for info in resources {
        let serves = |verb: &str| info.verbs.iter().any(|served| served == verb);
        let ignored = IGNORED.contains(&(info.group.as_str(), info.resource.as_str()));
        if info.scope != Scope::Namespaced || ignored || !VERBS.iter().all(|verb| serves(verb)) {
            continue;
        }
        let counted = match info.state {
            SyncState::Synced => Counted::Known(info.number),
            SyncState::Syncing | SyncState::Failed | SyncState::Uncached => Counted::Unreadable,
            SyncState::Absent => continue,
        };
        let name = object_count(&info.resource, &info.group);
        match countable.iter_mut().find(|(there, _)| *there == name) {
            Some((_, place @ Counted::Unreadable)) => *place = counted,
            Some(_) => {}
            None => countable.push((name, counted)),
        }
    }
    countable
}
