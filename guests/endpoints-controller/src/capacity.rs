//! No Endpoints object has more than a thousand addresses: it is sent whole with
//! every change.

use coxswain_sdk::endpoints::subsets::{Address, Subset};

/// The annotation that says that addresses were left out.
pub const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Its value.
pub const TRUNCATED: &str = "truncated";
/// So many addresses at most.
const MOST: usize = 1000;

/// Leaves out what is too much: first what is not ready, then what is, from every
/// subset in proportion. Returns whether anything was left out.
pub fn truncate(subsets: &mut [Subset]) -> bool {
    let ready: usize = subsets.iter().map(|subset| subset.addresses.len()).sum();
    let not_ready: usize = subsets.iter().map(|subset| subset.not_ready_addresses.len()).sum();
    if ready + not_ready <= MOST {
        return false;
    }
    match MOST.checked_sub(ready) {
        Some(room) => {
            share(subsets.iter_mut().map(|subset| &mut subset.not_ready_addresses), not_ready, room)
        }
        None => {
            for subset in &mut *subsets {
                subset.not_ready_addresses.clear();
            }
            share(subsets.iter_mut().map(|subset| &mut subset.addresses), ready, MOST);
        }
    }
    true
}

/// Shortens lists in proportion, rounded up as long as there is room.
fn share<'a>(lists: impl Iterator<Item = &'a mut Vec<Address>>, total: usize, room: usize) {
    let mut left = room;
    for list in lists {
        let share = (list.len() * room).div_ceil(total.max(1));
        list.truncate(share.min(left));
        left -= list.len();
    }
}
