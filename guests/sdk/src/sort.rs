//! Sorting in little code: each sort of the standard library is 7 KB of a
//! guest for every type it is used with. Here one sort puts numbers in order,
//! and what they stand for follows.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use litemap::LiteMap;

/// Sorts, equal items in the order they came.
pub fn sort_by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let mut order = order_of(items.len(), &|a, b| compare(&items[a], &items[b]));
    // Along each cycle of the permutation, items go to their places by swaps.
    for start in 0..order.len() {
        let mut at = start;
        loop {
            let from = std::mem::replace(&mut order[at], at);
            if from == start || from == at {
                break;
            }
            items.swap(at, from);
            at = from;
        }
    }
}

/// Sorts by a key, equal items in the order they came.
pub fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(items, |a, b| key(a).cmp(&key(b)));
}

/// Sorts what comes, equal items in the order they came.
pub fn sorted_by<T>(items: impl IntoIterator<Item = T>, compare: impl Fn(&T, &T) -> Ordering) -> Vec<T> {
    let mut sorted: Vec<T> = items.into_iter().collect();
    sort_by(&mut sorted, compare);
    sorted
}

/// A set, without the sort that `collect` begins with.
pub fn set_of<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    let mut set = BTreeSet::new();
    for item in items {
        set.insert(item);
    }
    set
}

/// Texts to look up: a sorted list, at a tenth of the code of a hash table.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextSet<'a>(Vec<&'a str>);

impl<'a> FromIterator<&'a str> for TextSet<'a> {
    fn from_iter<I: IntoIterator<Item = &'a str>>(texts: I) -> Self {
        let mut sorted = sorted_by(texts, Ord::cmp);
        sorted.dedup();
        Self(sorted)
    }
}

impl<'a> TextSet<'a> {
    /// Whether it has a text.
    pub fn contains(&self, text: &str) -> bool {
        self.0.binary_search(&text).is_ok()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> {
        self.0.iter().copied()
    }
}

/// A map, without the sort that `collect` begins with. Of a key that comes again
/// the last value stays.
pub fn map_of<K: Ord, V>(items: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    for (key, value) in items {
        map.insert(key, value);
    }
    map
}

/// A map that is a sorted list: a tenth of the code of a tree. To put something
/// in before others moves them, so it is for what mostly comes in order.
pub fn lite_map_of<K: Ord, V>(items: impl IntoIterator<Item = (K, V)>) -> LiteMap<K, V> {
    let mut map = LiteMap::new();
    for (key, value) in items {
        map.insert(key, value);
    }
    map
}

/// [`lite_map_of`] what comes in any order.
pub fn lite_map_of_many<K: Ord, V>(items: impl IntoIterator<Item = (K, V)>) -> LiteMap<K, V> {
    lite_map_of(sorted_by(items, |(a, _), (b, _)| a.cmp(b)))
}

/// The order in which so many items are sorted: a merge sort, from runs of one.
fn order_of(len: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    if (1..len).all(|at| compare(at - 1, at) != Ordering::Greater) {
        return order;
    }
    let mut merged = Vec::with_capacity(len);
    let mut run = 1;
    while run < len {
        merged.clear();
        for pair in order.chunks(2 * run) {
            let (mut left, mut right) = pair.split_at(run.min(pair.len()));
            loop {
                let from = match (left.first(), right.first()) {
                    (Some(a), Some(b)) if compare(*a, *b) == Ordering::Greater => &mut right,
                    (Some(_), _) => &mut left,
                    (None, Some(_)) => &mut right,
                    (None, None) => break,
                };
                merged.push(from[0]);
                *from = &from[1..];
            }
        }
        std::mem::swap(&mut order, &mut merged);
        run *= 2;
    }
    order
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

    #[test]
    fn the_last_of_a_key_stays() {
        let pairs = [("b", 1), ("a", 2), ("b", 3), ("a", 4), ("c", 5)];
        let map = lite_map_of_many(pairs);
        assert_eq!(map.iter().collect::<Vec<_>>(), [(&"a", &4), (&"b", &3), (&"c", &5)]);
        assert_eq!(map, lite_map_of(pairs));
    }

    #[test]
    fn texts_are_found_and_counted_once() {
        let set: TextSet<'_> = ["b", "a", "b", "", "c"].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), ["", "a", "b", "c"]);
        assert_eq!(set.len(), 4);
        assert!(set.contains("") && set.contains("b") && !set.contains("bb") && !set.is_empty());
        assert!(TextSet::default().is_empty() && !TextSet::default().contains(""));
    }

    #[test]
    fn any_list_is_sorted_as_by_the_standard_library() {
        let mut state = 1_u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 16
        };
        for len in 0..200 {
            for most in [1, 3, 1000] {
                let items: Vec<_> = (0..len).map(|at| ((random() % most).to_string(), at)).collect();
                let (mut ours, mut theirs) = (items.clone(), items);
                sort_by_key(&mut ours, |item| item.0.clone());
                theirs.sort_by(|a, b| a.0.cmp(&b.0));
                assert_eq!(ours, theirs);
            }
        }
    }
}
