//! What a controller keeps with a key, as JSON: a hint, which may be lost.

use serde::Serialize;

use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::read::FromJson;
use crate::reader::from_json;

/// What was kept; nothing where that cannot be read.
pub fn read<M: FromJson + Default>(ctx: &Ctx<'_>) -> M {
    ctx.state().and_then(|text| from_json(text).ok()).unwrap_or_default()
}

/// Keeps this, if it is not what was kept before. Nothing to keep is dropped.
pub fn keep<M: Serialize + Default + PartialEq>(memory: &M, before: &M, plan: &mut Plan) -> Result<()> {
    if memory == before {
        return Ok(());
    }
    if *memory == M::default() {
        plan.clear();
        return Ok(());
    }
    let text =
        serde_json::to_string(memory).map_err(|e| Error::Terminal(format!("cannot write JSON: {e}")))?;
    plan.keep(text);
    Ok(())
}
