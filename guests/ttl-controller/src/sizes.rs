//! Sizes of clusters, and what their nodes are told. Sizes overlap, so that a
//! cluster that grows and shrinks by a few nodes does not change its mind.

/// A size: from how many nodes, to how many, and for how many seconds things may
/// be kept.
struct Size(usize, usize, i64);

const SIZES: [Size; 5] = [
    Size(0, 100, 0),
    Size(90, 500, 15),
    Size(450, 1000, 30),
    Size(900, 2000, 60),
    Size(1800, usize::MAX, 300),
];

/// For how many seconds the nodes of a cluster of this size may keep things,
/// given what they were told before.
pub fn ttl(nodes: usize, before: Option<i64>) -> i64 {
    let fits = |size: &&Size| size.0 <= nodes && nodes <= size.1;
    let as_before = SIZES.iter().filter(fits).find(|size| Some(size.2) == before);
    as_before.or_else(|| SIZES.iter().find(fits)).map_or(0, |size| size.2)
}
