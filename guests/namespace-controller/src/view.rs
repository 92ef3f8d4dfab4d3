//! What is read.

use coxswain_sdk::condition::Condition;
use coxswain_sdk::merge::text_of;
use coxswain_sdk::resource::{EVERY, NAMESPACES, PODS};
use coxswain_sdk::{FromJson, ObjectMeta, Resource, Time, View, from_json};
use serde_json::{Map, Value};

/// APIServices.
pub const API_SERVICES: Resource = Resource::new("apiregistration.k8s.io", "v1", "apiservices", "APIService");

/// A namespace, whole, since it is replaced to be finalized.
#[derive(Clone, Debug, FromJson)]
#[serde(transparent)]
pub struct Namespace(Map<String, Value>);

impl View for Namespace {
    const RESOURCE: Resource = NAMESPACES;
}

impl Namespace {
    fn at(&self, part: &str, field: &str) -> &Value {
        self.0.get(part).and_then(|part| part.get(field)).unwrap_or(&Value::Null)
    }

    fn text(&self, part: &str, field: &str) -> &str {
        self.at(part, field).as_str().unwrap_or_default()
    }

    fn texts(&self, part: &str, field: &str) -> Vec<&str> {
        self.at(part, field).as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.text("metadata", "name")
    }

    /// Its uid.
    pub fn uid(&self) -> &str {
        self.text("metadata", "uid")
    }

    /// When it was asked to go.
    pub fn deleted_at(&self) -> Option<Time> {
        Time::parse(self.text("metadata", "deletionTimestamp"))
    }

    /// Who has to see to its content.
    pub fn finalizers(&self) -> Vec<&str> {
        self.texts("spec", "finalizers")
    }

    /// Whether something besides its content keeps it.
    pub fn is_held(&self) -> bool {
        !self.texts("metadata", "finalizers").is_empty()
    }

    /// Its phase.
    pub fn phase(&self) -> &str {
        self.text("status", "phase")
    }

    /// Its conditions. One that cannot be read is as good as none.
    pub fn conditions(&self) -> Vec<Condition> {
        let conditions = self.at("status", "conditions").as_array().into_iter().flatten();
        conditions.filter_map(|condition| from_json(&text_of(condition)).ok()).collect()
    }

    /// Itself, with only these finalizers.
    pub fn with_finalizers(&self, finalizers: &[&str]) -> Value {
        let mut object = Value::Object(self.0.clone());
        object["spec"]["finalizers"] = finalizers.into();
        object
    }
}

/// An object in a namespace.
#[derive(Clone, Debug, FromJson)]
pub struct Item {
    /// Metadata.
    pub metadata: ObjectMeta,
}

impl View for Item {
    const RESOURCE: Resource = EVERY;
}

/// A pod.
#[derive(Debug, Default, FromJson)]
#[serde(default)]
pub struct Pod {
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    termination_grace_period_seconds: Option<i64>,
}

#[derive(Debug, Default, FromJson)]
#[serde(default)]
struct PodStatus {
    phase: String,
}

impl View for Pod {
    const RESOURCE: Resource = PODS;
}

impl Pod {
    /// How long it may take to go, in seconds.
    pub fn grace(&self) -> u64 {
        if matches!(self.status.phase.as_str(), "Succeeded" | "Failed") {
            return 0;
        }
        self.spec
            .termination_grace_period_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .unwrap_or(0)
    }
}

/// An API that this server or another one serves.
#[derive(Debug, Default, FromJson)]
#[serde(default)]
pub struct ApiService {
    spec: ApiServiceSpec,
    status: ApiServiceStatus,
}

#[derive(Debug, Default, FromJson)]
#[serde(default)]
struct ApiServiceSpec {
    group: String,
    version: String,
    service: Option<Map<String, Value>>,
}

#[derive(Debug, Default, FromJson)]
#[serde(default)]
struct ApiServiceStatus {
    conditions: Vec<Availability>,
}

#[derive(Debug, Default, FromJson)]
#[serde(default)]
struct Availability {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl View for ApiService {
    const RESOURCE: Resource = API_SERVICES;
}

impl ApiService {
    /// The group and version, if another server serves them and may be away.
    pub fn doubtful(&self) -> Option<String> {
        let available = |c: &Availability| c.kind == "Available" && c.status == "True";
        let fine = self.spec.service.is_none() || self.status.conditions.iter().any(available);
        (!fine).then(|| format!("{}/{}", self.spec.group, self.spec.version))
    }
}
