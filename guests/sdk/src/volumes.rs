//! Pods as users of claims: which claims a pod names, and which pods name a
//! claim; and claims as users of volumes.
//!
//! A volume with a claim template is a claim named after pod and volume. No
//! index can hold such a name, so that [`pods_of_claim`] asks for the pods that
//! the claim may be named after: one for each dash in its name.

use serde_json::value::RawValue;

use crate::claim::HasMetadata;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::manifest::ReadOptions;
use crate::meta::{NoAnnotations, ObjectMeta};
use crate::pod;
use crate::query::Query;
use crate::read::FromJson;
use crate::resource::{PODS, Resource};
use crate::sort::sort_by;
use crate::view::{Object, View};

/// A pod as a user of volumes. Who needs to know more of a volume than its claim
/// has a view of volumes of its own.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Pod<V = PodVolume> {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: PodSpec<V>,
    /// Status.
    pub status: PodState,
}

/// What is read of the spec of a pod that uses volumes.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec<V = PodVolume> {
    /// The node it is bound to; empty while it is not.
    pub node_name: String,
    /// Its volumes.
    pub volumes: Vec<V>,
}

/// What is read of a pod's volume.
#[derive(Clone, Debug, Default, FromJson)]
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
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSource {
    /// Name of the claim, in the pod's namespace.
    pub claim_name: String,
}

/// What is read of a pod's status to tell whether it still needs its volumes.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct PodState {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: String,
    /// States of its containers.
    pub container_statuses: Vec<ContainerStatus>,
    /// States of its init containers.
    pub init_container_statuses: Vec<ContainerStatus>,
}

/// What is read of a container's state.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct ContainerStatus {
    /// The state.
    pub state: ContainerState,
}

/// The state of a container.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct ContainerState {
    /// Set while it runs.
    pub running: Option<Running>,
}

/// That a container runs.
#[derive(Clone, Debug, Default, FromJson)]
pub struct Running {}

impl PodState {
    /// Whether the pod has ended: by its phase, or since it is being deleted and
    /// none of its containers runs.
    pub fn has_ended<A>(&self, meta: &ObjectMeta<A>) -> bool {
        let running = |status: &ContainerStatus| status.state.running.is_some();
        pod::has_ended(&self.phase)
            || meta.is_deleting()
                && !self.container_statuses.iter().any(running)
                && !self.init_container_statuses.iter().any(running)
    }
}

impl<V> Pod<V> {
    /// Whether it needs its volumes no more.
    pub fn has_ended(&self) -> bool {
        self.status.has_ended(&self.metadata)
    }
}

impl<V: FromJson + Default + 'static> View for Pod<V> {
    const RESOURCE: Resource = PODS;
}

impl<V: FromJson + Default + 'static> HasMetadata for Pod<V> {
    type Annotations = NoAnnotations;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl UsesVolumes for Pod {
    fn volumes(&self) -> &[PodVolume] {
        &self.spec.volumes
    }
}

/// A view of pods that shows their volumes.
pub trait UsesVolumes: HasMetadata {
    /// The volumes.
    fn volumes(&self) -> &[PodVolume];
}

/// Name of the index of pods by the claims that their volumes name.
pub const CLAIM_INDEX: &str = "claim";

/// Adds the index of pods that [`pods_of_claim`] needs.
pub fn with_claim_index(read: ReadOptions) -> ReadOptions {
    read.index(CLAIM_INDEX, &["spec.volumes[*].persistentVolumeClaim.claimName"])
}

/// A volume's reference to the claim it is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, FromJson)]
#[serde(default)]
pub struct ClaimRef {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid; empty while the reference is only a reservation.
    pub uid: String,
}

/// Name of the index of volumes by the claim they are for.
pub const CLAIM_REF_INDEX: &str = "claim";

/// Adds the index of volumes by the claim they are for.
pub fn with_claim_ref_index(read: ReadOptions) -> ReadOptions {
    read.index(CLAIM_REF_INDEX, &["spec.claimRef.namespace", "spec.claimRef.name"])
}

impl PodVolume {
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

/// Name of the claim that a pod's volume is: of the one it names, or else of the
/// one that is made of its template. None where it has no claim.
pub fn claim_name(
    pod: &str,
    volume: &str,
    named: Option<&ClaimSource>,
    template: Option<&RawValue>,
) -> Option<String> {
    let named = named.map(|claim| claim.claim_name.clone());
    named.or_else(|| template.map(|_| template_claim_name(pod, volume)))
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
    sort_by(&mut pods, |a, b| a.metadata().name.cmp(&b.metadata().name));
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
        let name = |volume: &PodVolume| {
            let (claim, template) = (volume.persistent_volume_claim.as_ref(), volume.ephemeral.as_deref());
            claim_name("p", &volume.name, claim, template)
        };
        assert_eq!(name(&named), Some("c".to_owned()));
        assert_eq!(name(&made), Some("p-v".to_owned()));
        assert_eq!(name(&neither), None);
        assert!(named.names_claim("c") && !named.makes_claim("p", "p-v"));
        assert!(made.makes_claim("p", "p-v") && made.makes_claim("a-b", "a-b-v"));
        assert!(!made.makes_claim("p", "p-w") && !made.makes_claim("p", "pv") && !made.makes_claim("p", "p"));
        assert!(!neither.makes_claim("p", "p-v") && !neither.names_claim(""));
    }

    #[test]
    fn a_pod_has_ended_by_its_phase_or_once_nothing_of_it_runs() {
        let running = r#"[{"state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}}}]"#;
        let ended = r#"[{"state":{"terminated":{"exitCode":0}}},{"state":{"waiting":{}}}]"#;
        for (wanted, deleting, state) in [
            (true, false, r#"{"phase":"Succeeded"}"#.to_owned()),
            (true, false, r#"{"phase":"Failed"}"#.to_owned()),
            (false, false, r#"{"phase":"Running"}"#.to_owned()),
            (true, true, r#"{"phase":"Running"}"#.to_owned()),
            (false, true, format!(r#"{{"phase":"Running","containerStatuses":{running}}}"#)),
            (false, true, format!(r#"{{"phase":"Pending","initContainerStatuses":{running}}}"#)),
            (true, true, format!(r#"{{"phase":"Running","containerStatuses":{ended}}}"#)),
            (false, false, format!(r#"{{"phase":"Running","containerStatuses":{ended}}}"#)),
        ] {
            let deletion_timestamp = deleting.then(|| crate::time::Time::from_unix(0));
            let meta: ObjectMeta = ObjectMeta { deletion_timestamp, ..ObjectMeta::default() };
            let read: PodState = serde_json::from_str(&state).expect("a state");
            assert_eq!(read.has_ended(&meta), wanted, "{deleting} {state}");
        }
    }
}
