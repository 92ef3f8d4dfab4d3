//! Endpoints shared out among zones in proportion to their processors.
//!
//! Hints stay as they are while no zone gets so few endpoints that these would
//! have to carry a fifth more than their share; so nodes may come and go without
//! a write.

use coxswain_sdk::endpoints::pack::Packed;
use coxswain_sdk::endpoints::slice::{Endpoint, EndpointSlice, Hints, Trigger};
use coxswain_sdk::quantity::Quantity;
use coxswain_sdk::sort::sorted_by;
use litemap::LiteMap;

use crate::view::Node;

/// How much more than its share an endpoint may have to carry.
const OVERLOAD: f64 = 0.2;

/// A zone, and the share it has of all processors.
#[derive(Debug, PartialEq)]
pub struct Share {
    zone: String,
    share: f64,
}

#[cfg(test)]
impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:.2}", self.zone, self.share)
    }
}

/// What a zone is to get, and has got.
#[derive(Debug, PartialEq)]
pub(super) struct Zone {
    name: String,
    /// As many endpoints as its share.
    pub(super) desired: f64,
    /// More would leave too few for the others.
    pub(super) maximum: usize,
    /// Endpoints that are meant for it.
    pub(super) hinted: usize,
}

/// Zones in the order of their names.
#[derive(Debug)]
pub(super) struct Zones {
    pub(super) zones: Vec<Zone>,
    places: LiteMap<String, usize>,
}

/// Shares by the ready nodes outside the control plane. None where one of them
/// tells no zone or no processors, or all are in the same zone.
pub fn shares<'a>(nodes: impl Iterator<Item = &'a Node>) -> Option<Vec<Share>> {
    let mut places: LiteMap<&str, usize> = LiteMap::new();
    let mut by_zone: Vec<(&str, i64)> = Vec::new();
    for node in nodes.filter(|node| !node.is_control_plane() && node.is_ready()) {
        let cpu = Quantity::parse(node.status.allocatable.cpu.as_deref()?).ok()?;
        if cpu.is_zero() || cpu.is_negative() {
            return None;
        }
        let zone = node.zone()?;
        let at = *places.entry(zone).or_insert_with(|| {
            by_zone.push((zone, 0));
            by_zone.len() - 1
        });
        by_zone[at].1 = by_zone[at].1.saturating_add(cpu.milli_value());
    }
    let total: i64 = by_zone.iter().fold(0, |sum, (_, cpu)| sum.saturating_add(*cpu));
    let share = |(zone, cpu): (&str, i64)| Share { zone: zone.to_owned(), share: cpu as f64 / total as f64 };
    let by_zone = sorted_by(by_zone, |(a, _), (b, _)| a.cmp(b));
    (by_zone.len() >= 2).then(|| by_zone.into_iter().map(share).collect())
}

impl Zones {
    /// What each zone is to get of so many endpoints.
    pub(super) fn allocate(shares: &[Share], endpoints: usize) -> Result<Self, String> {
        let of_how_many = || format!("({endpoints} endpoints, {} zones)", shares.len());
        if shares.len() > endpoints {
            return Err(format!("Insufficient number of endpoints {}", of_how_many()));
        }
        let desired = |share: &Share| share.share * endpoints as f64;
        let minimum = |share: &Share| (desired(share) * (1.0 / (1.0 + OVERLOAD))).ceil();
        let least: usize = shares.iter().map(|share| minimum(share) as usize).sum();
        let Some(spare) = endpoints.checked_sub(least) else {
            return Err(format!(
                "Unable to allocate minimum required endpoints to each zone without exceeding overload \
                 threshold {}",
                of_how_many()
            ));
        };
        let zone = |share: &Share| Zone {
            name: share.zone.clone(),
            desired: desired(share).max(minimum(share)),
            maximum: minimum(share) as usize + spare,
            hinted: 0,
        };
        let mut places = LiteMap::new();
        for (at, share) in shares.iter().enumerate() {
            places.insert(share.zone.clone(), at);
        }
        Ok(Self { zones: shares.iter().map(zone).collect(), places })
    }

    /// Counts the hints of a slice, if they are to stay: none is missing, each
    /// names a zone with a share, and not too many name the same one.
    pub(super) fn accept(&mut self, slice: &EndpointSlice<Trigger>) -> bool {
        let mut counts = vec![0; self.zones.len()];
        for endpoint in slice.endpoints.iter().filter(|endpoint| endpoint.is_ready()) {
            let zones = endpoint.hints.as_ref().map_or(&[][..], |hints| &hints.for_zones);
            if zones.is_empty() {
                return false;
            }
            for zone in zones {
                let Some(at) = self.places.get(&zone.name) else { return false };
                counts[*at] += 1;
            }
        }
        let fits = |(zone, count): (&Zone, &usize)| *count == 0 || zone.hinted + count <= zone.maximum;
        if !self.zones.iter().zip(&counts).all(fits) {
            return false;
        }
        for (zone, count) in self.zones.iter_mut().zip(counts) {
            zone.hinted += count;
        }
        true
    }

    /// Takes from zones that have more than their share and gives to those that
    /// have less, as long as that brings both nearer to it. Returns how many
    /// endpoints each zone gives away, and how many it gets.
    pub(super) fn exchange(&self) -> (Vec<usize>, Vec<usize>) {
        let too_many = |zone: &Zone| zone.hinted as f64 - zone.desired;
        let mut surplus: Vec<f64> = self.zones.iter().map(too_many).collect();
        let mut lack: Vec<f64> = surplus.iter().map(|surplus| -surplus).collect();
        let (mut gives, mut gets) = (vec![0; surplus.len()], vec![0; surplus.len()]);
        while let (Some(from), Some(to)) = (most(&surplus), most(&lack)) {
            let (much, little) = (surplus[from], lack[to]);
            if (much < 1.0 && little < 1.0) || much < 0.5 || little < 0.5 {
                break;
            }
            surplus[from] -= 1.0;
            lack[to] -= 1.0;
            gives[from] += 1;
            gets[to] += 1;
        }
        (gives, gets)
    }

    /// Hints endpoints of zones that give at zones that get.
    fn redistribute<'a>(&self, endpoints: impl Iterator<Item = &'a mut Endpoint>) {
        let (mut gives, mut gets) = self.exchange();
        for endpoint in endpoints.filter(|endpoint| endpoint.is_ready()) {
            let at = endpoint.zone.as_ref().and_then(|zone| self.places.get(zone));
            let Some(from) = at.filter(|at| gives[**at] > 0) else { continue };
            let Some(to) = gets.iter().position(|wanted| *wanted > 0) else { return };
            gives[*from] -= 1;
            gets[to] -= 1;
            endpoint.hints = Some(Hints::zone(&self.zones[to].name));
        }
    }
}

/// The place of the most above zero; of equals, the first.
fn most(amounts: &[f64]) -> Option<usize> {
    let mut most = None;
    for (at, amount) in amounts.iter().enumerate() {
        if *amount > most.map_or(0.0, |most: usize| amounts[most]) {
            most = Some(at);
        }
    }
    most
}

/// Gives ready endpoints their zones. The error says why that cannot be done.
pub fn share_out(shares: Option<&[Share]>, packed: &mut Packed<Trigger>) -> Result<(), String> {
    let shares = shares
        .ok_or("Insufficient Node information: allocatable CPU or zone not specified on one or more nodes")?;
    let kept = packed.untouched.iter().flat_map(|slice| &slice.endpoints);
    let all = kept.chain(packed.drafts.iter().flat_map(|draft| &draft.endpoints));
    let mut zones = Zones::allocate(shares, all.filter(|endpoint| endpoint.is_ready()).count())?;

    super::redraft(packed, |slice| !zones.accept(slice));
    for endpoint in packed.drafts.iter_mut().flat_map(|draft| &mut draft.endpoints) {
        if !endpoint.is_ready() {
            endpoint.hints = None;
            continue;
        }
        let zone = endpoint.zone.as_ref().filter(|zone| !zone.is_empty());
        let zone = zone.ok_or("One or more endpoints do not have a zone specified")?;
        endpoint.hints = Some(Hints::zone(zone));
        // A zone without ready nodes has no share; its endpoints keep to it.
        if let Some(at) = zones.places.get(zone) {
            zones.zones[*at].hinted += 1;
        }
    }
    zones.redistribute(packed.drafts.iter_mut().flat_map(|draft| &mut draft.endpoints));
    Ok(())
}
