//! What is to be done about one quota.

use coxswain_sdk::resource::RESOURCE_QUOTAS;
use coxswain_sdk::{Action, Ctx, Plan, Result};

use crate::drift::{self, Memory};
use crate::usage;
use crate::view::{ResourceQuota, Status, same};

/// Changes that come within so many milliseconds are counted together.
const QUIET: u32 = 50;
/// Tag that the SDK gives to writes of a status.
const STATUS: &str = "status";

/// Decides about the quota of the key.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let Some(quota) = ctx.primary::<ResourceQuota>()? else { return Ok(plan) };
    let mut memory = Memory::read(ctx.state());
    if ctx.results().iter().any(|result| result.tag == STATUS) {
        memory.undo();
    }
    let period = Some(ctx.option_duration(crate::SYNC_PERIOD)?).filter(|period| !period.is_zero());
    let counted = usage::count(ctx, &quota)?;
    let mut status = quota.status.used.clone().unwrap_or_default();
    status.retain(|name, _| quota.spec.hard.contains_key(name));
    let decision = drift::decide(&memory, &counted.used, &status, ctx.now(), period);

    let (hard, used) = (quota.status.hard.clone(), quota.status.used.clone());
    let unchanged =
        same(&quota.spec.hard, &hard.unwrap_or_default()) && same(&decision.used, &used.unwrap_or_default());
    if !unchanged {
        let wanted = Status { hard: Some(quota.spec.hard.clone()), used: Some(decision.used) };
        let meta = &quota.metadata;
        let write = Action::status(RESOURCE_QUOTAS, &meta.namespace, &meta.name, &quota.status, &wanted)?;
        plan.then(write.map(|action| action.as_seen(&quota)));
    }
    let kept = decision.memory.write();
    if ctx.state() != Some(&kept) {
        plan.keep(kept);
    }
    for at in decision.again.into_iter().chain(counted.until.map(|at| at + std::time::Duration::from_secs(1)))
    {
        plan.come_back(at);
    }
    plan.quiet(QUIET);
    Ok(plan)
}
