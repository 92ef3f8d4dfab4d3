//! Hints: which zones and nodes an endpoint is meant for.
//!
//! The annotation `service.kubernetes.io/topology-mode: Auto` shares endpoints
//! out among zones by their processors; `spec.trafficDistribution` sends each
//! endpoint to its own zone or node. The annotation wins.

mod near;
#[cfg(test)]
mod tests;
mod zones;

use coxswain_sdk::endpoints::address::Family;
use coxswain_sdk::endpoints::draft::Draft;
use coxswain_sdk::endpoints::pack::Packed;
use coxswain_sdk::endpoints::service::Service;
use coxswain_sdk::endpoints::slice::Trigger;
use coxswain_sdk::{About, Ctx, Plan, Query, Result};

use crate::memory::Memory;
use crate::view::{Node, Slice};

const DISABLED: &str = "TopologyAwareHintsDisabled";

/// Gives the endpoints of a family their hints. Slices that were to stay as they
/// are and need others become drafts.
pub fn apply(
    ctx: &Ctx<'_>,
    service: &Service,
    family: Family,
    packed: &mut Packed<Trigger>,
    memory: &mut Memory,
    about: &About,
    plan: &mut Plan,
) -> Result<()> {
    if service.metadata.annotations.is_auto() {
        let shares = zones::shares(ctx.list::<Node>(Query::all())?.iter().map(|node| &**node));
        match zones::share_out(shares.as_deref(), packed) {
            Ok(()) => {
                let text = enabled(family);
                if memory.tell(family, Some(&text)) {
                    plan.event(about.normal("TopologyAwareHintsEnabled", text));
                }
            }
            Err(why) => {
                let text = format!("{why}, addressType: {family}");
                if memory.tell(family, Some(&text)) {
                    plan.event(about.warning(DISABLED, text));
                }
                clear(packed);
            }
        }
        return Ok(());
    }
    if memory.was_told(family, &enabled(family)) {
        let text = format!("Topology Aware Hints has been disabled, addressType: {family}");
        plan.event(about.warning(DISABLED, text));
    }
    memory.tell(family, None);
    match near::Nearness::asked_for(service.spec.traffic_distribution.as_deref()) {
        Some(nearness) => near::apply(nearness, packed),
        None => clear(packed),
    }
    Ok(())
}

fn enabled(family: Family) -> String {
    format!("Topology Aware Hints has been enabled, addressType: {family}")
}

/// Takes all hints away.
fn clear(packed: &mut Packed<Trigger>) {
    redraft(packed, |slice| slice.endpoints.iter().any(|endpoint| endpoint.hints.is_some()));
    for endpoint in packed.drafts.iter_mut().flat_map(|draft| &mut draft.endpoints) {
        endpoint.hints = None;
    }
}

/// Makes drafts of the slices that need other hints.
fn redraft(packed: &mut Packed<Trigger>, mut needs_others: impl FnMut(&Slice) -> bool) {
    let (changing, untouched) =
        std::mem::take(&mut packed.untouched).into_iter().partition(|slice| needs_others(slice));
    packed.untouched = untouched;
    let changing: Vec<_> = changing;
    packed.drafts.extend(changing.iter().map(Draft::of));
}
