//! Lists of quantities by resource name.

use std::collections::BTreeMap;

use coxswain_sdk::quantity::{Family, Quantity};

/// Quantities by resource name.
pub type List = BTreeMap<String, Quantity>;

/// Adds to a list what another one holds.
pub fn add<'a, N: AsRef<str> + 'a>(list: &mut List, other: impl IntoIterator<Item = (&'a N, &'a Quantity)>) {
    for (name, quantity) in other {
        add_one(list, name.as_ref(), *quantity);
    }
}

/// Adds a quantity of one resource.
pub fn add_one(list: &mut List, name: &str, quantity: Quantity) {
    match list.get_mut(name) {
        Some(sum) => *sum += quantity,
        None => drop(list.insert(name.to_owned(), quantity)),
    }
}

/// Raises a list to what another one holds.
pub fn raise<'a>(list: &mut List, other: impl IntoIterator<Item = (&'a String, &'a Quantity)>) {
    for (name, quantity) in other {
        match list.get_mut(name) {
            Some(highest) => *highest = (*highest).max(*quantity),
            None => drop(list.insert(name.clone(), *quantity)),
        }
    }
}

/// A number of things.
pub fn count(things: usize) -> Quantity {
    Quantity::new(i64::try_from(things).unwrap_or(i64::MAX), Family::Decimal)
}
