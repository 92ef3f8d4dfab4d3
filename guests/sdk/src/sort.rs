//! Sorting in little code: each sort of the standard library is 7 KB of a
//! guest for every type it is used with, which the lists here do not repay.

use std::cmp::Ordering;

/// Sorts, equal items in the order they came. Quadratic in moves, so for lists
/// of hundreds; the comparisons are few.
pub fn sorted_by<T>(items: impl IntoIterator<Item = T>, compare: impl Fn(&T, &T) -> Ordering) -> Vec<T> {
    let mut sorted: Vec<T> = Vec::new();
    for item in items {
        let at = sorted.partition_point(|before| compare(before, &item) != Ordering::Greater);
        sorted.insert(at, item);
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_items_keep_their_order() {
        let pairs = [(2, 'a'), (1, 'b'), (2, 'c'), (0, 'd'), (1, 'e')];
        let sorted = sorted_by(pairs, |a, b| a.0.cmp(&b.0));
        assert_eq!(sorted, [(0, 'd'), (1, 'b'), (1, 'e'), (2, 'a'), (2, 'c')]);
        assert!(sorted_by(Vec::<u8>::new(), Ord::cmp).is_empty());
    }
}
