//! What is kept from one reconcile of a key to the next.

use coxswain_sdk::FromJson;
use serde::Serialize;

/// What is kept; see the crate's documentation for why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, FromJson)]
#[serde(default)]
pub struct Memory {
    /// What was told about addresses that were left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<String>,
    /// Whether the namespace takes no more slices.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub namespace_terminating: bool,
}
