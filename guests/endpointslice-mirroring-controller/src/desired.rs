//! The endpoints that the addresses of an Endpoints object make.

use std::collections::BTreeMap;

use coxswain_sdk::endpoints::address::{self, Family};
use coxswain_sdk::endpoints::port::{self, In, Port, PortKey};
use coxswain_sdk::endpoints::slice::{Conditions, Endpoint};
use coxswain_sdk::endpoints::subsets::{Address, Subset, Subsets};
use coxswain_sdk::endpoints::wanted::Wanted;

/// What is wanted for an Endpoints object.
#[derive(Debug, Default)]
pub struct Desired {
    /// Ports and endpoints: a slice of each.
    pub groups: BTreeMap<(Family, PortKey), (Vec<Port>, Wanted)>,
    /// How many addresses are none.
    pub invalid: usize,
    /// How many addresses are left out, those included.
    pub skipped: usize,
}

/// Endpoints of these subsets, of each `limit` at most.
pub fn desired(subsets: &[Subset], limit: usize) -> Desired {
    let mut desired = Desired::default();
    for subset in Subsets::of(subsets).finish() {
        let mut ports = subset.ports.clone();
        port::sort(&mut ports, In::Slice);
        let key = PortKey::of(&ports);
        let ready = subset.addresses.iter().map(|address| (address, true));
        let not_ready = subset.not_ready_addresses.iter().map(|address| (address, false));
        let mut added = 0;
        for (address, is_ready) in ready.chain(not_ready) {
            if added == limit {
                break;
            }
            match endpoint(address, is_ready) {
                Some((family, endpoint)) => {
                    let group = desired.groups.entry((family, key.clone()));
                    group.or_insert_with(|| (ports.clone(), Wanted::default())).1.insert(endpoint);
                    added += 1;
                }
                None => desired.invalid += 1,
            }
        }
        desired.skipped += subset.len() - added;
    }
    desired
}

/// The endpoint of an address. It says nothing about serving and terminating, for
/// Endpoints do not either.
fn endpoint(address: &Address, is_ready: bool) -> Option<(Family, Endpoint)> {
    let ip = address::parse(&address.ip)?;
    let endpoint = Endpoint {
        addresses: vec![ip.to_string()],
        conditions: Conditions { ready: Some(is_ready), ..Conditions::default() },
        hostname: (!address.hostname.is_empty()).then(|| address.hostname.clone()),
        target_ref: address.target_ref.clone(),
        node_name: address.node_name.clone(),
        ..Endpoint::default()
    };
    Some((Family::of(ip), endpoint))
}
