//! Lists of quantities by resource name.

use coxswain_sdk::FromJson;
use coxswain_sdk::quantity::{Family, Quantity};
use coxswain_sdk::read::{Failed, Reader};

/// Quantities by resource name: few, so a vector does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct List(Vec<(Box<str>, Quantity)>);

impl List {
    /// The quantity of a resource.
    pub fn get(&self, name: &str) -> Option<Quantity> {
        self.0.iter().find(|(there, _)| **there == *name).map(|(_, quantity)| *quantity)
    }

    /// All of them, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, quantity)| (&**name, *quantity))
    }

    /// Puts a quantity in its place: combined with the one that is there.
    fn put(&mut self, name: &str, quantity: Quantity, combine: fn(Quantity, Quantity) -> Quantity) {
        match self.0.iter_mut().find(|(there, _)| **there == *name) {
            Some((_, there)) => *there = combine(*there, quantity),
            None => self.0.push((name.into(), quantity)),
        }
    }

    /// Sets a quantity.
    pub fn set(&mut self, name: &str, quantity: Quantity) {
        self.put(name, quantity, |_, new| new);
    }

    /// Adds a quantity.
    pub fn add(&mut self, name: &str, quantity: Quantity) {
        self.put(name, quantity, |there, more| there + more);
    }

    /// Adds what another list holds.
    pub fn add_all(&mut self, other: &Self) {
        other.iter().for_each(|(name, quantity)| self.add(name, quantity));
    }

    /// Raises the list to what another one holds.
    pub fn raise(&mut self, other: &Self) {
        other.iter().for_each(|(name, quantity)| self.put(name, quantity, Quantity::max));
    }
}

impl FromJson for List {
    fn blank() -> Self {
        Self::default()
    }

    fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
        self.0.clear();
        reader.entries(&mut |name, value| {
            let mut quantity = Quantity::ZERO;
            if let Some(value) = value {
                quantity.read(value)?;
            }
            self.0.push((name.into_owned().into(), quantity));
            Ok(())
        })
    }
}

/// A number of things.
pub fn count(things: usize) -> Quantity {
    Quantity::new(i64::try_from(things).unwrap_or(i64::MAX), Family::Decimal)
}
