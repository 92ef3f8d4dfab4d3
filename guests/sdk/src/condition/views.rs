//! Conditions of which only some fields are read, and only those are cached.

use super::HasStatus;
use crate::read::FromJson;
use crate::time::Time;

/// A condition as to whether it holds.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct BriefCondition {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
}

/// A condition as to whether it holds, and since when.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct DatedCondition {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When it last changed its status.
    pub last_transition_time: Option<Time>,
}

/// A condition as to whether it holds, why and since when.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct ReasonedCondition {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why.
    pub reason: String,
    /// When it last changed its status.
    pub last_transition_time: Option<Time>,
}

macro_rules! has_status {
    ($($condition:ty),*) => {$(
        impl HasStatus for $condition {
            fn kind(&self) -> &str {
                &self.kind
            }

            fn status(&self) -> &str {
                &self.status
            }
        }
    )*};
}

has_status!(super::Condition, BriefCondition, DatedCondition, ReasonedCondition);
