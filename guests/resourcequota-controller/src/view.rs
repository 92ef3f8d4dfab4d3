//! What is read of a ResourceQuota.

use std::collections::BTreeMap;

use coxswain_sdk::quantity::Quantity;
use coxswain_sdk::resource::RESOURCE_QUOTAS;
use coxswain_sdk::{FromJson, ObjectMeta, Resource, View};
use serde::Serialize;

/// Quantities by resource name, in the words of who wrote them.
pub type Written = BTreeMap<String, String>;

/// A quota.
#[derive(Debug, Default, FromJson)]
#[serde(default)]
pub struct ResourceQuota {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: Spec,
    /// Status.
    pub status: Status,
}

impl View for ResourceQuota {
    const RESOURCE: Resource = RESOURCE_QUOTAS;
}

/// What is limited.
#[derive(Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// Limits.
    pub hard: Written,
    /// Scopes, all of which a counted object must be in.
    pub scopes: Vec<String>,
    /// Further conditions on scopes.
    pub scope_selector: Option<ScopeSelector>,
}

/// Conditions on scopes, all of which must hold.
#[derive(Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct ScopeSelector {
    /// The conditions.
    pub match_expressions: Vec<ScopeRequirement>,
}

/// A condition on a scope.
#[derive(Clone, Debug, Default, PartialEq, Eq, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct ScopeRequirement {
    /// The scope.
    pub scope_name: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// Values, for the first two.
    pub values: Vec<String>,
}

/// What was written last.
#[derive(Clone, Debug, Default, PartialEq, FromJson, Serialize)]
#[serde(default)]
pub struct Status {
    /// The limits that are enforced. None before the first write.
    pub hard: Option<Written>,
    /// What is used of them.
    pub used: Option<Written>,
}

impl Spec {
    /// The scopes and the conditions, in one form.
    pub fn requirements(&self) -> Vec<ScopeRequirement> {
        let exists = |scope: &String| ScopeRequirement {
            scope_name: scope.clone(),
            operator: "Exists".to_owned(),
            values: Vec::new(),
        };
        let selector =
            self.scope_selector.iter().flat_map(|selector| selector.match_expressions.iter().cloned());
        self.scopes.iter().map(exists).chain(selector).collect()
    }
}

/// Whether two lists hold the same numbers, however they are written.
pub fn same(a: &Written, b: &Written) -> bool {
    let equal = |x: &str, y: &str| {
        x == y || matches!((Quantity::parse(x), Quantity::parse(y)), (Ok(x), Ok(y)) if x == y)
    };
    a.len() == b.len() && a.iter().all(|(name, x)| b.get(name).is_some_and(|y| equal(x, y)))
}
