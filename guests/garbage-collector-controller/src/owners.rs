//! What has become of the owners of an object.

use coxswain_sdk::contract::Failure;
use coxswain_sdk::{Ask, Ctx, Error, Object, OwnerReference, Query, Result};

use crate::Node;
use crate::kinds::Kinds;

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
}

impl Owners {
    /// References whose owner's fate is one of these.
    pub fn of<'a>(&'a self, fates: &'a [Fate]) -> impl Iterator<Item = &'a OwnerReference> {
        self.fates.iter().filter(|(_, fate)| fates.contains(fate)).map(|(reference, _)| reference)
    }

    /// Whether any owner has this fate.
    pub fn any(&self, fate: Fate) -> bool {
        self.fates.iter().any(|(_, f)| *f == fate)
    }
}

/// Looks the owners of an object up, in the cache and, where it does not show
/// them, at the API server.
pub fn classify(ctx: &Ctx<'_>, node: &Node) -> Result<Owners> {
    let mut owners = Owners::default();
    let mut unseen: Vec<(OwnerReference, Ask)> = Vec::new();
    let kinds = Kinds::of(ctx);
    for reference in &node.metadata.owner_references {
        let cached: Option<Object<Node>> = ctx.list(Query::all().every_resource().uid(&reference.uid))?.pop();
        if let Some(owner) = &cached {
            if is_in_place(node, reference, owner) {
                let fate = if owner.waits_for_dependents() { Fate::Waiting } else { Fate::Solid };
                owners.fates.push((reference.clone(), fate));
                continue;
            }
            if !owner.metadata.namespace.is_empty() && owner.metadata.namespace != node.metadata.namespace {
                owners.misplaced.push(reference.clone());
            }
        }
        let Some(kind) = kinds.find(&reference.api_version, &reference.kind) else {
            // The list of resources is subscribed to: a kind that comes to be served wakes the key.
            owners.undecided = true;
            continue;
        };
        if kind.namespaced && node.metadata.namespace.is_empty() {
            owners.undecided = true;
            continue;
        }
        let namespace = if kind.namespaced { node.metadata.namespace.as_str() } else { "" };
        unseen.push((
            reference.clone(),
            Ask::get_metadata(kind.resource, namespace, &reference.name).expecting_uid(&reference.uid),
        ));
    }
    // Nothing is deleted on the word of a cache: who seems to be gone is asked for.
    if owners.undecided || unseen.is_empty() {
        return Ok(owners);
    }
    let answers = ctx.look_up_all(unseen.iter().map(|(_, ask)| ask.clone()))?;
    for ((reference, ask), answer) in unseen.into_iter().zip(answers) {
        let fate = fate_of(&reference, &ask, answer)?;
        owners.fates.push((reference, fate));
    }
    Ok(owners)
}

/// Whether a cached object of the right uid is what the reference names, and
/// where it may be: in the dependent's namespace, or of the cluster.
fn is_in_place(node: &Node, reference: &OwnerReference, owner: &Node) -> bool {
    let namespace = &owner.metadata.namespace;
    let group = |api_version: &str| api_version.rsplit_once('/').map_or(String::new(), |(group, _)| group.to_owned());
    (namespace.is_empty() || *namespace == node.metadata.namespace)
        && owner.metadata.name == reference.name
        && owner.kind == reference.kind
        && group(&owner.api_version) == group(&reference.api_version)
}

fn fate_of(reference: &OwnerReference, ask: &Ask, answer: Result<String, Failure>) -> Result<Fate> {
    match answer {
        Ok(text) => {
            let owner: Node =
                serde_json::from_str(&text).map_err(|e| Error::retry(format!("{}: cannot read the answer: {e}", ask.id())))?;
            Ok(if owner.metadata.uid != reference.uid {
                Fate::Absent
            } else if owner.waits_for_dependents() {
                Fate::Waiting
            } else {
                Fate::Solid
            })
        }
        Err(failure) if failure.status == 404 => Ok(Fate::Absent),
        Err(failure) => Err(Error::retry(format!("cannot tell whether an owner exists: {}: {}", ask.id(), failure.message))),
    }
}
