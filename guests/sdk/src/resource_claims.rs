//! Claims for devices, as pods name them.
//!
//! A pod either names a claim or a template. In the latter case its status says
//! which claim was made for it, and that claim must be owned by the pod: anybody
//! might have made one of that name.

use crate::manifest::ReadOptions;
use crate::meta::ObjectMeta;
use crate::read::FromJson;

/// A claim that was made for a pod, as the pod's status says.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct PodClaimStatus {
    /// Name within the pod.
    pub name: String,
    /// Name of the claim; None if none was needed.
    pub resource_claim_name: Option<String>,
}

/// What a pod says about one of its claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named<'a> {
    /// It is the claim of this name, be it whose it may.
    Given(&'a str),
    /// It is the claim of this name, which was made for the pod.
    Made(&'a str),
    /// None is needed.
    NotNeeded,
    /// None was made so far.
    Missing,
}

impl<'a> Named<'a> {
    /// What a pod says about the claim that is called `name` within it: `given`
    /// is the claim that its spec names, `made` what its status says.
    pub fn of(name: &str, given: Option<&'a str>, made: &'a [PodClaimStatus]) -> Self {
        if let Some(given) = given {
            return Self::Given(given);
        }
        let made = made.iter().find(|status| status.name == name);
        match made.map(|status| status.resource_claim_name.as_deref()) {
            None | Some(Some("")) => Self::Missing,
            Some(None) => Self::NotNeeded,
            Some(Some(made)) => Self::Made(made),
        }
    }

    /// Name of the claim, if there is one.
    pub fn claim(self) -> Option<&'a str> {
        match self {
            Self::Given(name) | Self::Made(name) => Some(name),
            Self::NotNeeded | Self::Missing => None,
        }
    }

    /// Whether a claim of that name is the one meant, and not somebody else's.
    pub fn is<P, C>(self, claim: &ObjectMeta<C>, pod: &ObjectMeta<P>) -> bool {
        match self {
            Self::Given(_) => true,
            Self::Made(_) => claim.is_controlled_by(&pod.uid),
            Self::NotNeeded | Self::Missing => false,
        }
    }
}

/// Name of the index of pods that need claims.
pub const POD_INDEX: &str = "resource-claims";

/// Adds the index of pods that need claims.
pub fn with_pod_index(read: ReadOptions) -> ReadOptions {
    read.index(POD_INDEX, &["spec.resourceClaims[*].name"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::OwnerReference;
    use crate::resource::PODS;

    #[test]
    fn a_pod_names_a_claim_itself_or_by_its_status() {
        let status = |name: &str, claim: Option<&str>| PodClaimStatus {
            name: name.to_owned(),
            resource_claim_name: claim.map(str::to_owned),
        };
        let made = [
            status("gpu", Some("p-gpu-x")),
            status("spare", None),
            status("odd", Some("")),
            status("gpu", None),
        ];
        for (name, given, wanted) in [
            ("gpu", None, Named::Made("p-gpu-x")),
            ("gpu", Some("shared"), Named::Given("shared")),
            ("spare", None, Named::NotNeeded),
            ("odd", None, Named::Missing),
            ("other", None, Named::Missing),
        ] {
            assert_eq!(Named::of(name, given, &made), wanted, "{name} {given:?}");
        }
    }

    #[test]
    fn a_claim_that_was_made_must_be_the_pods_own() {
        let pod: ObjectMeta = ObjectMeta { uid: "p1".to_owned(), ..ObjectMeta::default() };
        let owned_by = |uid: &str| -> ObjectMeta {
            let owner_references = vec![OwnerReference::controller(PODS, "p", uid)];
            ObjectMeta { owner_references, ..ObjectMeta::default() }
        };
        for (named, own, foreign, name) in [
            (Named::Given("c"), true, true, Some("c")),
            (Named::Made("c"), true, false, Some("c")),
            (Named::NotNeeded, false, false, None),
            (Named::Missing, false, false, None),
        ] {
            assert_eq!(named.is(&owned_by("p1"), &pod), own, "{named:?}");
            assert_eq!(named.is(&owned_by("p2"), &pod), foreign, "{named:?}");
            assert_eq!(named.claim(), name);
        }
    }
}
