//! Ended pods beyond the threshold.

use coxswain_sdk::sort::sort_by;
use coxswain_sdk::{Ctx, Object, Plan, Query, Result, Time};

use crate::removal::{is_due, remove};
use crate::view::Pod;
use crate::{BY_PHASE, THRESHOLD};

/// How long further ended pods may wait, so that they are taken together.
const ROUND_MILLIS: u32 = 20_000;
/// How many pods a plan removes at most.
const AT_ONCE: usize = 500;

/// Removes the ended pods that are too many.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let threshold = ctx.option_as::<i64>(THRESHOLD)?;
    if threshold <= 0 {
        return Ok(plan);
    }
    let mut refs = Vec::new();
    for phase in ["Succeeded", "Failed"] {
        refs.extend(ctx.refs::<Pod>(Query::all().index(BY_PHASE, &[phase]))?);
    }
    let kept = usize::try_from(threshold).unwrap_or(usize::MAX);
    let excess = refs.len().saturating_sub(kept);
    if excess == 0 {
        // They are counted, and read only once they are too many.
        plan.quiet(ROUND_MILLIS);
        return Ok(plan);
    }
    let mut pods: Vec<Object<Pod>> = ctx.read_refs(refs)?;
    sort_by(&mut pods, |a, b| rank(a).cmp(&rank(b)));
    let mut going = pods.iter().take(excess).map(|pod| &**pod).filter(|pod| is_due(pod)).peekable();
    remove(&mut plan, going.by_ref().take(AT_ONCE), "terminated", None, ctx.now());
    if going.peek().is_some() {
        plan.come_back(ctx.now());
    } else {
        plan.quiet(ROUND_MILLIS);
    }
    Ok(plan)
}

/// Evicted pods go before those that users may want to look at, old ones before
/// young ones.
fn rank(pod: &Pod) -> (bool, Option<Time>, &str, &str) {
    let meta = &pod.metadata;
    (!pod.was_evicted(), meta.creation_timestamp, &meta.name, &meta.namespace)
}
