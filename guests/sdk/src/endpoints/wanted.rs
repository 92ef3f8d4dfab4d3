//! The endpoints that are wanted, found by what makes them the same.

use std::collections::HashMap;

use super::slice::Endpoint;
use crate::sort::sorted_by;

/// Endpoints that are wanted. They come out in the order in which they went in.
#[derive(Debug, Default)]
pub struct Wanted {
    endpoints: Vec<Option<Endpoint>>,
    /// Thousands, in no order: a list that is kept sorted would take too long.
    places: HashMap<String, usize>,
    /// How many are left.
    left: usize,
    /// Before this there is nothing left.
    next: usize,
    /// Used over and over, for looking up allocates nothing.
    key: String,
}

impl Wanted {
    /// Adds an endpoint. Of two that are the same, the later one counts.
    pub fn insert(&mut self, endpoint: Endpoint) {
        identify(&mut self.key, &endpoint);
        if let Some(&place) = self.places.get(&self.key) {
            self.left += usize::from(self.endpoints[place].is_none());
            self.next = self.next.min(place);
            self.endpoints[place] = Some(endpoint);
            return;
        }
        self.places.insert(self.key.clone(), self.endpoints.len());
        self.endpoints.push(Some(endpoint));
        self.left += 1;
    }

    /// Takes out the endpoint that is the same as this one.
    pub fn remove(&mut self, same_as: &Endpoint) -> Option<Endpoint> {
        identify(&mut self.key, same_as);
        let taken = self.places.get(&self.key).and_then(|&place| self.endpoints[place].take());
        self.left -= usize::from(taken.is_some());
        taken
    }

    /// The endpoint that is the same as this one.
    pub fn get(&mut self, same_as: &Endpoint) -> Option<&Endpoint> {
        identify(&mut self.key, same_as);
        self.places.get(&self.key).and_then(|&place| self.endpoints[place].as_ref())
    }

    /// How many are left.
    pub fn len(&self) -> usize {
        self.left
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }
}

/// Takes them out, first in, first out.
impl Iterator for Wanted {
    type Item = Endpoint;

    fn next(&mut self) -> Option<Endpoint> {
        let found = self
            .endpoints
            .iter_mut()
            .enumerate()
            .skip(self.next)
            .find_map(|(at, endpoint)| endpoint.take().map(|endpoint| (at, endpoint)));
        let (at, endpoint) = found?;
        self.next = at + 1;
        self.left -= 1;
        Some(endpoint)
    }
}

/// Endpoints are the same if they have the same addresses, the same name within
/// the service, and the same object behind them.
fn identify(key: &mut String, endpoint: &Endpoint) {
    key.clear();
    let mut put = |text: &str| {
        key.push_str(text);
        // No part of a key has a line break.
        key.push('\n');
    };
    match endpoint.addresses.as_slice() {
        [one] => put(one),
        several => sorted_by(several, Ord::cmp).into_iter().for_each(|address| put(address)),
    }
    put("");
    put(endpoint.hostname.as_deref().unwrap_or(""));
    if let Some(target) = &endpoint.target_ref {
        put(&target.namespace);
        put(&target.name);
    }
}
