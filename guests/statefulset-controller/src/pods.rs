//! Pods: how they are made, what they must look like, how they are put right.

use coxswain_sdk::contract::PatchKind;
use coxswain_sdk::merge::{take_out, to_value};
use coxswain_sdk::resource::{PODS, STATEFUL_SETS};
use coxswain_sdk::revisions::REVISION_HASH_LABEL;
use coxswain_sdk::template::PodTemplate;
use coxswain_sdk::{About, Action, Error, Event, OwnerReference, Result};
use serde_json::{Map, Value, json};

use crate::claims;
use crate::members::name_of;
use crate::view::{Pod, StatefulSet};

const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// Tag of actions that make a pod; its name follows.
pub const CREATE: &str = "create pod ";

/// The events about a set's pods.
#[derive(Debug)]
pub struct PodEvents<'a> {
    about: About,
    set: &'a str,
}

impl<'a> PodEvents<'a> {
    /// Events about this set.
    pub fn of(set: &'a StatefulSet) -> Self {
        Self { about: About::of::<StatefulSet, _>(&set.metadata), set: &set.metadata.name }
    }

    /// What the events are about.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Something was done to a pod: `Create`, `Update` or `Delete`.
    pub fn success(&self, verb: &str, pod: &str) -> Event {
        let text = format!("{verb} Pod {pod} in StatefulSet {} successful", self.set);
        self.about.normal(&format!("Successful{verb}"), text)
    }

    /// Something could not be done to a pod.
    pub fn failure(&self, verb: &str, pod: &str, error: &str) -> Event {
        let text = format!("{verb} Pod {pod} in StatefulSet {} failed error: {error}", self.set);
        self.about.warning(&format!("Failed{verb}"), text)
    }

    /// A claim was made.
    pub fn claim_made(&self, claim: &str, pod: &str) -> Event {
        let text = format!("Create Claim {claim} Pod {pod} in StatefulSet {} success", self.set);
        self.about.normal("SuccessfulCreate", text)
    }

    /// A claim could not be made.
    pub fn claim_failed(&self, claim: &str, pod: &str, error: &str) -> Event {
        let text =
            format!("Create Claim {claim} for Pod {pod} in StatefulSet {} failed error: {error}", self.set);
        self.about.warning("FailedCreate", text)
    }
}

/// The labels by which a pod shows who it is.
fn identity(name: &str, ordinal: i64) -> [(&'static str, String); 2] {
    [(NAME_LABEL, name.to_owned()), (INDEX_LABEL, ordinal.to_string())]
}

/// Makes a pod of a revision.
pub fn create(
    set: &StatefulSet,
    ordinal: i64,
    template: &PodTemplate,
    revision: &str,
    events: &PodEvents<'_>,
) -> Result<Action> {
    let meta = &set.metadata;
    let name = name_of(&meta.name, ordinal);
    let owner = OwnerReference::controller(STATEFUL_SETS, &meta.name, &meta.uid);
    let mut pod = template.pod(&meta.namespace, owner);
    pod.metadata.name = Some(name.clone());
    for (label, value) in identity(&name, ordinal) {
        pod.metadata.labels.insert(label.to_owned(), value);
    }
    pod.metadata.labels.insert(REVISION_HASH_LABEL.to_owned(), revision.to_owned());
    let mut pod = to_value(&pod)
        .map_err(|e| Error::Terminal(format!("cannot make pod {}/{name}: {e}", meta.namespace)))?;
    if !pod["spec"].is_object() {
        pod["spec"] = Value::Object(Map::new());
    }
    let spec = &mut pod["spec"];
    spec["hostname"] = json!(name);
    let service = &set.spec.service_name;
    if !service.is_empty() {
        spec["subdomain"] = json!(service);
    } else if let Some(spec) = spec.as_object_mut() {
        take_out(spec, "subdomain");
    }
    if !set.spec.volume_claim_templates.is_empty() {
        let given = spec["volumes"].as_array().map_or(&[][..], Vec::as_slice);
        spec["volumes"] = Value::Array(volumes(set, ordinal, given));
    }
    let action = Action::create(PODS, &meta.namespace, &name, &pod)?;
    Ok(action.tag(&[CREATE, &name].concat()).on_success(events.success("Create", &name)))
}

/// The volumes that are claims, and those of the template that are not.
fn volumes(set: &StatefulSet, ordinal: i64, given: &[Value]) -> Vec<Value> {
    let templates = &set.spec.volume_claim_templates;
    let claims = templates.iter().map(|template| claim_volume(set, template.name(), ordinal));
    let is_claim = |volume: &&Value| templates.iter().any(|template| volume["name"] == template.name());
    claims.chain(given.iter().filter(|volume| !is_claim(volume)).cloned()).collect()
}

fn claim_volume(set: &StatefulSet, template: &str, ordinal: i64) -> Value {
    let claim = claims::name_of(template, &set.metadata.name, ordinal);
    json!({ "name": template, "persistentVolumeClaim": { "claimName": claim } })
}

/// Deletes a pod.
pub fn delete(pod: &Pod, events: &PodEvents<'_>) -> Action {
    let meta = &pod.metadata;
    Action::delete(PODS, &meta.namespace, &meta.name)
        .uid(&meta.uid)
        .tag("delete pod")
        .on_success(events.success("Delete", &meta.name))
        .on_failure(events.failure("Delete", &meta.name, "{message}"))
}

/// Puts a pod's labels and volumes right; None if they are. (The API server
/// takes no other volumes for a pod there is; the event tells so.)
pub fn repair(set: &StatefulSet, pod: &Pod, ordinal: i64, events: &PodEvents<'_>) -> Option<Action> {
    let meta = &pod.metadata;
    let mut patch = Map::new();
    if meta.labels.get(NAME_LABEL) != Some(&meta.name) {
        let mut labels = Map::new();
        for (label, value) in identity(&meta.name, ordinal) {
            labels.insert(label.to_owned(), json!(value));
        }
        patch.insert("metadata".to_owned(), json!({ "labels": labels }));
    }
    if !has_volumes(set, pod, ordinal) {
        let templates = &set.spec.volume_claim_templates;
        let volumes: Vec<_> =
            templates.iter().map(|template| claim_volume(set, template.name(), ordinal)).collect();
        patch.insert("spec".to_owned(), json!({ "volumes": volumes }));
    }
    if patch.is_empty() {
        return None;
    }
    let patch = Value::Object(patch);
    Some(
        Action::patch(PODS, &meta.namespace, &meta.name, PatchKind::Strategic, &patch)
            .uid(&meta.uid)
            .tag("repair pod")
            .on_success(events.success("Update", &meta.name))
            .on_failure(events.failure("Update", &meta.name, "{message}")),
    )
}

/// Whether a pod's volumes are the claims that they should be.
pub fn has_volumes(set: &StatefulSet, pod: &Pod, ordinal: i64) -> bool {
    set.spec.volume_claim_templates.iter().all(|template| {
        let volume = pod.spec.volumes.iter().rfind(|volume| volume.name == template.name());
        let claim = volume.and_then(|volume| volume.persistent_volume_claim.as_ref());
        let wanted = claims::name_of(template.name(), &set.metadata.name, ordinal);
        claim.is_some_and(|claim| claim.claim_name == wanted)
    })
}
