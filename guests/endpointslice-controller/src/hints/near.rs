//! Hints of `spec.trafficDistribution`: an endpoint is meant for its own zone, or
//! also its own node.

use coxswain_sdk::endpoints::pack::Packed;
use coxswain_sdk::endpoints::slice::{Endpoint, Hints, Named, Trigger};

/// How near.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearness {
    /// The same zone.
    Zone,
    /// The same node, else the same zone.
    Node,
}

impl Nearness {
    /// What the field asks for; None where it asks for nothing known.
    pub fn asked_for(distribution: Option<&str>) -> Option<Self> {
        match distribution? {
            "PreferClose" | "PreferSameZone" => Some(Self::Zone),
            "PreferSameNode" => Some(Self::Node),
            _ => None,
        }
    }

    fn hints(self, endpoint: &Endpoint) -> Option<Hints> {
        let named = |name: &Option<String>| name.iter().map(|name| Named { name: name.clone() }).collect();
        let hints = Hints {
            for_zones: named(&endpoint.zone),
            for_nodes: if self == Self::Node { named(&endpoint.node_name) } else { Vec::new() },
        };
        (hints != Hints::default()).then_some(hints)
    }
}

/// Gives ready endpoints their hints; on others hints are of no account.
pub fn apply(nearness: Nearness, packed: &mut Packed<Trigger>) {
    super::redraft(packed, |slice| {
        let mut ready = slice.endpoints.iter().filter(|endpoint| endpoint.is_ready());
        ready.any(|endpoint| {
            let hints = endpoint.hints.clone().filter(|hints| *hints != Hints::default());
            hints != nearness.hints(endpoint)
        })
    });
    for endpoint in packed.drafts.iter_mut().flat_map(|draft| &mut draft.endpoints) {
        if endpoint.is_ready() {
            endpoint.hints = nearness.hints(endpoint);
        }
    }
}
