//! Claims of pods: made before their pods, never deleted, and given owners by
//! the retention policy.

use coxswain_sdk::merge::text_of;
use coxswain_sdk::resource::{PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS};
use coxswain_sdk::{Action, Ctx, Event, Object, OwnerReference, Result, from_json};
use serde_json::{Map, Value, json};

use crate::members;
use crate::ownership::Owners;
use crate::pods::PodEvents;
use crate::view::{Claim, ClaimTemplate, StatefulSet};

/// Tag of actions that make a claim for a pod about to be made; the claim's and
/// the pod's name follow.
pub const CREATE: &str = "create claim ";

/// Tag of actions that make a claim for a pod that waits for it.
pub const CREATE_MISSING: &str = "create missing claim ";

/// Name of a claim.
pub fn name_of(template: &str, set: &str, ordinal: i64) -> String {
    format!("{template}-{set}-{ordinal}")
}

/// The claims of one pod.
#[derive(Debug)]
pub struct Claims<'a> {
    set: &'a StatefulSet,
    ordinal: i64,
    pod: String,
    owners: Owners,
    found: Vec<(&'a ClaimTemplate, Option<Object<Claim>>)>,
}

impl<'a> Claims<'a> {
    /// Looks up the claims of a pod; its uid is empty if it does not exist.
    pub fn of(ctx: &Ctx<'_>, set: &'a StatefulSet, ordinal: i64, pod_uid: &str) -> Result<Self> {
        let meta = &set.metadata;
        let pod = members::name_of(&meta.name, ordinal);
        let mut found = Vec::new();
        for template in &set.spec.volume_claim_templates {
            let name = name_of(template.name(), &meta.name, ordinal);
            found.push((template, ctx.get::<Claim>(&meta.namespace, &name)?));
        }
        let owners = Owners {
            set: OwnerReference::controller(STATEFUL_SETS, &meta.name, &meta.uid),
            pod: OwnerReference::controller(PODS, &pod, pod_uid),
            wanted: set.wants(ordinal),
            retention: set.retention(),
        };
        Ok(Self { set, ordinal, pod, owners, found })
    }

    fn present(&self) -> impl Iterator<Item = &Object<Claim>> {
        self.found.iter().filter_map(|(_, claim)| claim.as_ref())
    }

    /// Whether one belongs to an earlier pod of the same name, and will go.
    pub fn is_stale(&self) -> bool {
        self.present().any(|claim| self.owners.has_stale_pod(&claim.metadata.owner_references))
    }

    /// Names of those that are being deleted.
    pub fn deleting(&self) -> Vec<&str> {
        self.present()
            .filter(|claim| claim.metadata.is_deleting())
            .map(|claim| claim.metadata.name.as_str())
            .collect()
    }

    /// Makes those that are missing.
    pub fn create(&self, tag: &str, events: &PodEvents<'_>) -> Result<Vec<Action>> {
        let missing = self.found.iter().filter(|(_, claim)| claim.is_none());
        missing.map(|(template, _)| self.create_one(template, tag, events)).collect()
    }

    fn create_one(&self, template: &ClaimTemplate, tag: &str, events: &PodEvents<'_>) -> Result<Action> {
        let meta = &self.set.metadata;
        let name = name_of(template.name(), &meta.name, self.ordinal);
        let mut claim = match &template.0 {
            Value::Object(fields) => fields.clone(),
            _ => Map::new(),
        };
        claim.insert("apiVersion".to_owned(), json!("v1"));
        claim.insert("kind".to_owned(), json!("PersistentVolumeClaim"));
        let mut claim = Value::Object(claim);
        if !claim["metadata"].is_object() {
            claim["metadata"] = json!({});
        }
        let metadata = &mut claim["metadata"];
        metadata["name"] = json!(name);
        metadata["namespace"] = json!(meta.namespace);
        if !metadata["labels"].is_object() {
            metadata["labels"] = json!({});
        }
        for (label, value) in self.set.match_labels() {
            metadata["labels"][label] = json!(value);
        }
        // Its owner from the start, lest it is left behind.
        let owners: Vec<OwnerReference> =
            from_json(&text_of(&metadata["ownerReferences"])).unwrap_or_default();
        let owners = self.owners.wanted(&owners).unwrap_or(owners);
        if !owners.is_empty() {
            metadata["ownerReferences"] = owners.iter().map(OwnerReference::to_json).collect();
        }
        let action = Action::create(PERSISTENT_VOLUME_CLAIMS, &meta.namespace, &name, &claim)?;
        Ok(action.tag(&[tag, &name, " ", &self.pod].concat()).on_success(events.claim_made(&name, &self.pod)))
    }

    /// Whether one has not the owners that it should have.
    pub fn are_misowned(&self) -> bool {
        self.present().any(|claim| self.owners.wanted(&claim.metadata.owner_references).is_some())
    }

    /// Gives each the owners that it should have; `failure` makes the event for
    /// a claim where that fails.
    pub fn own(&self, failure: impl Fn(&str) -> Event) -> Vec<Action> {
        let write = |claim: &Object<Claim>| {
            let meta = &claim.metadata;
            let wanted = self.owners.wanted(&meta.owner_references)?;
            let patch = json!({ "metadata": { "ownerReferences": wanted.iter().map(OwnerReference::to_json).collect::<Value>() } });
            Some(
                Action::merge(PERSISTENT_VOLUME_CLAIMS, &meta.namespace, &meta.name, &patch)
                    .as_seen(claim)
                    .tag("own claim")
                    .on_failure(failure(&meta.name)),
            )
        };
        self.present().filter_map(write).collect()
    }

    /// Says which claims somebody else controls.
    pub fn conflicts(&self, events: &PodEvents<'_>) -> Vec<Event> {
        let foreign =
            |claim: &&Object<Claim>| self.owners.has_foreign_controller(&claim.metadata.owner_references);
        let event = |claim: &Object<Claim>| {
            events.about().warning(
                "ConflictingController",
                format!(
                    "PersistentVolumeClaim {} has a conflicting OwnerReference that acts as a manging controller, \
                     the retention policy is ignored for this claim",
                    claim.metadata.name
                ),
            )
        };
        self.present().filter(foreign).map(event).collect()
    }
}
