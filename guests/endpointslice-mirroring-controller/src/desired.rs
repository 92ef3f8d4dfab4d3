//! The endpoints that the addresses of an Endpoints object make.

use std::collections::HashMap;

use coxswain_sdk::endpoints::address::{self, Family};
use coxswain_sdk::endpoints::port::{self, In, Port, PortKey};
use coxswain_sdk::endpoints::slice::{Conditions, Endpoint};
use coxswain_sdk::endpoints::subsets::{Address, Subset, Subsets};
use coxswain_sdk::endpoints::wanted::Wanted;

/// Endpoints of one slice.
#[derive(Debug)]
pub struct Group {
    /// The family of their addresses.
    pub family: Family,
    /// The ports.
    pub ports: Vec<Port>,
    /// The endpoints.
    pub wanted: Wanted,
}

/// What is wanted for an Endpoints object.
#[derive(Debug, Default)]
pub struct Desired {
    /// Endpoints by family and ports: a slice of each.
    pub groups: Vec<Group>,
    /// Which group is of which family and ports.
    pub places: HashMap<(Family, PortKey), usize>,
    /// How many addresses are none.
    pub invalid: usize,
    /// How many addresses are left out, those included.
    pub skipped: usize,
}

/// Endpoints of these subsets, of each `limit` at most.
pub fn desired(subsets: &[Subset], limit: usize) -> Desired {
    let mut desired = Desired::default();
    for subset in Subsets::of(subsets).finish() {
        let ports = port::in_order(subset.ports.iter().cloned(), In::Slice);
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
                    let at = *desired.places.entry((family, key.clone())).or_insert_with(|| {
                        let group = Group { family, ports: ports.clone(), wanted: Wanted::default() };
                        desired.groups.push(group);
                        desired.groups.len() - 1
                    });
                    desired.groups[at].wanted.insert(endpoint);
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
