//! What is read of objects. The manifest's paths are derived from these structs.

use coxswain_sdk::condition::Condition;
use coxswain_sdk::resource::{CONFIG_MAPS, DEPLOYMENTS, SERVICES};
use coxswain_sdk::{FromJson, ObjectMeta, Resource, StringMap, View};
use serde::Serialize;

/// Websites.
pub const WEBSITES: Resource = Resource::new("demo.coxswain.dev", "v1", "websites", "Website");

/// A website.
#[derive(Debug, FromJson)]
pub struct Website {
    pub metadata: ObjectMeta,
    pub spec: WebsiteSpec,
    #[serde(default)]
    pub status: WebsiteStatus,
}

/// What is wanted.
#[derive(Debug, FromJson)]
pub struct WebsiteSpec {
    pub image: String,
    #[serde(default = "one")]
    pub replicas: i64,
    #[serde(default = "http")]
    pub port: i64,
    /// The name under which it is reached; one website's alone.
    #[serde(default)]
    pub host: String,
    /// Name of a ConfigMap whose data become environment variables.
    #[serde(default)]
    pub config: String,
}

fn one() -> i64 {
    1
}

fn http() -> i64 {
    80
}

/// What there is.
#[derive(Clone, Debug, Default, FromJson, Serialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct WebsiteStatus {
    pub observed_generation: i64,
    pub ready_replicas: i64,
    pub conditions: Vec<Condition>,
}

impl View for Website {
    const RESOURCE: Resource = WEBSITES;
}

/// A ConfigMap.
#[derive(Debug, FromJson)]
pub struct ConfigMap {
    #[serde(default)]
    pub data: StringMap,
}

impl View for ConfigMap {
    const RESOURCE: Resource = CONFIG_MAPS;
}

/// A Deployment, as far as a website decides it.
#[derive(Debug, FromJson)]
pub struct Deployment {
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: DeploymentSpec,
    #[serde(default)]
    pub status: DeploymentStatus,
}

#[derive(Debug, Default, FromJson, Serialize)]
#[serde(default)]
pub struct DeploymentSpec {
    pub replicas: i64,
    pub template: Template,
}

#[derive(Debug, Default, FromJson, Serialize)]
#[serde(default)]
pub struct Template {
    pub metadata: TemplateMeta,
    pub spec: PodSpec,
}

#[derive(Debug, Default, FromJson, Serialize)]
#[serde(default)]
pub struct TemplateMeta {
    pub annotations: Annotations,
}

#[derive(Debug, Default, FromJson, Serialize)]
#[serde(default)]
pub struct Annotations {
    /// Moves when the configuration does, so that pods are replaced.
    #[serde(rename = "demo.coxswain.dev/config-hash", skip_serializing_if = "Option::is_none")]
    pub config_hash: Option<String>,
}

#[derive(Debug, Default, FromJson, Serialize)]
#[serde(default)]
pub struct PodSpec {
    pub containers: Vec<Container>,
}

#[derive(Debug, Default, FromJson, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    pub name: String,
    pub image: String,
    pub ports: Vec<ContainerPort>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env_from: Vec<EnvFrom>,
}

#[derive(Debug, Default, FromJson, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    pub container_port: i64,
}

#[derive(Debug, Default, FromJson, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvFrom {
    pub config_map_ref: ConfigMapRef,
}

#[derive(Debug, Default, FromJson, Serialize)]
#[serde(default)]
pub struct ConfigMapRef {
    pub name: String,
}

#[derive(Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentStatus {
    pub observed_generation: i64,
    pub updated_replicas: i64,
    pub ready_replicas: i64,
}

impl View for Deployment {
    const RESOURCE: Resource = DEPLOYMENTS;
}

/// A Service, as far as a website decides it.
#[derive(Debug, FromJson)]
pub struct Service {
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: ServiceSpec,
}

#[derive(Debug, Default, FromJson, Serialize)]
#[serde(default)]
pub struct ServiceSpec {
    pub selector: StringMap,
    pub ports: Vec<ServicePort>,
}

#[derive(Debug, Default, FromJson, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    pub name: String,
    pub port: i64,
    /// A number here; somebody may have put a name.
    pub target_port: serde_json::Value,
}

impl View for Service {
    const RESOURCE: Resource = SERVICES;
}
