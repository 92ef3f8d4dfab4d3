//! Pods that carry the tracking finalizer and that no Job will count any more.
//!
//! Keys are not the pods but the owners they name, so that a Job of 10,000 pods
//! is watched once and not 10,000 times; and they are found also if their Job
//! vanished unseen. Pods without a controller are keys of their own.

use std::time::Duration;

use coxswain_sdk::contract::PatchKind;
use coxswain_sdk::resource::{JOBS, PODS};
use coxswain_sdk::{Action, Ctx, Object, Plan, Query, Result, Step, Time};
use serde_json::json;

use crate::manage::BURST;
use crate::view::{Job, Pod, TRACKING};

/// Index of pods by the uids of their owners and by their finalizers.
pub const OWNED: &str = "owner-and-finalizer";

/// How long such pods may look tracked. Their Job's own key frees them, too, before the Job finishes or goes; but Jobs
/// and pods are watched one beside the other, so that the end of the Job may be seen before that.
const SETTLED: Duration = Duration::from_millis(500);

/// Takes the finalizer off the pods of an owner that is gone or finished. The
/// key is a value of [`OWNED`].
pub fn reconcile_owner(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let Some((uid, finalizer)) = ctx.key().name.split_once('/') else { return Ok(plan) };
    if finalizer != TRACKING {
        return Ok(plan);
    }
    let job = ctx.list::<Job>(Query::all().uid(uid))?.pop();
    if job.is_some_and(|job| job.managed_elsewhere().is_some() || !job.is_finished()) {
        return Ok(plan);
    }
    let pods = ctx.list::<Pod>(Query::all().index(OWNED, &[uid, TRACKING]))?;
    let was_counted_by = |pod: &Object<Pod>| {
        pod.metadata.controller().is_some_and(|owner| {
            owner.uid == uid && owner.kind == JOBS.kind && owner.api_version == JOBS.api_version()
        })
    };
    let orphans: Vec<_> = pods.iter().filter(|pod| pod.is_tracked() && was_counted_by(pod)).collect();
    if orphans.is_empty() {
        plan.keep_instead(ctx.state(), String::new());
        return Ok(plan);
    }
    let first_seen = ctx.state().and_then(Time::parse).unwrap_or(ctx.now());
    plan.keep_instead(ctx.state(), first_seen.to_micro());
    if ctx.now() < first_seen + SETTLED {
        plan.come_back(first_seen + SETTLED);
        return Ok(plan);
    }
    plan.then(Step::new(orphans.into_iter().take(BURST).map(|pod| untrack(pod))).or_go_on());
    Ok(plan)
}

/// Takes the finalizer off a pod that has no controller.
pub fn reconcile_pod(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let Some(pod) = ctx.primary::<Pod>()? else { return Ok(plan) };
    if pod.is_tracked() && pod.metadata.controller().is_none() {
        // As seen: a Job may be about to adopt it, and then counts it.
        plan.then(untrack(&pod).as_seen(&pod));
    }
    Ok(plan)
}

/// Takes the tracking finalizer off a pod.
pub fn untrack(pod: &Pod) -> Action {
    let meta = &pod.metadata;
    let body = json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": [TRACKING] } });
    Action::patch(PODS, &meta.namespace, &meta.name, PatchKind::Strategic, &body)
        .uid(&meta.uid)
        .tag("untrack")
}
