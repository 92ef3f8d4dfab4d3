//! What is read of ClusterRoles.

use coxswain_sdk::merge::keep;
use coxswain_sdk::resource::CLUSTER_ROLES;
use coxswain_sdk::selector::LabelSelector;
use coxswain_sdk::{FromJson, ObjectMeta, Resource, View};
use serde_json::{Map, Value};

use crate::NAME;

/// A ClusterRole.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterRole {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What it is put together from; None if it is not.
    pub aggregation_rule: Option<AggregationRule>,
    /// Rules, whole: a field that this program does not know may be what narrows
    /// a rule, and must not be lost on the way.
    pub rules: Vec<Map<String, Value>>,
}

impl View for ClusterRole {
    const RESOURCE: Resource = CLUSTER_ROLES;
}

/// What a ClusterRole is put together from.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct AggregationRule {
    /// Whatever any of these finds.
    pub cluster_role_selectors: Vec<LabelSelector>,
}

impl ClusterRole {
    /// Its rules without empty fields, so that they compare.
    pub fn rules(&self) -> impl Iterator<Item = Map<String, Value>> {
        self.rules.iter().map(|rule| {
            let mut rule = rule.clone();
            keep(&mut rule, &|_, value| {
                !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty())
            });
            rule
        })
    }
}

/// Who manages a ClusterRole.
#[derive(Debug, Default, FromJson)]
#[serde(default)]
pub struct Managed {
    /// Metadata.
    pub metadata: ManagedMeta,
}

/// What is read of the metadata.
#[derive(Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct ManagedMeta {
    /// Managers, with what is theirs.
    pub managed_fields: Vec<Manager>,
}

/// A manager, with what is its own.
#[derive(Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Manager {
    manager: String,
    operation: String,
    #[serde(rename = "fieldsV1")]
    fields: Map<String, Value>,
}

impl Manager {
    /// Whether it is this controller, and has applied the rules.
    pub fn has_our_rules(&self) -> bool {
        self.manager == NAME && self.operation == "Apply" && self.fields.contains_key("f:rules")
    }
}
