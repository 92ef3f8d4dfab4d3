//! Endpoints objects, and the canonical form of their subsets.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::port::{self, In, Port};
use super::slice::Target;
use crate::meta::ObjectMeta;
use crate::resource::{ENDPOINTS, Resource};
use crate::view::View;

/// An Endpoints object. `A` says which annotations are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound = "A: Deserialize<'de> + Default")]
pub struct Endpoints<A> {
    /// Metadata.
    pub metadata: ObjectMeta<A>,
    /// Subsets.
    #[serde(deserialize_with = "crate::meta::null_is_default")]
    pub subsets: Vec<Subset>,
}

impl<A: DeserializeOwned + Default + 'static> View for Endpoints<A> {
    const RESOURCE: Resource = ENDPOINTS;
}

/// Addresses that share ports. It is kept whole in the cache, so that the list
/// can be replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Subset {
    /// Addresses that are ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Address>,
    /// Addresses that are not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_ready_addresses: Vec<Address>,
    /// Ports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<Port>,
}

/// An address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Address {
    /// The address.
    pub ip: String,
    /// Its name within the service.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// The node it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The object behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<Target>,
}

impl Address {
    /// Uid of the object behind it.
    pub fn uid(&self) -> &str {
        self.target_ref.as_ref().map_or("", |target| &target.uid)
    }

    /// Whether both are the same; the version of the object behind them is of no
    /// account.
    fn is(&self, other: &Self) -> bool {
        let same_target = match (&self.target_ref, &other.target_ref) {
            (Some(target), Some(of_other)) => target.is(of_other),
            (target, of_other) => target.is_none() && of_other.is_none(),
        };
        self.ip == other.ip
            && self.hostname == other.hostname
            && self.node_name == other.node_name
            && same_target
    }
}

impl Subset {
    fn is(&self, other: &Self) -> bool {
        let same = |some: &[Address], others: &[Address]| {
            some.len() == others.len() && some.iter().zip(others).all(|(one, other)| one.is(other))
        };
        self.ports == other.ports
            && same(&self.addresses, &other.addresses)
            && same(&self.not_ready_addresses, &other.not_ready_addresses)
    }

    /// How many addresses it has.
    pub fn len(&self) -> usize {
        self.addresses.len() + self.not_ready_addresses.len()
    }

    /// Whether it has no address.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Whether both lists of subsets mean the same, whatever their order.
pub fn mean_the_same(some: &[Subset], others: &[Subset]) -> bool {
    let same = |some: &[Subset], others: &[Subset]| {
        some.len() == others.len() && some.iter().zip(others).all(|(one, other)| one.is(other))
    };
    same(some, others) || same(&Subsets::of(some).finish(), &Subsets::of(others).finish())
}

/// Gathers addresses and brings them into the canonical form: ports that the same
/// addresses have are together, nothing is there twice, and the order depends on
/// nothing else.
#[derive(Debug, Default)]
pub struct Subsets {
    addresses: Vec<Address>,
    /// Where addresses are, by themselves and the uid behind them.
    places: HashMap<(String, String), usize>,
    /// Which addresses have a port, and whether they are ready. No port at all
    /// is one more.
    by_port: BTreeMap<Option<Port>, BTreeMap<usize, bool>>,
}

impl Subsets {
    /// Gathers what is in these subsets.
    pub fn of(subsets: &[Subset]) -> Self {
        let mut gathered = Self::default();
        for subset in subsets {
            let ready = subset.addresses.iter().map(|address| (address, true));
            let not_ready = subset.not_ready_addresses.iter().map(|address| (address, false));
            for (address, is_ready) in ready.chain(not_ready) {
                let place = gathered.place(address);
                if subset.ports.is_empty() {
                    gathered.add(place, None, is_ready);
                }
                for port in &subset.ports {
                    gathered.add(place, Some(port), is_ready);
                }
            }
        }
        gathered
    }

    /// The place of an address. Of two with the same uid behind them, the first
    /// counts.
    pub fn place(&mut self, address: &Address) -> usize {
        let key = (address.ip.clone(), address.uid().to_owned());
        *self.places.entry(key).or_insert_with(|| {
            self.addresses.push(address.clone());
            self.addresses.len() - 1
        })
    }

    /// Says that the address at a place has a port. Once not ready, it stays so.
    pub fn add(&mut self, place: usize, port: Option<&Port>, is_ready: bool) {
        let port = port.cloned();
        let ready = self.by_port.entry(port).or_default().entry(place).or_insert(is_ready);
        *ready &= is_ready;
    }

    /// The canonical form.
    pub fn finish(self) -> Vec<Subset> {
        let mut by_addresses: BTreeMap<BTreeMap<usize, bool>, Vec<Port>> = BTreeMap::new();
        for (port, addresses) in self.by_port {
            by_addresses.entry(addresses).or_default().extend(port);
        }
        let mut subsets: Vec<Subset> = by_addresses
            .into_iter()
            .map(|(places, mut ports)| {
                port::sort(&mut ports, In::Subset);
                let of = |wanted: bool| {
                    let places = places.iter().filter(move |(_, ready)| **ready == wanted);
                    let mut addresses: Vec<Address> =
                        places.map(|(place, _)| self.addresses[*place].clone()).collect();
                    addresses.sort_by(|a, b| (&a.ip, a.uid()).cmp(&(&b.ip, b.uid())));
                    addresses
                };
                Subset { addresses: of(true), not_ready_addresses: of(false), ports }
            })
            .collect();
        // Ports tell subsets apart; only that without ports could be there twice
        // over, and it is not.
        subsets.sort_by(|a, b| a.ports.cmp(&b.ports));
        subsets
    }
}

/// Read as a map, which keeps the list whole in the cache; else it could not be
/// patched.
impl<'de> Deserialize<'de> for Subset {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Subset;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a subset")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Subset, M::Error> {
                let mut subset = Subset::default();
                while let Some(field) = map.next_key::<String>()? {
                    match field.as_str() {
                        "addresses" => subset.addresses = super::slice::or_default(&mut map)?,
                        "notReadyAddresses" => {
                            subset.not_ready_addresses = super::slice::or_default(&mut map)?;
                        }
                        "ports" => subset.ports = super::slice::or_default(&mut map)?,
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(subset)
            }
        }
        deserializer.deserialize_map(Fields)
    }
}
