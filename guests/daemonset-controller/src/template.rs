//! The pod template of a DaemonSet, and the pods made from it.
//!
//! It is kept as the JSON it came as, so that fields that no Coxswain knows
//! survive; beside it, what decides which nodes fit.

use coxswain_sdk::names::pod_prefix;
use coxswain_sdk::node_affinity::{NAME_FIELD, NodeSelector};
use coxswain_sdk::read::{Failed, Reader};
use coxswain_sdk::resource::{DAEMON_SETS, PODS};
use coxswain_sdk::revisions::REVISION_HASH_LABEL;
use coxswain_sdk::sort::lite_map_of;
use coxswain_sdk::taints::{
    DISK_PRESSURE, MEMORY_PRESSURE, NETWORK_UNAVAILABLE, NO_EXECUTE, NO_SCHEDULE, NOT_READY, PID_PRESSURE,
    Toleration, UNREACHABLE, UNSCHEDULABLE,
};
use coxswain_sdk::template::{NewPodMeta, TemplateMeta};
use coxswain_sdk::{Action, FromJson, OwnerReference, Result, StringMap, from_json};
use litemap::LiteMap;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::pods::GENERATION_LABEL;
use crate::view::DaemonSet;

/// What all pods of DaemonSets tolerate: trouble with a node is no reason to
/// take its daemons away.
const TOLERATED: [(&str, &str); 6] = [
    (NOT_READY, NO_EXECUTE),
    (UNREACHABLE, NO_EXECUTE),
    (DISK_PRESSURE, NO_SCHEDULE),
    (MEMORY_PRESSURE, NO_SCHEDULE),
    (PID_PRESSURE, NO_SCHEDULE),
    (UNSCHEDULABLE, NO_SCHEDULE),
];

/// What pods tolerate that use the node's network: they may be what sets it up.
const TOLERATED_ON_HOST_NETWORK: (&str, &str) = (NETWORK_UNAVAILABLE, NO_SCHEDULE);

/// A pod template.
#[derive(Clone, Debug, Default)]
pub struct Template {
    raw: Option<Box<RawValue>>,
    metadata: TemplateMeta,
    spec: Parts,
    tolerations: Vec<Toleration>,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
struct Known {
    metadata: TemplateMeta,
    spec: Parts,
}

/// What is known of the spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct Parts {
    node_name: String,
    host_network: bool,
    node_selector: StringMap,
    affinity: Affinity,
    tolerations: Vec<Toleration>,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    node_affinity: NodeAffinity,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeSelector>,
}

impl FromJson for Template {
    fn blank() -> Self {
        Self::default()
    }

    fn read(&mut self, reader: Reader<'_, '_>) -> std::result::Result<(), Failed> {
        let raw = reader.raw()?;
        let known: Option<Known> = from_json(raw.get()).map_err(Failed::new)?;
        let Some(Known { metadata, spec }) = known else { return Ok(()) };
        let mut tolerations = spec.tolerations.clone();
        tolerations.extend(added(&spec).map(|(key, effect)| Toleration::exists(key, effect)));
        *self = Self { raw: Some(raw.to_owned()), metadata, spec, tolerations };
        Ok(())
    }
}

/// The tolerations that its pods are given.
fn added(spec: &Parts) -> impl Iterator<Item = (&'static str, &'static str)> {
    TOLERATED.into_iter().chain(spec.host_network.then_some(TOLERATED_ON_HOST_NETWORK))
}

impl Template {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        self.raw.as_ref().and_then(|raw| from_json(raw.get()).ok()).unwrap_or_default()
    }

    /// Labels of the pods.
    pub fn labels(&self) -> &StringMap {
        &self.metadata.labels
    }

    /// The one node that the pods may run on; empty if it names none.
    pub fn node_name(&self) -> &str {
        &self.spec.node_name
    }

    /// Labels that a node must have.
    pub fn node_selector(&self) -> &StringMap {
        &self.spec.node_selector
    }

    /// What a node must be besides.
    pub fn required(&self) -> Option<&NodeSelector> {
        self.spec.affinity.node_affinity.required.as_ref()
    }

    /// What the pods tolerate.
    pub fn tolerations(&self) -> &[Toleration] {
        &self.tolerations
    }
}

/// Makes pods of a DaemonSet for nodes.
pub struct PodMaker<'a> {
    set: &'a DaemonSet,
    labels: StringMap,
    spec: Map<String, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewPod<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: NewPodMeta<'a>,
    spec: LiteMap<&'a str, &'a Value>,
}

impl<'a> PodMaker<'a> {
    /// Of the revision with this hash.
    pub fn new(set: &'a DaemonSet, hash: &str) -> Self {
        let template = &set.spec.template;
        let mut labels = template.metadata.labels.clone();
        if let Some(generation) = set.template_generation() {
            labels.insert(GENERATION_LABEL.to_owned(), generation.to_string());
        }
        if !hash.is_empty() {
            labels.insert(REVISION_HASH_LABEL.to_owned(), hash.to_owned());
        }
        let mut spec = match template.to_json() {
            Value::Object(mut fields) => object(fields.entry("spec").or_insert(Value::Null)).clone(),
            _ => Map::new(),
        };
        tolerate(&mut spec, added(&template.spec));
        Self { set, labels, spec }
    }

    /// The write that makes a pod for a node. The scheduler binds it: the pod
    /// says which node alone it may run on.
    pub fn create(&self, node: &str) -> Result<Action> {
        let meta = &self.set.metadata;
        let template = &self.set.spec.template.metadata;
        let mut affinity = self.spec.get("affinity").cloned().unwrap_or_default();
        let node_affinity = object(object(&mut affinity).entry("nodeAffinity").or_insert(Value::Null));
        let only = json!({ "key": NAME_FIELD, "operator": "In", "values": [node] });
        node_affinity.insert(
            "requiredDuringSchedulingIgnoredDuringExecution".to_owned(),
            json!({ "nodeSelectorTerms": [{ "matchFields": [only] }] }),
        );
        let mut spec = lite_map_of(self.spec.iter().map(|(field, value)| (field.as_str(), value)));
        spec.insert("affinity", &affinity);
        let pod = NewPod {
            api_version: "v1",
            kind: PODS.kind,
            metadata: NewPodMeta {
                name: None,
                generate_name: Some(pod_prefix(&meta.name)),
                namespace: &meta.namespace,
                labels: self.labels.clone(),
                annotations: template.annotations.clone(),
                finalizers: template.finalizers.clone(),
                owner_references: vec![OwnerReference::controller(DAEMON_SETS, &meta.name, &meta.uid)],
            },
            spec,
        };
        Action::create(PODS, &meta.namespace, "", &pod)
    }
}

/// Adds tolerations. One that is there, perhaps for a time only, becomes one for
/// ever.
fn tolerate(spec: &mut Map<String, Value>, added: impl Iterator<Item = (&'static str, &'static str)>) {
    let tolerations = spec.entry("tolerations").or_insert(Value::Null);
    if !tolerations.is_array() {
        *tolerations = json!([]);
    }
    let Some(list) = tolerations.as_array_mut() else { return };
    for (key, effect) in added {
        let toleration = json!({ "key": key, "operator": "Exists", "effect": effect });
        let same = |other: &&mut Value| {
            ["key", "operator", "effect"].iter().all(|field| other[field] == toleration[field])
                && other["value"].as_str().is_none_or(str::is_empty)
        };
        let mut there = list.iter_mut().filter(same).peekable();
        if there.peek().is_none() {
            drop(there);
            list.push(toleration);
        } else {
            there.for_each(|other| other.clone_from(&toleration));
        }
    }
}

/// The object that is there; an empty one if something else is.
fn object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(fields) => fields,
        // It is one now.
        _ => unreachable!(),
    }
}
