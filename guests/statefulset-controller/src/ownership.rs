//! Who owns a claim: by the retention policy the StatefulSet, the pod, or
//! nobody, so that the garbage collector takes it along with its owner.
//!
//! In: owner references, who the set and the pod are, the policy. Out: the
//! references that there should be. Invariant: a claim that somebody else
//! controls, or that was owned by a set or pod of the same name, gets no owner.

use coxswain_sdk::OwnerReference;

use crate::view::Retention;

/// The owners that a claim may get.
#[derive(Clone, Debug)]
pub struct Owners {
    /// The StatefulSet.
    pub set: OwnerReference,
    /// The pod; its uid is empty while it does not exist.
    pub pod: OwnerReference,
    /// Whether the pod is wanted, rather than scaled away.
    pub wanted: bool,
    /// The policy.
    pub retention: Retention,
}

/// Whether a reference names this object, be it of another uid.
fn names(reference: &OwnerReference, owner: &OwnerReference) -> bool {
    reference.api_version == owner.api_version && reference.kind == owner.kind && reference.name == owner.name
}

fn owns(references: &[OwnerReference], owner: &OwnerReference) -> bool {
    references.iter().any(|reference| reference.uid == owner.uid)
}

fn is_stale(references: &[OwnerReference], owner: &OwnerReference) -> bool {
    let named = references.iter().find(|reference| names(reference, owner));
    named.is_some_and(|reference| reference.uid != owner.uid)
}

impl Owners {
    /// Whether the claim belongs to an earlier pod of the same name. It will go,
    /// so no pod must be made that uses it.
    pub fn has_stale_pod(&self, references: &[OwnerReference]) -> bool {
        self.retention.delete_with_pod && is_stale(references, &self.pod)
    }

    /// Whether somebody else controls the claim although the policy would have
    /// an owner control it.
    pub fn has_foreign_controller(&self, references: &[OwnerReference]) -> bool {
        if self.retention == Retention::default() {
            return false;
        }
        references.iter().any(|reference| {
            if names(reference, &self.set) {
                reference.uid != self.set.uid
            } else if names(reference, &self.pod) {
                reference.uid != self.pod.uid
            } else {
                reference.is_controller()
            }
        })
    }

    /// The references that there should be; None if they are right.
    pub fn wanted(&self, references: &[OwnerReference]) -> Option<Vec<OwnerReference>> {
        if self.are_right(references) {
            return None;
        }
        let ours = |reference: &&OwnerReference| names(reference, &self.set) || names(reference, &self.pod);
        let mut wanted: Vec<_> = references.iter().filter(|reference| !ours(reference)).cloned().collect();
        if !self.has_foreign_controller(references) {
            let owner = match (self.by_set(), self.by_pod()) {
                (true, _) => Some(&self.set),
                (_, true) => Some(&self.pod),
                (false, false) => None,
            };
            // Where it is known under another name it is left so.
            wanted.extend(owner.filter(|owner| !owns(&wanted, owner)).cloned());
        }
        Some(wanted)
    }

    /// Whether the set should own the claim. Where both could, a pod that is
    /// scaled away takes the claim along.
    fn by_set(&self) -> bool {
        self.retention.delete_with_set && (self.wanted || !self.retention.delete_with_pod)
    }

    fn by_pod(&self) -> bool {
        self.retention.delete_with_pod && !self.wanted
    }

    fn are_right(&self, references: &[OwnerReference]) -> bool {
        if is_stale(references, &self.set) || is_stale(references, &self.pod) {
            return true;
        }
        let (by_set, by_pod) = (owns(references, &self.set), owns(references, &self.pod));
        if self.has_foreign_controller(references) {
            return !by_set && !by_pod;
        }
        let ours =
            |reference: &&OwnerReference| reference.uid == self.set.uid || reference.uid == self.pod.uid;
        references.iter().filter(ours).all(OwnerReference::is_controller)
            && by_set == self.by_set()
            && by_pod == self.by_pod()
    }
}
