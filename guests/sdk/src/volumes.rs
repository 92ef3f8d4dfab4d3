//! Pods as users of claims: which claims a pod names, and which pods name a
//! claim.
//!
//! A volume with a claim template is a claim named after pod and volume. No
//! index can hold such a name, so that [`pods_of_claim`] asks for the pods that
//! the claim may be named after: one for each dash in its name.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::claim::HasMetadata;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::manifest::{Declaration, ReadOptions};
use crate::meta::ObjectMeta;
use crate::query::Query;
use crate::view::{Object, View};

/// What is read of a pod's volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodVolume {
    /// Name within the pod.
    pub name: String,
    /// The claim it is.
    pub persistent_volume_claim: Option<ClaimSource>,
    /// The template of the claim that is made for it, as it came.
    pub ephemeral: Option<Box<RawValue>>,
}

/// A claim as the source of a volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSource {
    /// Name of the claim, in the pod's namespace.
    pub claim_name: String,
}

/// A view of pods that shows their volumes.
pub trait UsesVolumes: HasMetadata {
    /// The volumes.
    fn volumes(&self) -> &[PodVolume];
}

/// Name of the index of pods by the claims that their volumes name.
pub const CLAIM_INDEX: &str = "claim";

/// Reads pods through a view, with the index that [`pods_of_claim`] needs.
pub fn read_pods<V: View>(declaration: Declaration) -> Declaration {
    declaration.read_with::<V>(with_claim_index)
}

/// Adds the index that [`pods_of_claim`] needs.
pub fn with_claim_index(read: ReadOptions) -> ReadOptions {
    read.index(CLAIM_INDEX, &["spec.volumes[*].persistentVolumeClaim.claimName"])
}

impl PodVolume {
    /// Name of its claim, in a pod of this name. None where it has no claim.
    pub fn claim_name(&self, pod: &str) -> Option<String> {
        match (&self.persistent_volume_claim, &self.ephemeral) {
            (Some(claim), _) => Some(claim.claim_name.clone()),
            (None, Some(_)) => Some(template_claim_name(pod, &self.name)),
            (None, None) => None,
        }
    }

    /// Whether it names this claim.
    pub fn names_claim(&self, claim: &str) -> bool {
        self.persistent_volume_claim.as_ref().is_some_and(|source| source.claim_name == claim)
    }

    /// Whether the claim made of its template has this name, in a pod of that.
    pub fn makes_claim(&self, pod: &str, claim: &str) -> bool {
        self.persistent_volume_claim.is_none()
            && self.ephemeral.is_some()
            && claim.strip_prefix(pod).and_then(|rest| rest.strip_prefix('-')) == Some(&self.name)
    }
}

/// Name of the claim that is made of a volume's template.
pub fn template_claim_name(pod: &str, volume: &str) -> String {
    format!("{pod}-{volume}")
}

/// Whether the claim was made for the pod, as far as owners tell.
pub fn is_made_for<P, C>(claim: &ObjectMeta<C>, pod: &ObjectMeta<P>) -> bool {
    claim.namespace == pod.namespace && claim.is_controlled_by(&pod.uid)
}

/// What is wrong with a claim that was not made for the pod.
pub fn not_made_for<P, C>(claim: &ObjectMeta<C>, pod: &ObjectMeta<P>) -> String {
    format!(
        "PVC {}/{} was not created for pod {}/{} (pod is not owner)",
        claim.namespace, claim.name, pod.namespace, pod.name
    )
}

/// The pods of which a volume names this claim or has a template that makes
/// one of its name, by name.
pub fn pods_of_claim<V: UsesVolumes>(ctx: &Ctx<'_>, namespace: &str, claim: &str) -> Result<Vec<Object<V>>> {
    let mut pods = ctx.list::<V>(Query::all().namespace(namespace).index(CLAIM_INDEX, &[claim]))?;
    for (at, _) in claim.match_indices('-') {
        let name = &claim[..at];
        let Some(pod) = ctx.get::<V>(namespace, name)? else { continue };
        if pod.volumes().iter().any(|volume| volume.makes_claim(name, claim))
            && !pods.iter().any(|known| known.metadata().uid == pod.metadata().uid)
        {
            pods.push(pod);
        }
    }
    pods.sort_by(|a, b| a.metadata().name.cmp(&b.metadata().name));
    Ok(pods)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(json: &str) -> PodVolume {
        serde_json::from_str(json).expect("a volume")
    }

    #[test]
    fn a_volume_has_the_claim_it_names_or_the_one_of_its_template() {
        let named = volume(r#"{"name":"v","persistentVolumeClaim":{"claimName":"c"}}"#);
        let made = volume(r#"{"name":"v","ephemeral":{"volumeClaimTemplate":{"spec":{}}}}"#);
        let neither = volume(r#"{"name":"v"}"#);
        assert_eq!(named.claim_name("p"), Some("c".to_owned()));
        assert_eq!(made.claim_name("p"), Some("p-v".to_owned()));
        assert_eq!(neither.claim_name("p"), None);
        assert!(named.names_claim("c") && !named.makes_claim("p", "p-v"));
        assert!(made.makes_claim("p", "p-v") && made.makes_claim("a-b", "a-b-v"));
        assert!(!made.makes_claim("p", "p-w") && !made.makes_claim("p", "pv") && !made.makes_claim("p", "p"));
        assert!(!neither.makes_claim("p", "p-v") && !neither.names_claim(""));
    }
}
