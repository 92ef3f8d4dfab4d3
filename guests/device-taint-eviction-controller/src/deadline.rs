//! When a pod must go for the sake of its devices.

use std::time::Duration;

use coxswain_sdk::{Ctx, Object, Query, Result, Time};

use crate::view::{Claim, Granted, Pod, Slice, Taint, Toleration};

/// Index of slices by driver and pool.
pub const BY_POOL: &str = "pool";
const NO_EXECUTE: &str = "NoExecute";

/// The earliest time at which one of the pod's devices is not to be used any
/// more. None if all are fine, or tolerated for ever.
pub fn of_pod(ctx: &Ctx<'_>, pod: &Pod) -> Result<Option<Time>> {
    let mut earliest = None;
    for pod_claim in &pod.spec.resource_claims {
        let named = pod.named(pod_claim);
        let Some(name) = named.claim() else { continue };
        let Some(claim) = ctx.get::<Claim>(&pod.metadata.namespace, name)? else { continue };
        let reserved = claim.status.reserved_for.iter().any(|consumer| consumer.uid == pod.metadata.uid);
        if !reserved || !named.is(&claim.metadata, &pod.metadata) {
            continue;
        }
        for device in claim.status.allocation.iter().flat_map(|allocation| &allocation.devices.results) {
            let slices = ctx.list::<Slice>(Query::all().index(BY_POOL, &[&device.driver, &device.pool]))?;
            earliest = earliest.into_iter().chain(of_device(device, &slices)).min();
        }
    }
    Ok(earliest)
}

/// The same of one device, by the newest slices of its pool.
pub fn of_device(device: &Granted, slices: &[Object<Slice>]) -> Option<Time> {
    let newest = slices.iter().map(|slice| slice.spec.pool.generation).max()?;
    let current = slices.iter().filter(|slice| slice.spec.pool.generation == newest);
    let found = current.flat_map(|slice| &slice.spec.devices).find(|there| there.name == device.device)?;
    let taints = found.taints.iter().filter(|taint| taint.effect == NO_EXECUTE);
    taints.filter_map(|taint| of_taint(taint, &device.tolerations)).min()
}

/// The same of one taint. The API server notes when it was put on.
pub fn of_taint(taint: &Taint, tolerations: &[Toleration]) -> Option<Time> {
    let since = taint.time_added?;
    let mut shortest: Option<u64> = None;
    for toleration in tolerations.iter().filter(|toleration| tolerates(toleration, taint)) {
        let seconds = u64::try_from(toleration.toleration_seconds?).unwrap_or(0);
        shortest = Some(shortest.map_or(seconds, |shortest| shortest.min(seconds)));
    }
    // Longer than all time is for ever.
    let seconds = i64::try_from(shortest.unwrap_or(0)).ok()?;
    since.unix().checked_add(seconds)?;
    Some(since + Duration::from_secs(shortest.unwrap_or(0)))
}

/// Whether a toleration is for this taint. One that names no effect bears with
/// being scheduled, not with being kept.
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    toleration.effect == NO_EXECUTE
        && (toleration.key.is_empty() || toleration.key == taint.key)
        && match toleration.operator.as_str() {
            "" | "Equal" => toleration.value == taint.value,
            "Exists" => true,
            _ => false,
        }
}
