//! Whether a pod holds a claim back.

use coxswain_sdk::volumes::is_made_for;

use crate::view::{Claim, Pod};

/// Whether the pod keeps the claim from going. One that is bound to no node
/// does not: no kubelet starts a pod whose claim is being deleted.
pub fn uses(pod: &Pod, claim: &Claim) -> bool {
    let (me, claim_meta) = (&pod.metadata, &claim.metadata);
    if pod.spec.node_name.is_empty() || me.namespace != claim_meta.namespace {
        return false;
    }
    pod.spec.volumes.iter().any(|volume| {
        volume.names_claim(&claim_meta.name)
            || !is_shut_down(pod)
                && volume.makes_claim(&me.name, &claim_meta.name)
                && is_made_for(claim_meta, me)
    })
}

/// Whether the kubelet is done with the pod, or was overruled. If such a pod
/// waits for a finalizer, its own claim must not wait for it in turn.
fn is_shut_down(pod: &Pod) -> bool {
    pod.metadata.is_deleting() && pod.metadata.deletion_grace_period_seconds == Some(0)
}
