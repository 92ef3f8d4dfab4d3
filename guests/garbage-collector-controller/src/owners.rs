//! What has become of the owners of an object.

use coxswain_sdk::contract::Failure;
use coxswain_sdk::{Ask, Ctx, Error, Object, OwnerReference, Query, Result, from_json};

use crate::Node;
use crate::kinds::{Kinds, group_of};

/// What has become of one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It exists.
    Solid,
    /// It exists, and waits for its dependents to go.
    Waiting,
    /// It does not exist.
    Absent,
}

/// What has become of the owners of an object.
#[derive(Debug, Default)]
pub struct Owners {
    /// Each reference with its owner's fate.
    pub fates: Vec<(OwnerReference, Fate)>,
    /// References to an owner in another namespace, or from an object of the
    /// cluster into a namespace.
    pub misplaced: Vec<OwnerReference>,
    /// Whether a reference cannot be judged: it names a kind that nobody
    /// serves, or breaks the rules in a way that time does not mend.
    pub undecided: bool,
    /// Whether some owner was found only at the API server. No change of it
    /// wakes anybody.
    pub unwatched: bool,
}

impl Owners {
    /// Whether any owner has this fate.
    pub fn any(&self, fate: Fate) -> bool {
        self.fates.iter().any(|(_, f)| *f == fate)
    }

    /// Whether the owner that a reference names has this fate.
    pub fn has(&self, reference: &OwnerReference, fate: Fate) -> bool {
        self.fates.iter().any(|(r, f)| r == reference && *f == fate)
    }
}

/// Looks the owners of an object up, in the cache and, where it does not show
/// them, at the API server.
pub fn classify(ctx: &Ctx<'_>, node: &Node) -> Result<Owners> {
    let mut owners = Owners::default();
    let mut unseen: Vec<&OwnerReference> = Vec::new();
    for reference in &node.metadata.owner_references {
        // Several, where groups share the storage of a resource.
        let cached: Vec<Object<Node>> = ctx.list(Query::all().every_resource().uid(&reference.uid))?;
        if let Some(owner) = cached.iter().find(|owner| is_in_place(node, reference, owner)) {
            owners.fates.push((reference.clone(), fate_of(owner)));
            continue;
        }
        if cached.iter().any(|owner| !is_reachable(node, owner)) {
            owners.misplaced.push(reference.clone());
        }
        unseen.push(reference);
    }
    if unseen.is_empty() {
        return Ok(owners);
    }
    let Some(asks) = asks(ctx, node, &unseen) else {
        owners.undecided = true;
        return Ok(owners);
    };
    // Nothing is deleted on the word of a cache: who seems to be gone is asked for.
    let answers = ctx.look_up_all(asks.iter().cloned())?;
    for ((reference, ask), answer) in unseen.into_iter().zip(asks).zip(answers) {
        let fate = match live(&reference.kind, &ask, answer)? {
            Some(owner) if owner.metadata.uid == reference.uid => fate_of(&owner),
            _ => Fate::Absent,
        };
        owners.unwatched |= fate != Fate::Absent;
        owners.fates.push((reference.clone(), fate));
    }
    Ok(owners)
}

/// What to ask about owners that the cache does not show; none if that cannot
/// be said of all of them.
fn asks(ctx: &Ctx<'_>, node: &Node, unseen: &[&OwnerReference]) -> Option<Vec<Ask>> {
    // Only here, since it subscribes: a kind that comes to be served wakes the key.
    let kinds = Kinds::of(ctx);
    let ask = |reference: &&OwnerReference| {
        let kind = kinds.find(&reference.api_version, &reference.kind)?;
        let namespace = match (kind.namespaced, node.metadata.namespace.as_str()) {
            (true, "") => return None,
            (true, namespace) => namespace,
            (false, _) => "",
        };
        Some(Ask::get_metadata(kind.resource, namespace, &reference.name).expecting_uid(&reference.uid))
    };
    unseen.iter().map(ask).collect()
}

/// Whether a cached object of the right uid is what the reference names, and
/// where it may be. Its version is of no account: objects are the same in all.
pub fn is_in_place(node: &Node, reference: &OwnerReference, owner: &Node) -> bool {
    is_reachable(node, owner)
        && owner.metadata.name == reference.name
        && owner.kind == reference.kind
        && group_of(&owner.api_version) == group_of(&reference.api_version)
}

/// Whether an object may own another: in its namespace, or of the cluster.
fn is_reachable(node: &Node, owner: &Node) -> bool {
    let namespace = &owner.metadata.namespace;
    namespace.is_empty() || *namespace == node.metadata.namespace
}

fn fate_of(owner: &Node) -> Fate {
    if owner.waits_for_dependents() { Fate::Waiting } else { Fate::Solid }
}

/// An object as the API server has it; none if it has none. Whatever else it
/// answers says nothing about the object.
pub fn live(kind: &str, ask: &Ask, answer: Result<String, Failure>) -> Result<Option<Node>> {
    let reason = match answer {
        Ok(text) => match from_json(&text) {
            Ok(object) => return Ok(Some(object)),
            Err(e) => format!("cannot read the answer: {e}"),
        },
        Err(failure) if failure.status == 404 => return Ok(None),
        Err(failure) => failure.message,
    };
    let Ask::Get { namespace, name, uid, .. } = ask else { return Err(Error::retry(reason)) };
    let slash = if namespace.is_empty() { "" } else { "/" };
    Err(Error::retry(format!(
        "cannot tell whether {kind} {namespace}{slash}{name} of uid {uid} exists: {reason}"
    )))
}
