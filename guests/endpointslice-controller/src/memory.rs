//! What is kept from one reconcile of a service to the next.

use std::collections::BTreeMap;

use coxswain_sdk::endpoints::address::Family;
use coxswain_sdk::{Ctx, Error, Plan, Result, from_json};
use serde::{Deserialize, Serialize};

/// What is kept; see the crate's documentation for why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Whether the annotation has led to hints.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hinted: bool,
    /// Why there are no hints, as last told for each family.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub told: BTreeMap<Family, String>,
    /// Whether the namespace takes no more slices.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub namespace_terminating: bool,
}

impl Memory {
    /// What was kept; nothing where that cannot be read.
    pub fn of(ctx: &Ctx<'_>) -> Self {
        ctx.state().and_then(|text| from_json(text).ok()).unwrap_or_default()
    }

    /// Keeps this, if it is not what was kept.
    pub fn keep(&self, before: &Self, plan: &mut Plan) -> Result<()> {
        if self == before {
            return Ok(());
        }
        if *self == Self::default() {
            plan.clear();
            return Ok(());
        }
        let text =
            serde_json::to_string(self).map_err(|e| Error::Terminal(format!("cannot write JSON: {e}")))?;
        plan.keep(text);
        Ok(())
    }
}
