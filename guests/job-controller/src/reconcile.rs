//! One reconcile: whose turn it is, and what state is kept.

use coxswain_sdk::{About, Ctx, Plan, Result};

use crate::memory::{Memory, Turn};
use crate::setbacks::Review;
use crate::sync::sync;
use crate::view::Job;
use crate::{measures, orphans};

/// Key source: Jobs.
pub const OF_JOBS: &str = "jobs";
/// Key source: owners of pods that carry finalizers.
pub const OF_OWNERS: &str = "owners";
/// Key source: pods without a controller.
pub const OF_PODS: &str = "pods-without-controller";

/// One reconcile of a key.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    match ctx.source() {
        OF_OWNERS => orphans::reconcile_owner(ctx),
        OF_PODS => orphans::reconcile_pod(ctx),
        _ => reconcile_job(ctx),
    }
}

fn reconcile_job(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let job = ctx.primary::<Job>()?;
    if let Some(manager) = job.as_ref().and_then(|job| job.managed_elsewhere()) {
        measures::managed_elsewhere(&mut plan, ctx.state(), manager);
        return Ok(plan);
    }
    let Some(job) = job.filter(|job| !job.is_finished()) else {
        if ctx.state().is_some() {
            plan.clear();
        }
        return Ok(plan);
    };
    if !job.has_known_mode() {
        let text = "Skipped Job sync because completion mode is unknown";
        plan.event(About::of::<Job, _>(&job.metadata).warning("UnknownCompletionMode", text));
        return Ok(plan);
    }
    let memory = Memory::read(ctx.state());
    if let (Some(memory), true) = (&memory, ctx.results().is_empty())
        && let Turn::Wait(until) = memory.turn(job.metadata.generation, ctx.now())
    {
        plan.come_back(until);
        plan.keep_instead(ctx.state(), Memory { due: Some(until), ..memory.clone() }.write());
        return Ok(plan);
    }
    let (review, mut memory) = (Review::of(ctx), memory.unwrap_or_default());
    memory.setbacks = memory.setbacks.after(&review);
    if memory.setbacks.waits && review.wants_time() {
        // Whatever was due before that, such as a deadline, stays due.
        let due = [memory.due.filter(|due| *due > ctx.now()), memory.setbacks.again(ctx.now())];
        memory.due = due.into_iter().flatten().min();
        if let Some(due) = memory.due {
            plan.come_back(due);
        }
        plan.keep_instead(ctx.state(), memory.write());
        return Ok(plan);
    }
    let (mut plan, memory) = sync(ctx, &job, memory, &review)?;
    if let Some(memory) = memory {
        plan.keep_instead(ctx.state(), memory.write());
    }
    Ok(plan)
}
