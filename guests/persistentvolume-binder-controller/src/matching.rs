//! Which volume suits a claim.
//!
//! Invariant: what is chosen depends on the volumes alone, not on the order in
//! which they come.

use coxswain_sdk::Object;
use coxswain_sdk::quantity::Quantity;
use coxswain_sdk::selector::Selector;
use coxswain_sdk::sort::{TextSet, sorted_by};

use crate::class;
use crate::names::AVAILABLE;
use crate::view::{Claim, Volume};

/// Whether a volume is reserved for this claim, or bound to it.
pub fn is_for(volume: &Volume, claim: &Claim) -> bool {
    volume.spec.claim_ref.as_ref().is_some_and(|claim_ref| {
        claim_ref.name == claim.metadata.name
            && claim_ref.namespace == claim.metadata.namespace
            && (claim_ref.uid.is_empty() || claim_ref.uid == claim.metadata.uid)
    })
}

/// Whether one is a block device and the other is not.
pub fn modes_differ(volume: &Volume, claim: &Claim) -> bool {
    fn mode(mode: &Option<String>) -> &str {
        mode.as_deref().unwrap_or("Filesystem")
    }
    mode(&volume.spec.volume_mode) != mode(&claim.spec.volume_mode)
}

fn size_of(volume: &Volume) -> Quantity {
    volume.spec.capacity.storage.unwrap_or(Quantity::ZERO)
}

fn size_wanted(claim: &Claim) -> Quantity {
    claim.spec.resources.requests.storage.unwrap_or(Quantity::ZERO)
}

fn attributes_differ(volume: &Volume, claim: &Claim) -> bool {
    volume.spec.volume_attributes_class_name.as_deref().unwrap_or_default()
        != claim.spec.volume_attributes_class_name.as_deref().unwrap_or_default()
}

/// Why a volume that the claim names does not suit it.
pub fn mismatch(volume: &Volume, claim: &Claim) -> Option<String> {
    let offers = |mode: &String| volume.spec.access_modes.contains(mode);
    if volume.metadata.is_deleting() {
        Some(format!("the volume is marked for deletion {:?}", volume.metadata.name))
    } else if size_of(volume).value() < size_wanted(claim).value() {
        Some("requested PV is too small".to_owned())
    } else if class::of_volume(volume) != class::of_claim(claim) {
        Some("storageClassName does not match".to_owned())
    } else if attributes_differ(volume, claim) {
        Some("volumeAttributesClassName does not match".to_owned())
    } else if modes_differ(volume, claim) {
        Some("incompatible volumeMode".to_owned())
    } else if !claim.spec.access_modes.iter().all(offers) {
        Some("incompatible accessMode".to_owned())
    } else {
        None
    }
}

/// The volume to bind a claim to. Those with the fewest access modes come
/// first; among them one that is for the claim already, or else the smallest.
/// `reserved_only` leaves all others to the scheduler.
pub fn best<'a>(
    volumes: &'a [Object<Volume>],
    claim: &Claim,
    selector: Option<&Selector>,
    reserved_only: bool,
) -> Option<&'a Object<Volume>> {
    let fitting = volumes.iter().filter_map(|volume| {
        let modes: TextSet<'_> = volume.spec.access_modes.iter().map(String::as_str).collect();
        claim.spec.access_modes.iter().all(|mode| modes.contains(mode)).then_some((modes, volume))
    });
    let fitting = sorted_by(fitting, |(a, _), (b, _)| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
    fitting.chunk_by(|(a, _), (b, _)| a == b).find_map(|group| {
        let group: Vec<_> = group.iter().map(|(_, volume)| *volume).collect();
        best_of(&group, claim, selector, reserved_only)
    })
}

fn best_of<'a>(
    group: &[&'a Object<Volume>],
    claim: &Claim,
    selector: Option<&Selector>,
    reserved_only: bool,
) -> Option<&'a Object<Volume>> {
    let wanted = size_wanted(claim);
    let suits = |volume: &&&Object<Volume>| {
        size_of(volume) >= wanted
            && !modes_differ(volume, claim)
            && !attributes_differ(volume, claim)
            && !volume.metadata.is_deleting()
    };
    let free = |volume: &&&Object<Volume>| {
        volume.spec.claim_ref.is_none()
            && volume.status.phase == AVAILABLE
            && selector.is_none_or(|selector| selector.matches(&volume.metadata.labels))
            && class::of_volume(volume) == class::of_claim(claim)
    };
    let by_name = |volume: &&&Object<Volume>| volume.metadata.name.clone();
    let reserved = group.iter().filter(suits).filter(|volume| is_for(volume, claim)).min_by_key(by_name);
    if reserved.is_some() || reserved_only {
        return reserved.copied();
    }
    let order = |a: &&&'a Object<Volume>, b: &&&'a Object<Volume>| {
        size_of(a).cmp(&size_of(b)).then_with(|| a.metadata.name.cmp(&b.metadata.name))
    };
    group.iter().filter(suits).filter(free).min_by(order).copied()
}
