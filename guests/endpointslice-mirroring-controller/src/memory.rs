//! What is kept from one reconcile of a key to the next.

use coxswain_sdk::{Ctx, Error, Plan, Result, from_json};
use serde::{Deserialize, Serialize};

/// What is kept; see the crate's documentation for why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// What was told about addresses that were left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<String>,
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
