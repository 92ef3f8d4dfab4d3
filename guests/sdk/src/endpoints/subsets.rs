//! Endpoints objects, and the canonical form of their subsets.

use std::collections::HashMap;

use serde::Serialize;

use super::port::{self, In, Port};
use super::slice::Target;
use crate::meta::ObjectMeta;
use crate::read::FromJson;
use crate::resource::{ENDPOINTS, Resource};
use crate::sort::{sort_by, sorted_by};
use crate::view::View;

/// An Endpoints object. `A` says which annotations are read.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Endpoints<A> {
    /// Metadata.
    pub metadata: ObjectMeta<A>,
    /// Subsets.
    pub subsets: Vec<Subset>,
}

impl<A: FromJson + Default + 'static> View for Endpoints<A> {
    const RESOURCE: Resource = ENDPOINTS;
}

/// Addresses that share ports. It is kept whole in the cache, so that the list
/// can be replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, FromJson)]
#[serde(rename_all = "camelCase", default)]
#[json(whole)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, FromJson)]
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
        self.ip == other.ip
            && self.hostname == other.hostname
            && self.node_name == other.node_name
            && Target::same(self.target_ref.as_ref(), other.target_ref.as_ref())
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
    /// Ports, no port at all being one more, and the marks of their addresses.
    ports: Vec<(Option<Port>, Vec<usize>)>,
    /// Where ports are.
    port_places: HashMap<Option<Port>, usize>,
}

/// An address and whether it is ready, as one number: so that all lists of them
/// are sorted by the same code. Of an address that is and is not ready, the mark
/// that it is not comes first.
fn mark(place: usize, is_ready: bool) -> usize {
    place * 2 + usize::from(is_ready)
}

impl Subsets {
    /// Gathers what is in these subsets.
    pub fn of(subsets: &[Subset]) -> Self {
        let mut gathered = Self::default();
        for subset in subsets {
            let ready = subset.addresses.iter().map(|address| (address, true));
            let not_ready = subset.not_ready_addresses.iter().map(|address| (address, false));
            let ports: Vec<usize> = match subset.ports.as_slice() {
                [] => vec![gathered.port(None)],
                ports => ports.iter().map(|port| gathered.port(Some(port.clone()))).collect(),
            };
            for (address, is_ready) in ready.chain(not_ready) {
                let place = gathered.place(address);
                ports.iter().for_each(|port| gathered.add(place, *port, is_ready));
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

    /// The place of a port; None is no port at all.
    pub fn port(&mut self, port: Option<Port>) -> usize {
        *self.port_places.entry(port).or_insert_with_key(|port| {
            self.ports.push((port.clone(), Vec::new()));
            self.ports.len() - 1
        })
    }

    /// Says that the address at a place has the port at another. Once not ready,
    /// it stays so.
    pub fn add(&mut self, place: usize, port: usize, is_ready: bool) {
        if let Some((_, marks)) = self.ports.get_mut(port) {
            marks.push(mark(place, is_ready));
        }
    }

    /// The canonical form.
    pub fn finish(self) -> Vec<Subset> {
        let Self { addresses, ports, .. } = self;
        let mut order: Vec<usize> = (0..addresses.len()).collect();
        let key = |at: usize| (&addresses[at].ip, addresses[at].uid());
        sort_by(&mut order, |a, b| key(*a).cmp(&key(*b)));
        let mut ranks = vec![0; order.len()];
        for (rank, at) in order.iter().enumerate() {
            ranks[*at] = rank;
        }
        let mut places: HashMap<Vec<usize>, usize> = HashMap::new();
        let mut groups: Vec<(Vec<usize>, Vec<Port>)> = Vec::new();
        for (port, mut marks) in ports.into_iter().filter(|(_, marks)| !marks.is_empty()) {
            for mark in &mut marks {
                *mark = ranks[*mark / 2] * 2 + *mark % 2;
            }
            sort_by(&mut marks, Ord::cmp);
            marks.dedup_by_key(|mark| *mark / 2);
            let at = *places.entry(marks).or_insert_with_key(|marks| {
                groups.push((marks.clone(), Vec::new()));
                groups.len() - 1
            });
            groups[at].1.extend(port);
        }
        let subsets = groups.into_iter().map(|(marks, ports)| {
            let mut subset = Subset { ports: port::in_order(ports, In::Subset), ..Subset::default() };
            for mark in marks {
                let address = addresses[order[mark / 2]].clone();
                let is_ready = mark % 2 == 1;
                if is_ready { &mut subset.addresses } else { &mut subset.not_ready_addresses }.push(address);
            }
            subset
        });
        // Ports tell subsets apart.
        sorted_by(subsets, |a, b| a.ports.cmp(&b.ports))
    }
}
