//! Endpoints shared out among zones in proportion to their processors.
//!
//! Hints stay as they are while no zone gets so few endpoints that these would
//! have to carry a fifth more than their share; so nodes may come and go without
//! a write.

use std::collections::BTreeMap;

use coxswain_sdk::endpoints::pack::Packed;
use coxswain_sdk::endpoints::slice::{Endpoint, EndpointSlice, Hints, Trigger};
use coxswain_sdk::quantity::Quantity;

use crate::view::Node;

/// How much more than its share an endpoint may have to carry.
const OVERLOAD: f64 = 0.2;

/// Numbers of endpoints by zone.
type Counts = BTreeMap<String, usize>;

/// The share that each zone has of all processors.
#[derive(Debug, PartialEq)]
pub struct Shares(BTreeMap<String, f64>);

impl Shares {
    /// Shares by the ready nodes outside the control plane. None where one of
    /// them tells no zone or no processors, or all are in the same zone.
    pub fn of<'a>(nodes: impl Iterator<Item = &'a Node>) -> Option<Self> {
        let mut by_zone: BTreeMap<&str, i64> = BTreeMap::new();
        for node in nodes.filter(|node| !node.is_control_plane() && node.is_ready()) {
            let cpu = Quantity::parse(node.status.allocatable.cpu.as_deref()?).ok()?;
            if cpu.is_zero() || cpu.is_negative() {
                return None;
            }
            let sum = by_zone.entry(node.zone()?).or_default();
            *sum = sum.saturating_add(cpu.milli_value());
        }
        let total: i64 = by_zone.values().fold(0, |sum, cpu| sum.saturating_add(*cpu));
        let share = |(zone, cpu): (&str, i64)| (zone.to_owned(), cpu as f64 / total as f64);
        (by_zone.len() >= 2).then(|| Self(by_zone.into_iter().map(share).collect()))
    }

    /// What each zone is to get of so many endpoints.
    fn allocations(&self, endpoints: usize) -> Result<BTreeMap<&str, Allocation>, String> {
        let of_how_many = || format!("({endpoints} endpoints, {} zones)", self.0.len());
        if self.0.len() > endpoints {
            return Err(format!("Insufficient number of endpoints {}", of_how_many()));
        }
        let minimum = |share: f64| (share * endpoints as f64 * (1.0 / (1.0 + OVERLOAD))).ceil();
        let least: usize = self.0.values().map(|share| minimum(*share) as usize).sum();
        let Some(spare) = endpoints.checked_sub(least) else {
            return Err(format!(
                "Unable to allocate minimum required endpoints to each zone without exceeding overload \
                 threshold {}",
                of_how_many()
            ));
        };
        let allocation = |share: f64| {
            let minimum = minimum(share);
            let desired = (share * endpoints as f64).max(minimum);
            Allocation { desired, maximum: minimum as usize + spare }
        };
        Ok(self.0.iter().map(|(zone, share)| (zone.as_str(), allocation(*share))).collect())
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Allocation {
    /// As many as its share.
    desired: f64,
    /// More would leave too few for the others.
    maximum: usize,
}

/// Gives ready endpoints their zones. The error says why that cannot be done.
pub fn share_out(shares: Option<&Shares>, packed: &mut Packed<Trigger>) -> Result<(), String> {
    let shares = shares
        .ok_or("Insufficient Node information: allocatable CPU or zone not specified on one or more nodes")?;
    let kept = packed.untouched.iter().flat_map(|slice| &slice.endpoints);
    let all = kept.chain(packed.drafts.iter().flat_map(|draft| &draft.endpoints));
    let allocations = shares.allocations(all.filter(|endpoint| endpoint.is_ready()).count())?;

    let mut allocated = Counts::new();
    super::redraft(packed, |slice| match hints_of(slice, &allocated, &allocations) {
        Some(counts) => {
            for (zone, count) in counts {
                *allocated.entry(zone).or_default() += count;
            }
            false
        }
        None => true,
    });

    for endpoint in packed.drafts.iter_mut().flat_map(|draft| &mut draft.endpoints) {
        if !endpoint.is_ready() {
            endpoint.hints = None;
            continue;
        }
        let zone = endpoint.zone.clone().filter(|zone| !zone.is_empty());
        let zone = zone.ok_or("One or more endpoints do not have a zone specified")?;
        endpoint.hints = Some(Hints::zone(&zone));
        *allocated.entry(zone).or_default() += 1;
    }
    let (giving, receiving) = exchanges(&allocations, &allocated);
    redistribute(packed.drafts.iter_mut().flat_map(|draft| &mut draft.endpoints), giving, receiving);
    if allocated.is_empty() {
        return Err("No hints allocated for zones".to_owned());
    }
    Ok(())
}

/// How many endpoints of a slice are hinted at each zone. None where a hint is
/// missing, names a zone without a share, or too many name the same one.
fn hints_of(
    slice: &EndpointSlice<Trigger>,
    allocated: &Counts,
    allocations: &BTreeMap<&str, Allocation>,
) -> Option<Counts> {
    let mut counts = Counts::new();
    for endpoint in slice.endpoints.iter().filter(|endpoint| endpoint.is_ready()) {
        let hints = endpoint.hints.as_ref().filter(|hints| !hints.for_zones.is_empty())?;
        for zone in &hints.for_zones {
            allocations.get(zone.name.as_str())?;
            *counts.entry(zone.name.clone()).or_default() += 1;
        }
    }
    let fits = |(zone, count): (&String, &usize)| {
        let before = allocated.get(zone).copied().unwrap_or(0);
        allocations.get(zone.as_str()).is_some_and(|allocation| before + count <= allocation.maximum)
    };
    counts.iter().all(fits).then_some(counts)
}

/// How many endpoints zones give away, and how many others get: only as many as
/// bring both nearer to their shares.
fn exchanges(allocations: &BTreeMap<&str, Allocation>, allocated: &Counts) -> (Counts, Counts) {
    let mut surplus: BTreeMap<&str, f64> = BTreeMap::new();
    let mut lack: BTreeMap<&str, f64> = BTreeMap::new();
    for (zone, allocation) in allocations {
        let too_many = allocated.get(*zone).copied().unwrap_or(0) as f64 - allocation.desired;
        if too_many > 0.0 {
            surplus.insert(zone, too_many);
        } else if too_many < 0.0 {
            lack.insert(zone, -too_many);
        }
    }
    let (mut giving, mut receiving) = (Counts::new(), Counts::new());
    while let (Some((from, gives)), Some((to, gets))) = (most(&mut surplus), most(&mut lack)) {
        if (*gives < 1.0 && *gets < 1.0) || *gives < 0.5 || *gets < 0.5 {
            break;
        }
        *gives -= 1.0;
        *gets -= 1.0;
        *giving.entry(from.to_owned()).or_default() += 1;
        *receiving.entry(to.to_owned()).or_default() += 1;
    }
    (giving, receiving)
}

/// The zone with the most; of equals, the first.
fn most<'m, 'z>(zones: &'m mut BTreeMap<&'z str, f64>) -> Option<(&'z str, &'m mut f64)> {
    let above_zero = zones.iter_mut().filter(|(_, amount)| **amount > 0.0);
    let most = above_zero.reduce(|most, next| if *next.1 > *most.1 { next } else { most });
    most.map(|(zone, amount)| (*zone, amount))
}

fn redistribute<'a>(
    endpoints: impl Iterator<Item = &'a mut Endpoint>,
    mut giving: Counts,
    mut receiving: Counts,
) {
    for endpoint in endpoints.filter(|endpoint| endpoint.is_ready()) {
        let Some(left) = endpoint.zone.as_ref().and_then(|zone| giving.get_mut(zone)) else { continue };
        let Some((zone, wanted)) = receiving.iter_mut().find(|(_, wanted)| **wanted > 0) else { return };
        if *left > 0 {
            *left -= 1;
            *wanted -= 1;
            endpoint.hints = Some(Hints::zone(zone));
        }
    }
}
